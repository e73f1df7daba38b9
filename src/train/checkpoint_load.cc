// How a checkpoint comes back: rank 0 reads the index and all have it; each rank reads what it owns here, from whoever
// wrote it there, into memory beside; when all have read theirs, it goes into the strategy.
#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "train/agreement.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_folder.h"
#include "train/whole_runs.h"
#include "train/words.h"

namespace tutti::train {
namespace {

std::string words_of(const Parameter& parameter) {
  return std::string(name_of(parameter.type)) + " " + in_words(parameter.shape);
}

// How many of them are of local updates.
std::size_t outer_names(const std::vector<std::string>& arrays) {
  return static_cast<std::size_t>(
      std::ranges::count_if(arrays, [](const std::string& name) { return name.starts_with("outer_"); }));
}

// Throws where it is of another model. Returns the strategy's number of each parameter of the index, kNotHere where
// only ranks with another part of the model may have it. `arrays` is what is wanted of it.
std::vector<std::size_t> matched(const CheckpointIndex& index, const Strategy& strategy,
                                 const std::vector<std::string>& arrays, const std::string& path, bool has_all) {
  constexpr const char* kRemedy = "; build the model that it was saved from, or load from another folder";
  std::map<std::string_view, std::size_t> there;
  for (std::size_t i = 0; i < index.parameters.size(); ++i) there.emplace(index.parameters[i].name, i);
  std::vector<std::size_t> numbers(index.parameters.size(), kNotHere);
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Parameter here = whole_of(strategy.parameters()[i]);
    const auto found = there.find(here.name);
    if (found == there.end())
      refuse_call("parameter \"" + here.name + "\", " + words_of(here) + ", of this model is not in " + path + kRemedy);
    const Parameter& saved = index.parameters[found->second];
    if (saved.shape != here.shape || saved.type != here.type) {
      refuse_call("parameter \"" + here.name + "\" is " + words_of(here) + " in this model and " + words_of(saved) +
                  " in " + path + kRemedy);
    }
    numbers[found->second] = i;
    there.erase(found);
  }
  if (has_all && !there.empty()) {
    const Parameter& saved = index.parameters[there.begin()->second];
    refuse_call("parameter \"" + saved.name + "\", " + words_of(saved) + ", of " + path + " is not in this model" +
                kRemedy);
  }
  const std::vector<std::string> own = arrays_of(strategy.optimizer());
  const bool has_own = index.arrays.size() >= own.size() && std::equal(own.begin(), own.end(), index.arrays.begin());
  if (has_own && arrays.size() > own.size() && index.arrays != arrays) {
    refuse_call(path + (index.local_updates ? " was saved by local updates with other settings of momentum or bits; "
                                              "make them with the same ones"
                                            : " was saved without local updates; load it into the strategy, and make "
                                              "local updates of that"));
  }
  if (!has_own || (!index.local_updates && index.arrays != own) ||
      index.optimizer != optimizer_name(strategy.optimizer())) {
    const auto states = [](std::size_t count) {
      return " with " + std::to_string(count - 1) + (count == 2 ? " state" : " states");
    };
    const std::size_t saved = index.arrays.size() - (index.local_updates ? outer_names(index.arrays) : 0);
    refuse_call(path + " was saved with the optimizer " + index.optimizer + states(saved) + ", and this strategy has " +
                std::string(optimizer_name(strategy.optimizer())) + states(own.size()) +
                "; make the strategy with the same one");
  }
  return numbers;
}

// What a rank owns, read but not yet in its place.
struct LoadedParts {
  std::vector<OwnedPart> owned;
  std::size_t arrays = 1;           // that are wanted, the first ones of the file's
  FloatMemory memory;               // part by part, of each array in turn
  std::vector<std::size_t> begins;  // of each part
  // By parameter, in the order of the whole: which elements of which part.
  struct PartRun {
    WholeRun run;
    std::size_t part = 0;
  };
  std::vector<std::vector<PartRun>> runs_of;

