#include "plan/accelerator.h"

#include <algorithm>
#include <iterator>

#include "base/nearest_names.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

// Calibrated on one run on H100; attention is what published measurements of its kernels have, of the first ones by how
// published steps grow with their sequences, and tiles of a device with more operations for each byte take longer to
// begin and end.
constexpr double kProductShareH100 = 0.77, kAttentionShareH100 = 0.40, kFirstAttentionShareH100 = 0.18,
                 kEdgeDepthH100 = 300;

constexpr Overlap kGradients{.dp = true}, kEverything{true, true, true};

}  // namespace

std::string_view name_of(Attention attention) {
  constexpr std::string_view kNames[] = {"unfused", "flash", "flash1"};
  return kNames[static_cast<std::size_t>(attention)];
}

const std::vector<Accelerator>& accelerators() {
  static const std::vector<Accelerator> kAccelerators{
      {.name = "a100-40",
       .cluster = "dgx-a100",
       .flops_per_s = 312e12,
       .memory_bytes_per_s = 1.555e12,
       .memory_bytes = 42.94e9,
       .attention = Attention::unfused,
       .overlap = kGradients,
       .source = "NVIDIA A100 data sheet (2021)"},
      {.name = "a100-80",
       .cluster = "dgx-a100",
       .flops_per_s = 312e12,
       .memory_bytes_per_s = 2.039e12,
       .memory_bytes = 85.89e9,
       .attention = Attention::unfused,
       .overlap = kGradients,
       .source = "NVIDIA A100 data sheet (2021)"},
      {.name = "h100",
       .cluster = "dgx-h100",
       .flops_per_s = 989.4e12,
       .memory_bytes_per_s = 3.35e12,
       .memory_bytes = 85.52e9,
       .product_share = kProductShareH100,
       .attention_share = kAttentionShareH100,
       .first_attention_share = kFirstAttentionShareH100,
       .edge_depth = kEdgeDepthH100,
       .overlap = kEverything,
       .source = "NVIDIA H100 data sheet (2023), SXM"},
      {.name = "h200",
       .cluster = "dgx-h100",
       .flops_per_s = 989.4e12,
       .memory_bytes_per_s = 4.8e12,
       .memory_bytes = 150.75e9,
       .product_share = kProductShareH100,
       .attention_share = kAttentionShareH100,
       .first_attention_share = kFirstAttentionShareH100,
       .edge_depth = kEdgeDepthH100,
       .overlap = kEverything,
       .source = "NVIDIA H200 data sheet (2024), SXM"},
      {.name = "gb200",
       .cluster = "gb200-nvl72",
       .flops_per_s = 2500e12,
       .memory_bytes_per_s = 8e12,
       .memory_bytes = 186e9,
       .product_share = kProductShareH100,
       .attention_share = kAttentionShareH100,
       .first_attention_share = kFirstAttentionShareH100,
       .edge_depth = kEdgeDepthH100,
       .overlap = kEverything,
       .source = "NVIDIA GB200 NVL72 data sheet (2024)"},
      {.name = "l40s",
       .cluster = "l40s-pcie",
       .flops_per_s = 362e12,
       .memory_bytes_per_s = 864e9,
       .memory_bytes = 48.30e9,
       .overlap = {true, false, true},
       .source = "NVIDIA L40S data sheet (2023)"},
      {.name = "cpu",
       .cluster = "cpu-25gbe",
       .flops_per_s = 0.05e12,
       .memory_bytes_per_s = 10e9,
       .memory_bytes = 4e9,
       .product_share = 0.7,
       .edge_depth = 0,
       .kernel_s = 5e-6,
       .call_s = 0,
       .contention = 0,
       .reserved_bytes = 0.2e9,
       .attention = Attention::unfused,
       .overlap = kGradients,
       .value_bytes = 4,
       .source = "an estimate of one core, float32; --flops says yours"},
  };
  return kAccelerators;
}

const Accelerator& find_accelerator(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Accelerator& accelerator : accelerators()) {
    if (accelerator.name == name) return accelerator;
    names.push_back(accelerator.name);
  }
  throw Error(ErrorCode::invalid_argument, none_called("accelerator", name, names));
}

const Accelerator* accelerator_of_cluster(std::string_view topology) {
  const struct {
    std::string_view cluster, accelerator;
  } usual[] = {{"dgx-a100", "a100-80"}, {"dgx-h100", "h100"}, {"gb200-nvl72", "gb200"}, {"l40s-pcie", "l40s"}};
  for (const auto& [cluster, accelerator] : usual)
    if (cluster == topology) return &find_accelerator(std::string(accelerator));
  return nullptr;
}

}  // namespace tutti::plan
