#include "tutti/train/checkpoint.h"

#include <algorithm>
#include <map>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "base/folders.h"
#include "train/agreement.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_folder.h"
#include "train/local_updater.h"
#include "train/whole_runs.h"
#include "train/words.h"
#include "tutti/train/local_updates.h"

namespace tutti::train {
namespace {

// On rank 0; nothing on others.
std::vector<std::string> texts_of_all(Communicator& comm, const std::string& own) {
  const std::size_t length = own.size();
  std::vector<std::size_t> lengths(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::span(&length, 1), lengths);
  std::string all(comm.rank() == 0 ? std::reduce(lengths.begin(), lengths.end()) : 0, '\0');
  comm.gather_v(own, all, {.counts = lengths}, 0);
  std::vector<std::string> texts;
  for (std::size_t rank = 0, at = 0; comm.rank() == 0 && rank < lengths.size(); at += lengths[rank++])
    texts.push_back(all.substr(at, lengths[rank]));
  return texts;
}

// In data parallel everybody owns everything: the part of it that one rank writes, cut at blocks.
std::vector<OwnedPart> share_of(const std::vector<OwnedPart>& parts, int rank, int ranks) {
  constexpr std::size_t kCut = 1024;
  std::size_t total = 0;
  for (const OwnedPart& part : parts) total += part.count;
  const auto border = [&](int number) {
    const std::size_t blocks = (total + kCut - 1) / kCut;
    return std::min(total, blocks * static_cast<std::size_t>(number) / static_cast<std::size_t>(ranks) * kCut);
  };
  const std::size_t begin = border(rank), end = border(rank + 1);
  std::vector<OwnedPart> share;
  std::size_t at = 0;
  for (const OwnedPart& part : parts) {
    const std::size_t from = std::max(begin, at), to = std::min(end, at + part.count), skipped = from - at;
    at += part.count;
    if (from >= to) continue;
    OwnedPart& cut = share.emplace_back(part);
    cut.first += skipped;
    cut.count = cut.shard.count = to - from;
    cut.shard.master += skipped;
    for (float*& state : cut.shard.states)
      if (state != nullptr) state += skipped;
  }
  return share;
}

SavedCounts counts_of(const Strategy& strategy) {
  SavedCounts counts{strategy.updates()};
  if (strategy.options().loss_scale)
    counts.loss_scale = SavedLossScale{strategy.loss_scale(), strategy.steps_since_overflow()};
  return counts;
}

CheckpointIndex facts_of(Strategies strategies, const TrainingPosition& position, int ranks) {
  const Strategy& first = *strategies.front();
  CheckpointIndex index;
  index.position = position;
  index.ranks = ranks;
  index.stage = first.stage();
  index.optimizer = optimizer_name(first.optimizer());
  index.settings = optimizer_settings(first.optimizer());
  index.arrays = arrays_of(first.optimizer());
  index.updates = counts_of(first).updates;
  index.loss_scale = counts_of(first).loss_scale;
  for (const Strategy* const strategy : strategies.subspan(1)) index.others.push_back(counts_of(*strategy));
  for (const Strategy* const strategy : strategies)
    for (const Parameter& parameter : strategy->parameters()) index.parameters.push_back(whole_of(parameter));
  return index;
}

void check_optimizers(Strategies strategies) {
  const Optimizer& first = strategies.front()->optimizer();
  for (const Strategy* const strategy : strategies)
    if (optimizer_name(strategy->optimizer()) != optimizer_name(first) ||
        arrays_of(strategy->optimizer()) != arrays_of(first))
      refuse_call("strategies with " + std::string(optimizer_name(first)) + " and " +
                  std::string(optimizer_name(strategy->optimizer())) +
                  " and their states in one checkpoint; give them the same optimizer, or a folder each");
}

// Of a strategy over all ranks.
void check_whole(const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    if (parameter.part && parameter.part->count != parameter.part->row)
      refuse_call("parameter \"" + parameter.name +
                  "\" is a part of a larger one, whose other parts ranks beyond these have; make Checkpoints over "
                  "all ranks of the mesh");
}

// Where ranks have parts of a model, all parameters of all of them; the first rank that has one tells where it stands.
Parameters parameters_of_all(Communicator& comm, const Parameters& own) {
  std::string text;
  all_or_none(comm, [&] { text = to_text(own); });
  const std::vector<std::string> texts = texts_of_all(comm, text);
  text.clear();
  all_or_none(comm, [&] {
    Parameters all;
    std::map<std::string, std::size_t> places;
    for (const std::string& of_rank : texts) {
      for (const Parameter& parameter : parameters_from_text(of_rank)) {
        const auto [place, is_new] = places.emplace(parameter.name, all.size());
        if (is_new) {
          all.push_back(parameter);
        } else if (all[place->second].shape != parameter.shape || all[place->second].type != parameter.type) {
          refuse_call("parameter \"" + parameter.name + "\" is " + in_words(parameter.shape) + " on one rank and " +
                      in_words(all[place->second].shape) + " on another; name what differs apart");
        }
      }
    }
    if (comm.rank() == 0) text = to_text(all);
  });
  std::size_t length = text.size();
  comm.broadcast(one(length), 0);
  text.resize(length);
  comm.broadcast(text, 0);
  return parameters_from_text(text);
}

// Of this rank's parameters.
std::vector<std::size_t> numbers_in(const Parameters& all, const Parameters& own) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i) places.emplace(all[i].name, i);
  std::vector<std::size_t> numbers;
  for (const Parameter& parameter : own) numbers.push_back(places.at(parameter.name));
  return numbers;
}

}  // namespace

