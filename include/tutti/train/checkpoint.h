// Checkpoints: where training stands, kept in files, and loaded on any number of ranks and under any strategy.
//
//   train::Checkpoints checkpoints(comm, "runs/digits", {.keep = 3});
//   train::TrainingPosition at = checkpoints.load(strategy).value_or(train::TrainingPosition());
//   sampler.set_position(at.sampler);
//   while (at.step < steps) {
//     ...  strategy.step();
//     ++at.step;
//     at.sampler = sampler.position();
//     if (at.step % 100 == 0) checkpoints.save_async(strategy, at);
//   }
//   checkpoints.wait();
//
// A checkpoint is a folder: a safetensors file for each rank, with the masters and optimizer states that it wrote,
// another one with what compression keeps on that rank, and index.json, which says what lies where and has checksums.
// Masters and states are written once. It is written beside the others and gets its name when all ranks have written
// theirs to disk: what has a name is whole. Loading checks everything on all ranks before it changes anything on any.
//
// Where a model is cut over ranks (a mesh with tp), each rank's strategy has parts of it, and Checkpoints are made over
// all ranks of the mesh: what is saved are whole parameters by their names, which load on another mesh. Where several
// strategies train one model, such as experts along dp and all else along dp and ep, they are saved and loaded
// together.
//
// All ranks see the same folder, and one job at a time writes to it. Calls are collective where they say so, made by
// one thread at a time, between steps; a failure of one rank is thrown on all, with its rank and its words. They talk
// on a duplicate of the communicator. What is written in the background talks to nobody.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/sampler.h"
#include "tutti/train/strategy.h"

namespace tutti::train {

class CheckpointFolder;
class LocalUpdates;

// What a program needs besides the model to go on where it was. Rank 0's is saved.
struct TrainingPosition {
  std::int64_t step = 0;  // names the checkpoint
  SamplerPosition sampler = {};
  std::map<std::string, std::string> notes = {};  // of the program's own, in UTF-8

  bool operator==(const TrainingPosition&) const = default;
};

struct CheckpointOptions {
  // The last ones; older ones are removed once a new one is there. 0: all. Of local updates the last that all replicas
  // have, and newer ones; the same on all.
  std::size_t keep = 0;
  // How long ranks wait for one that writes or reads more slowly.
  std::chrono::milliseconds timeout{1'800'000};
};

class TUTTI_API Checkpoints {
 public:
  // Collective. The folder is made with the first checkpoint.
  Checkpoints(Communicator& communicator, const std::string& folder, const CheckpointOptions& options = {});
  Checkpoints(Checkpoints&&) noexcept;
  Checkpoints& operator=(Checkpoints&&) noexcept;
  // Waits for what this rank is writing. A checkpoint that nobody waited for gets no name.
  ~Checkpoints();

  // Collective. When it returns, the checkpoint is on disk. One of the same step is replaced; that the folder has a
  // later one is an error: it is of another run, or of one that was gone back from.
  void save(Strategy& strategy, const TrainingPosition& position);
  // Collective. Copies what this rank owns and returns; a thread writes the copy. The checkpoint gets its name in
  // test(), wait(), or the next save, which also throw what went wrong. Waits for the one before.
  void save_async(Strategy& strategy, const TrainingPosition& position);
  // The same for several strategies that train one model between them, over all ranks: one checkpoint, so that none of
  // them is ever ahead of the others. With optimizers of one kind; given in the same order when they are loaded.
  void save(const std::vector<Strategy*>& strategies, const TrainingPosition& position);
  void save_async(const std::vector<Strategy*>& strategies, const TrainingPosition& position);
  // Of local updates, by every replica into a folder of its own: over Replicas::inside. What replicas have exchanged is
  // there besides the strategy's; a Strategy loads such a checkpoint, too, without that. Not while an exchange is under
  // way: at a step where none is, or after finish(); asynchronous ones only there. With CheckpointOptions::keep
  // collective over all replicas, which tell each other what they have.
  void save(const LocalUpdates& local, const TrainingPosition& position);
  void save_async(const LocalUpdates& local, const TrainingPosition& position);
  // Collective. Whether nothing is under way any more, without waiting for the disk: one all_reduce of a byte.
  bool test();
  // Collective.
  void wait();

  // Steps that have a checkpoint, in order. Of what this rank sees.
  std::vector<std::int64_t> steps() const;

  // Collective. Puts masters, optimizer states, the count of updates and the loss scale into the strategy, and returns
  // the rest. The last checkpoint unless a step is given; nothing where the folder has none. Throws, and has changed
  // nothing, where a file is missing, cut short or damaged, or of another model or optimizer. Settings of the optimizer
  // may differ. What compression kept comes back where as many ranks compress in the same way (those of a mesh, or with
  // several strategies: with the same parts of the model and stages), and begins anew on all of them otherwise.
  // Where it comes back into a strategy before its first step, buckets are laid out as they were saved: as in a first
  // step, what values() and gradient() returned before is void, and StrategyOptions::placed tells the new places.
  std::optional<TrainingPosition> load(Strategy& strategy, std::optional<std::int64_t> step = {});
  std::optional<TrainingPosition> load(const std::vector<Strategy*>& strategies, std::optional<std::int64_t> step = {});
  // Collective over all replicas, each from its own folder: the last step that all have, unless one is given. Where one
  // cannot, all throw; others may have loaded theirs.
  std::optional<TrainingPosition> load(LocalUpdates& local, std::optional<std::int64_t> step = {});

 private:
  std::unique_ptr<CheckpointFolder> folder_;
};

}  // namespace tutti::train
