// What compression keeps of a rank's gradients, in checkpoints. It is each rank's own, so that it comes back where a
// group of as many ranks goes on with the same settings, all of it; otherwise compression begins with nothing. Where
// ranks have other parts of the model, or several strategies, they have to be the same ranks of the same mesh.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/checkpoint_files.h"
#include "train/checkpoint_folder.h"
#include "train/checksum.h"
#include "train/trainer.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// Chances that are drawn go by how many steps have drawn some. All ranks of a strategy see it alike.
bool keeps_something(const Strategy& strategy, const std::vector<KeptPart>& parts) {
  const Quantise* const codes = std::get_if<Quantise>(&strategy.options().compression);
  const bool draws = codes != nullptr && codes->stochastic;
  return strategy.trainer().compressed_steps() > 0 && (!parts.empty() || draws);
}

void add_parts(CheckpointWriting& writing, const std::vector<KeptPart>& parts,
               const std::vector<std::size_t>& numbers) {
  for (const KeptPart& part : parts) {
    writing.kept.slices.push_back({numbers[part.parameter], part.first, part.count, {}, part.name});
    writing.kept_sources.push_back(part.values);
  }
}

// What tells a rank from all others whose kept numbers are not its own.
std::string maker_of(Strategies strategies) {
  std::string text;
  for (const Strategy* const strategy : strategies) {
    text += "stage " + std::to_string(strategy->stage()) + ", rank " + std::to_string(strategy->rank()) + " of " +
            std::to_string(strategy->ranks()) + ", " + strategy->trainer().compression_settings() + "\n";
    for (const Parameter& parameter : strategy->parameters()) {
      text += parameter.name + " " + in_words(parameter.shape);
      if (const auto& part = parameter.part)
        text += " from " + std::to_string(part->first) + " of every " + std::to_string(part->row);
      text += "\n";
    }
  }
  return sha256_of(std::as_bytes(std::span(text)));
}

}  // namespace

void CheckpointFolder::add_kept(CheckpointWriting& writing, Strategies strategies, const NumbersOf& numbers) {
  writing.kept.file = compression_name(comm_.rank());
  Trainer& first = strategies.front()->trainer();
  if (has_all(strategies)) {
    const std::vector<KeptPart> parts = first.kept();
    if (!keeps_something(*strategies.front(), parts)) return;
    writing.index.compression = SavedCompression{first.compression_settings(), first.compressed_steps(), first.order()};
    return add_parts(writing, parts, numbers[0]);
  }
  KeptOrigin origin{maker_of(strategies), {}, {}};
  bool keeps = false;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    Trainer& trainer = strategies[i]->trainer();
    origin.steps.push_back(trainer.compressed_steps());
    for (const std::size_t parameter : trainer.order()) origin.order.push_back(numbers[i][parameter]);
    const std::vector<KeptPart> parts = trainer.kept();
    if (!keeps_something(*strategies[i], parts)) continue;
    keeps = true;
    add_parts(writing, parts, numbers[i]);
  }
  if (!on_any(keeps)) return;
  writing.kept.origin = std::move(origin);
  writing.index.compression = SavedCompression{first.compression_settings(), first.compressed_steps()};
}

