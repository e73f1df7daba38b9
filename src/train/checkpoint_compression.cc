// What compression keeps of a rank's gradients, in checkpoints. It is each rank's own, so that it comes back where a
// group of as many ranks goes on with the same settings, all of it; otherwise compression begins with nothing.
#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "train/checkpoint_files.h"
#include "train/checkpoint_folder.h"
#include "train/trainer.h"

namespace tutti::train {

void CheckpointFolder::add_kept(CheckpointWriting& writing, Strategy& strategy, int rank) {
  Trainer& trainer = strategy.trainer();
  const std::vector<KeptPart> parts = trainer.kept();
  // Chances that are drawn go by how many steps have drawn some. All ranks see it alike.
  const Quantise* const codes = std::get_if<Quantise>(&strategy.options().compression);
  const bool draws = codes != nullptr && codes->stochastic;
  if (trainer.compressed_steps() == 0 || (parts.empty() && !draws)) return;
  writing.index.compression =
      SavedCompression{trainer.compression_settings(), trainer.compressed_steps(), trainer.order()};
  writing.kept.file = compression_name(rank);
  for (const KeptPart& part : parts) {
    writing.kept.slices.push_back({part.parameter, part.first, part.count, {}, part.name});
    writing.kept_sources.push_back(part.values);
  }
}

namespace {

bool goes_on(const CheckpointIndex& index, const Trainer& trainer) {
  return index.compression && index.compression->settings == trainer.compression_settings() &&
         index.ranks == trainer.ranks();
}

// Numbers of a part that a piece has, and where; adds up how many.
std::size_t add_wanted(const CheckpointPiece& piece, const std::vector<std::size_t>& numbers, const KeptPart& part,
                       float* to, std::vector<WantedBytes>& wanted) {
  std::size_t found = 0;
  for (const CheckpointSlice& slice : piece.slices) {
    if (slice.array != part.name || numbers[slice.parameter] != part.parameter) continue;
    const std::size_t from = std::max(part.first, slice.first),
                      end = std::min(part.first + part.count, slice.first + slice.count);
    if (from >= end) continue;
    wanted.push_back({slice.offsets[0] + (from - slice.first) * sizeof(float), (end - from) * sizeof(float),
                      reinterpret_cast<std::byte*>(to + (from - part.first))});
    found += end - from;
  }
  return found;
}

}  // namespace

void lay_out_as_saved(const CheckpointIndex& index, const std::vector<std::size_t>& numbers, Strategy& strategy) {
  if (!goes_on(index, strategy.trainer())) return;
  std::vector<std::size_t> order;
  for (const std::size_t saved : index.compression->order) order.push_back(numbers[saved]);
  strategy.trainer().settle_in(order);
}

void LoadedCompression::read(const CheckpointIndex& index, const std::vector<std::size_t>& numbers, Strategy& strategy,
                             int rank, const std::string& path) {
  Trainer& trainer = strategy.trainer();
  if (!goes_on(index, trainer)) return;
  const std::vector<KeptPart> parts = trainer.kept();
  std::size_t total = 0;
  for (const KeptPart& part : parts) total += part.count;
  float* to = memory.of(total);
  std::vector<std::vector<WantedBytes>> wanted(index.compression->pieces.size());
  is_whole = true;
  for (const KeptPart& part : parts) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (part.by_owner || i == static_cast<std::size_t>(rank))
        found += add_wanted(index.compression->pieces[i], numbers, part, to, wanted[i]);
    is_whole = is_whole && found == part.count;
    to += part.count;
  }
  for (std::size_t i = 0; is_whole && i < wanted.size(); ++i) {
    const CheckpointPiece& piece = index.compression->pieces[i];
    if (!wanted[i].empty()) read_piece(path + "/" + piece.file, piece, index.checksum_bytes, wanted[i]);
  }
}

// After restored(), which made everything anew: where it goes is asked for again.
void LoadedCompression::put_in_place(const CheckpointIndex& index, Strategy& strategy) {
  Trainer& trainer = strategy.trainer();
  const float* from = memory.floats.get();
  for (const KeptPart& part : trainer.kept()) {
    std::copy_n(from, part.count, part.values);
    from += part.count;
  }
  trainer.kept_restored(index.compression->steps, index.loss_scale ? index.loss_scale->scale : 1);
}

}  // namespace tutti::train
