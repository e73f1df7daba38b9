// Copies on a CUDA device, all those of a call in one launch: every byte is read once, and written to all places that
// it has to go to.
//
// The launch has gridDim.y pieces of `bytes`. Each source has `columns` of them, one behind the other, and piece (from,
// to) goes to place `from` of a destination: of the one of that number where there are several columns, else of all.
//   broadcast    one source, one column       scatter     one source, a column for each rank
//   all_gather   p sources, one column        all_to_all  p sources, a column for each rank
//   gather       the same, one destination

constexpr int kAtOnce = 4;  // reads of a thread that are under way together

template <class Unit>
static __device__ void copy_piece(const Operands& operands, const char* source, int begin, int end,
                                  unsigned long long place, unsigned long long bytes) {
  const unsigned long long threads = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const unsigned long long units = bytes / sizeof(Unit);
  for (unsigned long long at = first; at < units; at += kAtOnce * threads) {
    Unit values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (at + i * threads < units) values[i] = reinterpret_cast<const Unit*>(source)[at + i * threads];
    for (int d = begin; d < end; ++d) {
      char* const destination = static_cast<char*>(operands.destinations[d]) + place;
      if (destination == source) continue;  // in place
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (at + i * threads < units) reinterpret_cast<Unit*>(destination)[at + i * threads] = values[i];
    }
  }
  for (unsigned long long at = units * sizeof(Unit) + first; at < bytes; at += threads) {
    const char value = source[at];
    for (int d = begin; d < end; ++d) static_cast<char*>(operands.destinations[d])[place + at] = value;
  }
}

// `unit`: the bytes of one access, to multiples of which all operands and pieces are aligned.
extern "C" __global__ void __launch_bounds__(512)
    tutti_copy(Operands operands, int destinations, int columns, unsigned long long bytes, int unit) {
  const int from = blockIdx.y / columns, to = blockIdx.y % columns;
  const char* const source = static_cast<const char*>(operands.sources[from]) + to * bytes;
  const int begin = columns > 1 ? to : 0, end = columns > 1 ? to + 1 : destinations;
  switch (unit) {
    case 16: return copy_piece<uint4>(operands, source, begin, end, from * bytes, bytes);
    case 8: return copy_piece<uint2>(operands, source, begin, end, from * bytes, bytes);
    case 4: return copy_piece<unsigned>(operands, source, begin, end, from * bytes, bytes);
    case 2: return copy_piece<unsigned short>(operands, source, begin, end, from * bytes, bytes);
    default: return copy_piece<char>(operands, source, begin, end, from * bytes, bytes);
  }
}
