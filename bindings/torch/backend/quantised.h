// Averages of floats that travel in few bits, over a group that nobody else calls meanwhile.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/group.h"
#include "tutti/tutti.h"

namespace tutti::pytorch {

class Quantised {
 public:
  // Collective, and alike on all ranks. `type` is "int8", "int4", "e4m3", "e5m2" or "e3m0".
  Quantised(const Backend& backend, const std::string& type, std::size_t block, bool pass_not_finite);
  ~Quantised();
  Quantised(const Quantised&) = delete;
  Quantised& operator=(const Quantised&) = delete;

  // In place, blocking. The residual is float32, as long as the values.
  void average(const at::Tensor& values, const std::optional<at::Tensor>& residual);

 private:
  const std::shared_ptr<Group> group_;
  tutti_quantised quantised_ = nullptr;
};

}  // namespace tutti::pytorch