  float* place(std::size_t part, std::size_t array) {
    return memory.floats.get() + begins[part] + array * owned[part].count;
  }
};

LoadedParts room_for(std::vector<OwnedPart> owned, std::size_t arrays, const Parameters& parameters) {
  LoadedParts loaded;
  loaded.arrays = arrays;
  loaded.runs_of.resize(parameters.size());
  std::size_t total = 0;
  for (const OwnedPart& part : owned) {
    for (const WholeRun& run : whole_runs(parameters[part.parameter], part.first, part.count))
      loaded.runs_of[part.parameter].push_back({run, loaded.begins.size()});
    loaded.begins.push_back(total);
    total += part.count * arrays;
  }
  for (auto& runs : loaded.runs_of)
    std::ranges::sort(runs, {}, [](const LoadedParts::PartRun& of) { return of.run.whole; });
  loaded.owned = std::move(owned);
  loaded.memory.of(total);
  return loaded;
}

// Where a piece has something that this rank owns.
void add_wanted(const CheckpointPiece& piece, const std::vector<std::size_t>& numbers, LoadedParts& loaded,
                std::vector<WantedBytes>& wanted) {
  for (const CheckpointSlice& slice : piece.slices) {
    if (numbers[slice.parameter] == kNotHere) continue;
    const std::vector<LoadedParts::PartRun>& runs = loaded.runs_of[numbers[slice.parameter]];
    // The first run that ends behind the slice's beginning; they lie one behind the other.
    auto found = std::ranges::partition_point(
        runs, [&](const LoadedParts::PartRun& of) { return of.run.whole + of.run.count <= slice.first; });
    for (; found != runs.end() && found->run.whole < slice.first + slice.count; ++found) {
      const WholeRun& run = found->run;
      const std::size_t from = std::max(run.whole, slice.first),
                        to = std::min(run.whole + run.count, slice.first + slice.count);
      if (from >= to) continue;
      const std::size_t inside = run.local + (from - run.whole) - loaded.owned[found->part].first;
      for (std::size_t array = 0; array < loaded.arrays; ++array) {
        float* place = loaded.place(found->part, array) + inside;
        wanted.push_back({slice.offsets[array] + (from - slice.first) * sizeof(float), (to - from) * sizeof(float),
                          reinterpret_cast<std::byte*>(place)});
      }
    }
  }
}

// What the strategies of this rank own.
void read_pieces(const CheckpointIndex& index, const std::string& path, const NumbersOf& numbers, int rank, int ranks,
                 std::vector<LoadedParts>& loaded) {
  for (std::size_t i = 0; i < index.pieces.size(); ++i) {
    std::vector<WantedBytes> wanted;
    for (std::size_t s = 0; s < loaded.size(); ++s) add_wanted(index.pieces[i], numbers[s], loaded[s], wanted);
    // Pieces that nobody wants anything of are looked at by somebody, too.
    const bool looked_after = i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank);
    if (wanted.empty() && !looked_after) continue;
    read_piece(path + "/" + index.pieces[i].file, index.pieces[i], index.checksum_bytes, wanted);
  }
}

void put_into(LoadedParts& loaded, std::size_t inner, const OuterArrays* outer) {
  for (std::size_t i = 0; i < loaded.owned.size(); ++i) {
    const OwnedPart& part = loaded.owned[i];
    std::vector<float*> places{part.shard.master, part.shard.states[0], part.shard.states[1]};
    places.resize(inner);
    if (outer != nullptr && part.count != 0) {
      const std::vector<float*> more = outer->places(part.parameter, part.first);
      places.insert(places.end(), more.begin(), more.end());
    }
    for (std::size_t array = 0; array < places.size(); ++array)
      std::copy_n(loaded.place(i, array), part.count, places[array]);
  }
}

}  // namespace

