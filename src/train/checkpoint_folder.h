// What is behind Checkpoints: the folder, and the save that is under way.
//
// A save has three parts. begin() is collective: rank 0 makes a folder for what is unfinished, all ranks see it, and
// each makes a list of the slices that it will write. write() is a rank's own, on any thread. finish() is collective:
// where all have written, rank 0 writes the index and gives the folder its name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "train/checkpoint_index.h"
#include "train/trainer.h"
#include "train/words.h"
#include "tutti/communicator.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/strategy.h"

namespace tutti::train {

// Memory that is written before it is read.
struct FloatMemory {
  std::unique_ptr<float[]> floats;
  std::size_t count = 0;

  float* of(std::size_t wanted) {
    if (!floats || count < wanted) *this = {std::make_unique_for_overwrite<float[]>(wanted), wanted};
    return floats.get();
  }
};

// Steps of checkpoints that somebody has.
using StepsOf = std::function<std::vector<std::int64_t>()>;

// What local updates keep besides, for elements of parameters that this rank owns.
struct OuterArrays {
  SavedRounds rounds;
  std::vector<std::string> names;
  // Of each array, the element `first` of the parameter and those behind it.
  std::function<std::vector<float*>(std::size_t parameter, std::size_t first)> places;
  // Collective over replicas: those of the steps of each that all have.
  std::function<std::vector<std::int64_t>(const StepsOf& own)> shared_steps;
};

// One rank's part of a save.
struct CheckpointWriting {
  CheckpointIndex index;   // all but the pieces
  std::string unfinished;  // the folder's path
  CheckpointPiece piece;
  std::vector<const float*> sources;  // slice by slice, of each array in turn
  CheckpointPiece kept;               // by compression, where the index has that
  std::vector<const float*> kept_sources;
  FloatMemory copy;  // where they lie, if they were copied
  std::exception_ptr failure;
  std::atomic<bool> written = false;

  void take_copy();
  void write(int rank) noexcept;

 private:
  void write_pieces(int rank);
};

// Of one model; on every rank as many.
using Strategies = std::span<Strategy* const>;

// By strategy: the index's number of each of its parameters; or where a checkpoint is loaded, the strategy's number of
// each parameter of the index, kNotHere where it is not the strategy's.
using NumbersOf = std::vector<std::vector<std::size_t>>;
inline constexpr std::size_t kNotHere = ~std::size_t{0};

// ---- What compression keeps (checkpoint_compression.cc).

// Whether this rank goes on with what it kept: then all of its strategies do.
bool goes_on_compressing(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank,
                         bool has_all);
// Codes and selections go by bucket, so that the bits of what goes on depend on what lies beside what: in a strategy
// that has not made a step gradients lie in the order that was saved. Collective.
void lay_out_as_saved(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank);

// What it kept on this rank, read but not yet in its place.
struct LoadedCompression {
  FloatMemory memory;  // in the order of Trainer::kept(), strategy by strategy

  // Reads from the checkpoint at `path`; false where that has not all of it. Throws where a file is damaged.
  bool read(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank,
            const std::string& path);
  void put_in_place(const CheckpointIndex& index, Strategies strategies, int rank);
};

// On this rank alone: owned() and restored(), which talk, do not throw then.
inline void check_between_steps(Strategies strategies, const std::string& call) {
  if (strategies.empty()) refuse_call("a checkpoint needs a strategy");
  for (const Strategy* const strategy : strategies) strategy->trainer().check_between_steps(call);
}

class CheckpointFolder {
 public:
  CheckpointFolder(Communicator& communicator, std::string folder, const CheckpointOptions& options);

  void save(Strategies strategies, const TrainingPosition& position, bool in_background,
            const OuterArrays* outer = nullptr);
  bool test();
  void wait();
  // checkpoint_load.cc. With `outer` its arrays and rounds are loaded as well.
  std::optional<TrainingPosition> load(Strategies strategies, std::optional<std::int64_t> step,
                                       OuterArrays* outer = nullptr);
  const std::string& path() const { return path_; }

 private:
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  std::string make_unfinished(std::int64_t step);
  // Else ranks have other parts of the model, or several strategies.
  bool has_all(Strategies strategies) const {
    return strategies.size() == 1 && strategies.front()->ranks() == comm_.size();
  }
  // Collective.
  bool on_any(bool here);
  bool on_all(bool here) { return !on_any(!here); }
  void begin(Strategies strategies, const TrainingPosition& position, const OuterArrays* outer);
  void add_kept(CheckpointWriting& writing, Strategies strategies, const NumbersOf& numbers);
  void finish();
  // What is under way comes to nothing.
  void give_up(const CheckpointWriting& writing) const;
  // Checkpoints from before the last ones of these steps that are to be kept.
  void remove_before_last(const std::vector<std::int64_t>& steps) const;
  void remove_what_no_replica_needs(const OuterArrays& outer);
  void commit(CheckpointWriting& writing, const std::vector<std::string>& pieces,
              const std::vector<std::string>& kept) const;
  struct FoundCheckpoint {
    std::string path, index_text;
  };
  // Collective: what rank 0 sees goes for all. Nothing where there is no checkpoint.
  std::optional<FoundCheckpoint> find(std::optional<std::int64_t> step);

  Communicator comm_;  // of our own
  std::string path_;
  CheckpointOptions options_;
  FloatMemory spare_;  // for the next copy: new pages would cost more than copying
  std::unique_ptr<CheckpointWriting> writing_;
  std::unique_ptr<StandbyThread> thread_;  // goes before what it writes
};

}  // namespace tutti::train
