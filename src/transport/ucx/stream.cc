#include "transport/ucx/stream.h"

#include <algorithm>

namespace tutti::transport {

Parcel& Parcels::take(std::size_t bytes) {
  const auto fits = std::lower_bound(kCapacities.begin(), kCapacities.end(), bytes);
  std::vector<Parcel*>& free = free_[static_cast<std::size_t>(fits - kCapacities.begin())];
  if (free.empty()) {
    Parcel& made = all_.emplace_back();
    made.capacity = *fits;
    made.memory = std::make_unique_for_overwrite<std::byte[]>(*fits);
    return made;
  }
  Parcel& parcel = *free.back();
  free.pop_back();
  return parcel;
}

void Parcels::give_back(Parcel& parcel) {
  const auto fits = std::lower_bound(kCapacities.begin(), kCapacities.end(), parcel.capacity);
  parcel.stream = nullptr;
  free_[static_cast<std::size_t>(fits - kCapacities.begin())].push_back(&parcel);
}

void Parcels::forget(const UcxStream& stream) {
  for (Parcel& parcel : all_) {
    if (parcel.stream == &stream) parcel.stream = nullptr;
  }
}

}  // namespace tutti::transport