void CheckpointWriting::take_copy() {
  std::size_t total = 0;
  for (const CheckpointSlice& slice : piece.slices) total += slice.count * index.arrays.size();
  for (const CheckpointSlice& slice : kept.slices) total += slice.count;
  float* to = nullptr;
  try {
    to = copy.of(total);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::system, "there is no memory for a copy of " + std::to_string((total * sizeof(float)) >> 20) +
                                       " MB of what is to be saved in the background; save() needs none");
  }
  const auto take = [&](const float*& source, std::size_t count) {
    std::copy_n(source, count, to);
    source = std::exchange(to, to + count);
  };
  for (std::size_t i = 0; i < sources.size(); ++i) take(sources[i], piece.slices[i / index.arrays.size()].count);
  for (std::size_t i = 0; i < kept_sources.size(); ++i) take(kept_sources[i], kept.slices[i].count);
}

void CheckpointWriting::write_pieces(int rank) {
  const std::vector<std::pair<std::string, std::string>> metadata{{"format", "tutti"},
                                                                  {"rank", std::to_string(rank)},
                                                                  {"ranks", std::to_string(index.ranks)},
                                                                  {"step", std::to_string(index.position.step)}};
  const auto write_file = [&](CheckpointPiece& written_piece, const auto& make_header, const auto& write_arrays) {
    const std::string path = unfinished + "/" + written_piece.file;
    std::string header;
    try {
      header = make_header();
    } catch (const Error& error) {
      throw Error(error.code(), path + " " + error.what());
    }
    PieceFile file(path);
    file.write(std::as_bytes(std::span(header)));
    write_arrays(file);
    file.finish(written_piece);
  };
  write_file(
      piece, [&] { return safetensors_header(index.parameters, index.arrays, metadata, piece.slices); },
      [&](PieceFile& file) {
        const std::size_t arrays = index.arrays.size();
        for (std::size_t array = 0; array < arrays; ++array)
          for (std::size_t i = 0; i < piece.slices.size(); ++i)
            file.write(std::as_bytes(std::span(sources[i * arrays + array], piece.slices[i].count)));
      });
  if (!index.compression) return;
  write_file(
      kept, [&] { return safetensors_header(index.parameters, metadata, kept.slices); },
      [&](PieceFile& file) {
        for (std::size_t i = 0; i < kept.slices.size(); ++i)
          file.write(std::as_bytes(std::span(kept_sources[i], kept.slices[i].count)));
      });
}