std::optional<CheckpointFolder::FoundCheckpoint> CheckpointFolder::find(std::optional<std::int64_t> step) {
  std::string told;  // its name, and behind a line break the index
  all_or_none(comm_, [&] {
    if (comm_.rank() != 0) return;
    const std::vector<std::int64_t> steps = saved_steps(path_);
    if (step && !std::ranges::binary_search(steps, *step)) {
      std::string words = path_ + " has no checkpoint of step " + std::to_string(*step);
      words += steps.empty() ? "; it has none" : "; it has steps";
      for (const std::int64_t other : steps) words += " " + std::to_string(other);
      refuse_call(words);
    }
    if (steps.empty()) return;
    const std::string name = saved_name(path_, step.value_or(steps.back()));
    told = name + "\n" + read_text(path_of(name) + "/" + kIndexFile);
  });
  std::size_t length = told.size();
  comm_.broadcast(one(length), 0);
  if (length == 0) return std::nullopt;
  told.resize(length);
  comm_.broadcast(told, 0);
  const std::size_t end = told.find('\n');
  return FoundCheckpoint{path_of(told.substr(0, end)), told.substr(end + 1)};
}

std::optional<TrainingPosition> CheckpointFolder::load(Strategies strategies, std::optional<std::int64_t> step,
                                                       OuterArrays* outer) {
  wait();
  const std::optional<FoundCheckpoint> saved = find(step);
  if (!saved) return std::nullopt;
  const std::string& path = saved->path;
  CheckpointIndex index;
  NumbersOf numbers;
  std::vector<std::uint8_t> found;  // by parameter of the index
  const auto arrays_wanted = [&](const Strategy& strategy) {
    std::vector<std::string> arrays = arrays_of(strategy.optimizer());
    if (outer != nullptr) arrays.insert(arrays.end(), outer->names.begin(), outer->names.end());
    return arrays;
  };
  all_or_none(comm_, [&] {
    check_between_steps(strategies, "load()");
    try {
      index = index_from_text(saved->index_text);
    } catch (const Error& error) {
      refuse_call(path + "/" + kIndexFile + " " + error.what() +
                  "; put it back from a copy, or remove the folder to load the checkpoint before");
    }
    found.resize(index.parameters.size());
    for (const Strategy* const strategy : strategies) {
      numbers.push_back(matched(index, *strategy, arrays_wanted(*strategy), path, has_all(strategies)));
      for (std::size_t i = 0; i < found.size(); ++i)
        if (numbers.back()[i] != kNotHere) found[i] = 1;
    }
  });
  bool goes_on = goes_on_compressing(index, strategies, numbers, comm_.rank(), has_all(strategies));
  if (index.compression) goes_on = on_all(goes_on);
  if (goes_on) lay_out_as_saved(index, strategies, numbers, comm_.rank());
  std::vector<std::vector<OwnedPart>> owned;
  for (Strategy* const strategy : strategies) owned.push_back(strategy->owned());
  std::vector<LoadedParts> loaded;
  LoadedCompression kept;
  all_or_none(comm_, [&] {
    for (std::size_t s = 0; s < strategies.size(); ++s)
      loaded.push_back(
          room_for(std::move(owned[s]), arrays_wanted(*strategies[s]).size(), strategies[s]->parameters()));
    read_pieces(index, path, numbers, comm_.rank(), comm_.size(), loaded);
    goes_on = goes_on && kept.read(index, strategies, numbers, comm_.rank(), path);
  });
  if (!has_all(strategies)) comm_.all_reduce(found, ReduceOp::maximum);
  if (const auto missing = std::ranges::find(found, 0); missing != found.end()) {
    refuse_call("parameter \"" + index.parameters[static_cast<std::size_t>(missing - found.begin())].name + "\" of " +
                path + " is in no rank's part of this model; build the model that it was saved from");
  }
  if (index.compression) goes_on = on_all(goes_on);  // all or nothing of it, on all ranks
  if (outer != nullptr) outer->rounds = index.local_updates.value_or(SavedRounds());
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    put_into(loaded[s], arrays_of(strategies[s]->optimizer()).size(), outer);
    const SavedCounts counts = index.counts_of(s);
    const SavedLossScale scale = counts.loss_scale.value_or(SavedLossScale());
    strategies[s]->restored(counts.updates, counts.loss_scale ? std::optional(scale.scale) : std::nullopt,
                            scale.steps_since_overflow);
  }
  if (goes_on) kept.put_in_place(index, strategies, comm_.rank());
  return index.position;
}

}  // namespace tutti::train
