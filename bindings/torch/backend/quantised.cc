#include "backend/quantised.h"

#include <algorithm>
#include <iterator>

#include "backend/errors.h"
#include "backend/tensors.h"

namespace tutti::pytorch {
namespace {

tutti_quantised_type quantised_type(const std::string& name) {
  static constexpr const char* kNames[] = {"int8", "int4", "e4m3", "e5m2", "e3m0"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) throw_value("there is no type " + name + " to quantise to");
  return static_cast<tutti_quantised_type>(found - std::begin(kNames));
}

void require_plain(const at::Tensor& tensor, const char* what) {
  if (tensor.defined() && !tensor.device().is_cpu()) {
    throw_value(std::string("quantised: ") + what + " is on " + tensor.device().str() +
                "; what is quantised lies in CPU memory: use tensor.cpu(), and copy the average back");
  }
  require_usable(tensor, "quantised");
  if (!is_plain(tensor)) throw_value(std::string("the ") + what + " must be contiguous");
}

}  // namespace

Quantised::Quantised(const Backend& backend, const std::string& type, std::size_t block, bool pass_not_finite)
    : group_(backend.group()) {
  tutti_quantise settings;
  check(tutti_quantise_default(&settings, sizeof settings));
  settings.type = quantised_type(type);
  settings.block = block;
  settings.pass_not_finite = pass_not_finite ? 1 : 0;
  group_->enter(Milliseconds(0), [&](tutti_comm comm) { check(tutti_quantised_create(comm, &settings, &quantised_)); });
}

Quantised::~Quantised() { tutti_quantised_free(&quantised_); }

void Quantised::average(const at::Tensor& values, const std::optional<at::Tensor>& residual) {
  require_plain(values, "values");
  float* kept = nullptr;
  if (residual) {
    require_plain(*residual, "residual");
    if (residual->scalar_type() != at::kFloat || residual->numel() != values.numel())
      throw_value("the residual must be float32 and as long as the values");
    kept = residual->data_ptr<float>();
  }
  const tutti_type type = type_to_reduce(values, "quantised");
  group_->enter(Milliseconds(0), [&](tutti_comm) {
    const tutti_code code =
        tutti_quantised_all_reduce(quantised_, values.data_ptr(), count_of(values), type, TUTTI_AVERAGE, kept);
    if (code != TUTTI_OK) group_->fail_to_start(code);
  });
}

}  // namespace tutti::pytorch