namespace {

std::vector<std::size_t> order_in(const std::vector<std::size_t>& saved, const std::vector<std::size_t>& numbers) {
  std::vector<std::size_t> order;
  for (const std::size_t parameter : saved)
    if (numbers[parameter] != kNotHere) order.push_back(numbers[parameter]);
  return order;
}

const std::vector<std::size_t>& saved_order(const SavedCompression& saved, int rank) {
  const auto& origin = saved.pieces[static_cast<std::size_t>(rank)].origin;
  return origin ? origin->order : saved.order;
}

std::int64_t steps_of(const SavedCompression& saved, int rank, std::size_t strategy) {
  const auto& origin = saved.pieces[static_cast<std::size_t>(rank)].origin;
  return origin ? origin->steps[strategy] : saved.steps;
}

// Numbers [begin, end) of a part.
using FoundRange = std::pair<std::size_t, std::size_t>;

// Numbers of a part that a piece has, and where.
void add_wanted(const CheckpointPiece& piece, const std::vector<std::size_t>& numbers, const KeptPart& part, float* to,
                std::vector<WantedBytes>& wanted, std::vector<FoundRange>& found) {
  for (const CheckpointSlice& slice : piece.slices) {
    if (slice.array != part.name || numbers[slice.parameter] != part.parameter) continue;
    const std::size_t from = std::max(part.first, slice.first),
                      end = std::min(part.first + part.count, slice.first + slice.count);
    if (from >= end) continue;
    wanted.push_back({slice.offsets[0] + (from - slice.first) * sizeof(float), (end - from) * sizeof(float),
                      reinterpret_cast<std::byte*>(to + (from - part.first))});
    found.emplace_back(from, end);
  }
}

// Whether each is there once.
bool is_whole(const KeptPart& part, std::vector<FoundRange>& found) {
  std::ranges::sort(found);
  std::size_t at = part.first;
  for (const auto& [begin, end] : found) {
    if (begin != at) return false;
    at = end;
  }
  return at == part.first + part.count;
}

}  // namespace

bool goes_on_compressing(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank,
                         bool has_all) {
  if (!index.compression) return false;
  const SavedCompression& saved = *index.compression;
  if (has_all) {
    const Trainer& trainer = strategies.front()->trainer();
    return !saved.pieces.front().origin && saved.settings == trainer.compression_settings() &&
           index.ranks == trainer.ranks();
  }
  if (static_cast<std::size_t>(rank) >= saved.pieces.size()) return false;
  const auto& origin = saved.pieces[static_cast<std::size_t>(rank)].origin;
  if (!origin || origin->maker != maker_of(strategies) || origin->steps.size() != strategies.size()) return false;
  for (std::size_t i = 0; i < strategies.size(); ++i)
    if (order_in(origin->order, numbers[i]).size() != strategies[i]->size()) return false;
  return true;
}

void lay_out_as_saved(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank) {
  for (std::size_t i = 0; i < strategies.size(); ++i)
    strategies[i]->trainer().settle_in(order_in(saved_order(*index.compression, rank), numbers[i]));
}

bool LoadedCompression::read(const CheckpointIndex& index, Strategies strategies, const NumbersOf& numbers, int rank,
                             const std::string& path) {
  const SavedCompression& saved = *index.compression;
  std::vector<std::vector<KeptPart>> parts_of(strategies.size());
  std::size_t total = 0;
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    if (steps_of(saved, rank, s) > 0) parts_of[s] = strategies[s]->trainer().kept();
    for (const KeptPart& part : parts_of[s]) total += part.count;
  }
  float* to = memory.of(total);
  std::vector<std::vector<WantedBytes>> wanted(saved.pieces.size());
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    for (const KeptPart& part : parts_of[s]) {
      std::vector<FoundRange> found;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (i == static_cast<std::size_t>(rank) || (part.by_owner && !saved.pieces[i].origin))
          add_wanted(saved.pieces[i], numbers[s], part, to, wanted[i], found);
      if (!is_whole(part, found)) return false;
      to += part.count;
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const CheckpointPiece& piece = saved.pieces[i];
    if (!wanted[i].empty()) read_piece(path + "/" + piece.file, piece, index.checksum_bytes, wanted[i]);
  }
  return true;
}

// After restored(), which made everything anew: where it goes is asked for again.
void LoadedCompression::put_in_place(const CheckpointIndex& index, Strategies strategies, int rank) {
  const float* from = memory.floats.get();
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    const std::int64_t steps = steps_of(*index.compression, rank, s);
    if (steps == 0) continue;
    Trainer& trainer = strategies[s]->trainer();
    for (const KeptPart& part : trainer.kept()) {
      std::copy_n(from, part.count, part.values);
      from += part.count;
    }
    const SavedCounts counts = index.counts_of(s);
    trainer.kept_restored(steps, counts.loss_scale ? counts.loss_scale->scale : 1);
  }
}

}  // namespace tutti::train
