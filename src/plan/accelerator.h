// What ranks compute on: peaks from data sheets, and how much of them a training step gets, which is calibrated
// (docs/plan.md says on what).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::plan {

// Scores through memory, or one kernel: as they are now, or the first of their kind (FlashAttention 1, 2022 to 2023).
enum class Attention : unsigned char { unfused, flash, flash1 };
std::string_view name_of(Attention attention);

// Which communication runs behind computation.
struct Overlap {
  bool dp = false, tp = false, pp = false;

  bool operator==(const Overlap&) const = default;
};

struct Accelerator {
  std::string_view name, cluster;                   // and the preset of the host that it usually comes in
  double flops_per_s = 0;                           // of products of 16-bit matrices, dense
  double memory_bytes_per_s = 0, memory_bytes = 0;  // the latter as the driver reports it, where that is known
  // Shares of these that large products, attention in one kernel and all that streams through memory get, and of a
  // link's bandwidth that collectives get. But for attention's, estimates, calibrated on the three runs of GPT models
  // on A100 that docs/plan.md lists.
  double product_share = 0.80, attention_share = 0.50, memory_share = 0.70, link_share = 0.90;
  double first_attention_share = 0.34;  // of the first kernels of attention
  double edge_depth = 200;  // an estimate: what tiles of a product take to begin and end, as so much more depth
  // Estimates: between two kernels, what a collective takes besides what its schedule does, and how much longer
  // computing takes beside one, which needs cores and memory bandwidth as well.
  double kernel_s = 2e-6, call_s = 8e-6, contention = 0.25;
  double reserved_bytes = 3e9;  // an estimate: of the memory, by the driver, the libraries and what fragments
  Attention attention = Attention::flash;  // where it is left out
  Overlap overlap = {};                    // where it is left out
  double value_bytes = 2;                  // of weights, activations and gradients, where it is left out
  std::string_view source = {};

  bool operator==(const Accelerator&) const = default;
};

const std::vector<Accelerator>& accelerators();
// Throws Error(invalid_argument) with the nearest names.
const Accelerator& find_accelerator(const std::string& name);
// The one that hosts of this preset usually have; nullptr where none is known.
const Accelerator* accelerator_of_cluster(std::string_view topology);

}  // namespace tutti::plan