void CheckpointWriting::write(int rank) noexcept {
  try {
    write_pieces(rank);
  } catch (...) {
    failure = std::current_exception();
  }
  written.store(true, std::memory_order_release);
}

CheckpointFolder::CheckpointFolder(Communicator& communicator, std::string folder, const CheckpointOptions& options)
    : comm_(communicator.duplicate()), path_(std::move(folder)), options_(options) {
  if (path_.empty()) refuse_call("checkpoints need a folder; its name is empty");
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  comm_.set_timeout(options_.timeout);
}

// Makes the folder on rank 0; returns its path, on ranks that see it.
std::string CheckpointFolder::make_unfinished(std::int64_t step) {
  all_or_none(comm_, [&] {
    if (comm_.rank() != 0) return;
    if (step < 0) refuse_call("step " + std::to_string(step) + ": steps are counted from 0 on");
    make_folder(path_);
    const std::vector<std::int64_t> steps = saved_steps(path_);
    if (!steps.empty() && steps.back() > step) {
      refuse_call(path_ + " has a checkpoint of step " + std::to_string(steps.back()) + ", later than step " +
                  std::to_string(step) +
                  " that is to be saved: it is of another run; save to another folder, or remove what is later");
    }
    remove_unfinished(path_);
  });
  std::int64_t named[2] = {step, std::random_device()()};  // by rank 0
  comm_.broadcast(named, 0);
  const std::string path = path_of(unfinished_name(named[0], static_cast<std::uint64_t>(named[1])));
  all_or_none(comm_, [&] {
    if (comm_.rank() == 0) make_folder(path);
  });
  all_or_none(comm_, [&] {
    if (!is_folder(path)) {
      refuse_call("does not see the folder " + path +
                  " that rank 0 has made; checkpoints need a folder that all hosts share");
    }
  });
  return path;
}

namespace {

// Slices of a strategy's parameters that this rank writes.
void add_slices(CheckpointWriting& writing, Strategy& strategy, const std::vector<OwnedPart>& owned,
                const std::vector<std::size_t>& numbers, const OuterArrays* outer) {
  const std::size_t inner = arrays_of(strategy.optimizer()).size();
  const auto add = [&](const OwnedPart& part) {
    const Parameter& parameter = strategy.parameters()[part.parameter];
    // What ranks with other parts of the model hold alike is written by the one that counts it.
    const auto& counts = strategy.options().counts_in_norm;
    if (counts && !counts(parameter)) return;
    for (const WholeRun& run : whole_runs(parameter, part.first, part.count)) {
      writing.piece.slices.push_back({numbers[part.parameter], run.whole, run.count, {}});
      const float* const places[] = {part.shard.master, part.shard.states[0], part.shard.states[1]};
      for (std::size_t array = 0; array < inner; ++array)
        writing.sources.push_back(part.count == 0 ? nullptr : places[array] + (run.local - part.first));
      if (outer == nullptr) continue;
      const std::vector<float*> more = outer->places(part.parameter, run.local);
      writing.sources.insert(writing.sources.end(), more.begin(), more.end());
    }
  };
  for (const OwnedPart& part : strategy.stage() == 0 ? share_of(owned, strategy.rank(), strategy.ranks()) : owned)
    if (part.count != 0) add(part);
  // Parameters without elements are nobody's, and part of the model.
  for (std::size_t i = 0; strategy.rank() == 0 && i < strategy.size(); ++i)
    if (strategy.elements(i) == 0) add({.parameter = i, .first = 0, .count = 0, .shard = {}});
}

}  // namespace

bool CheckpointFolder::on_any(bool here) {
  std::uint8_t flag = here ? 1 : 0;
  comm_.all_reduce(one(flag), ReduceOp::maximum);
  return flag != 0;
}

