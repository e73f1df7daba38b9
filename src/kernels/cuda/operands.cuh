// What the kernels of this folder are given, as device/kernel_compiler.h has it. Stands before each of them.

constexpr int kMostOperands = 64;

struct Operands {
  const void* sources[kMostOperands];
  void* destinations[kMostOperands];
};
