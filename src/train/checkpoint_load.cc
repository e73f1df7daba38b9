// How a checkpoint comes back: rank 0 reads the index and all have it; each rank reads what it owns here, from whoever
// wrote it there, into memory beside; when all have read theirs, it goes into the strategy.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "train/agreement.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_folder.h"
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

// Throws where it is of another model. Returns the strategy's number of each parameter of the index.
// `arrays` is what is wanted of it.
std::vector<std::size_t> matched(const CheckpointIndex& index, const Strategy& strategy,
                                 const std::vector<std::string>& arrays, const std::string& path) {
  constexpr const char* kRemedy = "; build the model that it was saved from, or load from another folder";
  std::map<std::string_view, std::size_t> there;
  for (std::size_t i = 0; i < index.parameters.size(); ++i) there.emplace(index.parameters[i].name, i);
  std::vector<std::size_t> numbers(index.parameters.size());
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Parameter& here = strategy.parameters()[i];
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
  if (!there.empty()) {
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
  std::size_t arrays = 1;                            // that are wanted, the first ones of the file's
  FloatMemory memory;                                // part by part, of each array in turn
  std::vector<std::size_t> begins;                   // of each part
  std::multimap<std::size_t, std::size_t> parts_of;  // numbers of parts, by parameter

  float* place(std::size_t part, std::size_t array) {
    return memory.floats.get() + begins[part] + array * owned[part].count;
  }
};

LoadedParts room_for(std::vector<OwnedPart> owned, std::size_t arrays) {
  LoadedParts loaded;
  loaded.arrays = arrays;
  std::size_t total = 0;
  for (const OwnedPart& part : owned) {
    loaded.parts_of.emplace(part.parameter, loaded.begins.size());
    loaded.begins.push_back(total);
    total += part.count * arrays;
  }
  loaded.owned = std::move(owned);
  loaded.memory.of(total);
  return loaded;
}

// Where a piece has something that this rank owns.
std::vector<WantedBytes> wanted_of(const CheckpointPiece& piece, const std::vector<std::size_t>& numbers,
                                   LoadedParts& loaded) {
  std::vector<WantedBytes> wanted;
  for (const CheckpointSlice& slice : piece.slices) {
    const auto [begin, end] = loaded.parts_of.equal_range(numbers[slice.parameter]);
    for (auto found = begin; found != end; ++found) {
      const OwnedPart& part = loaded.owned[found->second];
      const std::size_t from = std::max(part.first, slice.first),
                        to = std::min(part.first + part.count, slice.first + slice.count);
      if (from >= to) continue;
      for (std::size_t array = 0; array < loaded.arrays; ++array) {
        float* place = loaded.place(found->second, array) + (from - part.first);
        wanted.push_back({slice.offsets[array] + (from - slice.first) * sizeof(float), (to - from) * sizeof(float),
                          reinterpret_cast<std::byte*>(place)});
      }
    }
  }
  return wanted;
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

// The text of the index, from rank 0; nothing where there is no checkpoint.
std::optional<std::string> CheckpointFolder::index_text(std::optional<std::int64_t>& step) {
  std::optional<std::string> text;
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
    if (!step) step = steps.back();
    text = read_text(path_of(checkpoint_name(*step)) + "/" + kIndexFile);
  });
  std::int64_t told[2] = {step.value_or(0), text ? static_cast<std::int64_t>(text->size()) : -1};
  comm_.broadcast(told, 0);
  if (told[1] < 0) return std::nullopt;
  step = told[0];
  if (!text) text.emplace(static_cast<std::size_t>(told[1]), '\0');
  comm_.broadcast(*text, 0);
  return text;
}

std::optional<TrainingPosition> CheckpointFolder::load(Strategy& strategy, std::optional<std::int64_t> step,
                                                       OuterArrays* outer) {
  wait();
  const std::optional<std::string> text = index_text(step);
  if (!text) return std::nullopt;
  const std::string path = path_of(checkpoint_name(*step));
  LoadedParts loaded;
  CheckpointIndex index;
  std::vector<OwnedPart> owned = strategy.owned();
  std::vector<std::string> arrays = arrays_of(strategy.optimizer());
  const std::size_t inner = arrays.size();
  if (outer != nullptr) arrays.insert(arrays.end(), outer->names.begin(), outer->names.end());
  all_or_none(comm_, [&] {
    try {
      index = index_from_text(*text);
    } catch (const Error& error) {
      refuse_call(path + "/" + kIndexFile + " " + error.what() +
                  "; put it back from a copy, or remove the folder to load the checkpoint before");
    }
    const std::vector<std::size_t> numbers = matched(index, strategy, arrays, path);
    loaded = room_for(std::move(owned), arrays.size());
    for (std::size_t i = 0; i < index.pieces.size(); ++i) {
      std::vector<WantedBytes> wanted = wanted_of(index.pieces[i], numbers, loaded);
      // Pieces that nobody wants anything of are looked at by somebody, too.
      const bool looked_after = i % static_cast<std::size_t>(comm_.size()) == static_cast<std::size_t>(comm_.rank());
      if (wanted.empty() && !looked_after) continue;
      read_piece(path + "/" + index.pieces[i].file, index.pieces[i], index.checksum_bytes, wanted);
    }
  });
  put_into(loaded, inner, outer);
  if (outer != nullptr) outer->rounds = index.local_updates.value_or(SavedRounds());
  const SavedLossScale scale = index.loss_scale.value_or(SavedLossScale());
  strategy.restored(index.updates, index.loss_scale ? std::optional(scale.scale) : std::nullopt,
                    scale.steps_since_overflow);
  return index.position;
}

}  // namespace tutti::train