void CheckpointFolder::begin(Strategies strategies, const TrainingPosition& position, const OuterArrays* outer) {
  all_or_none(comm_, [&] {
    check_between_steps(strategies, "save()");
    check_optimizers(strategies);
    if (has_all(strategies)) check_whole(strategies.front()->parameters());
  });
  std::vector<std::vector<OwnedPart>> owned;
  for (Strategy* const strategy : strategies) owned.push_back(strategy->owned());
  auto writing = std::make_unique<CheckpointWriting>();
  writing->index = facts_of(strategies, position, comm_.size());
  if (!has_all(strategies)) writing->index.parameters = parameters_of_all(comm_, writing->index.parameters);
  NumbersOf numbers;
  for (const Strategy* const strategy : strategies)
    numbers.push_back(numbers_in(writing->index.parameters, strategy->parameters()));
  if (outer != nullptr) {
    writing->index.local_updates = outer->rounds;
    writing->index.arrays.insert(writing->index.arrays.end(), outer->names.begin(), outer->names.end());
  }
  writing->unfinished = make_unfinished(position.step);
  writing->piece.file = piece_name(comm_.rank());
  for (std::size_t i = 0; i < strategies.size(); ++i) add_slices(*writing, *strategies[i], owned[i], numbers[i], outer);
  add_kept(*writing, strategies, numbers);
  writing_ = std::move(writing);
}

void CheckpointFolder::save(Strategies strategies, const TrainingPosition& position, bool in_background,
                            const OuterArrays* outer) {
  wait();
  if (outer != nullptr) remove_what_no_replica_needs(*outer);
  begin(strategies, position, outer);
  if (!in_background) {
    writing_->write(comm_.rank());
    return finish();
  }
  try {
    all_or_none(comm_, [&] {
      writing_->copy = std::move(spare_);
      writing_->take_copy();
      thread_ = std::make_unique<StandbyThread>("to write a checkpoint");
    });
  } catch (const Error&) {
    thread_.reset();
    give_up(*std::exchange(writing_, nullptr));
    throw;
  }
  thread_->run([writing = writing_.get(), rank = comm_.rank()] { writing->write(rank); });
}

bool CheckpointFolder::test() {
  if (!writing_) return true;
  std::uint8_t written = writing_->written.load(std::memory_order_acquire) ? 1 : 0;
  comm_.all_reduce(std::span(&written, 1), ReduceOp::minimum);
  if (written != 0) finish();
  return written != 0;
}

void CheckpointFolder::wait() {
  if (writing_) finish();
}

void CheckpointFolder::finish() {
  thread_.reset();  // at the end of its work
  const std::unique_ptr<CheckpointWriting> writing = std::move(writing_);
  if (writing->copy.count != 0) spare_ = std::move(writing->copy);
  try {
    all_or_none(comm_, [&] {
      if (writing->failure) std::rethrow_exception(writing->failure);
    });
    const std::vector<std::string> pieces = texts_of_all(comm_, to_text(writing->piece));
    std::vector<std::string> kept;
    if (writing->index.compression) kept = texts_of_all(comm_, to_text(writing->kept));
    all_or_none(comm_, [&] {
      if (comm_.rank() == 0) commit(*writing, pieces, kept);
    });
  } catch (const Error&) {
    give_up(*writing);
    throw;
  }
}

void CheckpointFolder::give_up(const CheckpointWriting& writing) const {
  if (comm_.rank() == 0) static_cast<void>(remove_all(writing.unfinished));  // or the next save does
}

void CheckpointFolder::commit(CheckpointWriting& writing, const std::vector<std::string>& pieces,
                              const std::vector<std::string>& kept) const {
  for (const std::string& piece : pieces) writing.index.pieces.push_back(piece_from_text(piece));
  for (const std::string& piece : kept) writing.index.compression->pieces.push_back(piece_from_text(piece));
  const std::string path = path_of(checkpoint_name(writing.index.position.step));
  const std::string text = to_text(writing.index);
  try {
    static_cast<void>(index_from_text(text));
  } catch (const Error& error) {
    refuse_call(
        "the checkpoint would not load: it " + std::string(error.what()) +
        "; make Checkpoints over all ranks that have the model and no others, and where ranks have parts of it, "
        "have counts_in_norm take what several hold alike on one of them");
  }
  write_text(writing.unfinished + "/" + kIndexFile, text);
  put_in_place(writing.unfinished, path);
  if (!writing.index.local_updates) remove_before_last(saved_steps(path_));
}

void CheckpointFolder::remove_before_last(const std::vector<std::int64_t>& steps) const {
  if (options_.keep == 0 || options_.keep >= steps.size()) return;
  const std::int64_t first = steps[steps.size() - options_.keep];
  for (const std::int64_t step : saved_steps(path_))
    if (step < first) remove_checkpoint(path_of(saved_name(path_, step)));
}

// What is on its way on another replica may never come to its end: only what all have counts.
void CheckpointFolder::remove_what_no_replica_needs(const OuterArrays& outer) {
  if (options_.keep == 0) return;
  const std::vector<std::int64_t> shared = outer.shared_steps([&] { return saved_steps(path_); });
  all_or_none(comm_, [&] {
    if (comm_.rank() == 0) remove_before_last(shared);
  });
}

Checkpoints::Checkpoints(Communicator& communicator, const std::string& folder, const CheckpointOptions& options)
    : folder_(std::make_unique<CheckpointFolder>(communicator, folder, options)) {}
Checkpoints::Checkpoints(Checkpoints&&) noexcept = default;
Checkpoints& Checkpoints::operator=(Checkpoints&&) noexcept = default;
Checkpoints::~Checkpoints() = default;

void Checkpoints::save(Strategy& strategy, const TrainingPosition& position) { save(std::vector{&strategy}, position); }
void Checkpoints::save_async(Strategy& strategy, const TrainingPosition& position) {
  save_async(std::vector{&strategy}, position);
}
void Checkpoints::save(const std::vector<Strategy*>& strategies, const TrainingPosition& position) {
  folder_->save(strategies, position, false);
}
void Checkpoints::save_async(const std::vector<Strategy*>& strategies, const TrainingPosition& position) {
  folder_->save(strategies, position, true);
}
void Checkpoints::save(const LocalUpdates& local, const TrainingPosition& position) {
  const OuterArrays outer = local.updater().outer_arrays();
  Strategy* const strategy = &local.strategy();
  folder_->save({&strategy, 1}, position, false, &outer);
}
void Checkpoints::save_async(const LocalUpdates& local, const TrainingPosition& position) {
  const OuterArrays outer = local.updater().outer_arrays();
  Strategy* const strategy = &local.strategy();
  folder_->save({&strategy, 1}, position, true, &outer);
}
std::optional<TrainingPosition> Checkpoints::load(LocalUpdates& local, std::optional<std::int64_t> step) {
  const auto own = [&] { return step ? std::vector{*step} : steps(); };
  return local.updater().load_alike(own, [&](std::int64_t agreed) {
    OuterArrays outer = local.updater().outer_arrays();
    Strategy* const strategy = &local.strategy();
    const std::optional<TrainingPosition> position = folder_->load({&strategy, 1}, agreed, &outer);
    local.updater().restored(outer.rounds);
    return position;
  });
}
bool Checkpoints::test() { return folder_->test(); }
void Checkpoints::wait() { folder_->wait(); }
std::vector<std::int64_t> Checkpoints::steps() const { return saved_steps(folder_->path()); }
std::optional<TrainingPosition> Checkpoints::load(Strategy& strategy, std::optional<std::int64_t> step) {
  return load(std::vector{&strategy}, step);
}
std::optional<TrainingPosition> Checkpoints::load(const std::vector<Strategy*>& strategies,
                                                  std::optional<std::int64_t> step) {
  return folder_->load(strategies, step);
}

}  // namespace tutti::train
