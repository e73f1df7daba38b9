// Sums that travel in few bits.
#include "tutti/train/quantised.h"

#include <memory>
#include <span>
#include <string>

#include "capi/errors.h"
#include "capi/handles.h"

using namespace tutti::capi;

struct tutti_quantised_s {
  std::shared_ptr<tutti::capi::Group> group;  // which the reducer works on
  tutti::train::QuantisedReducer reducer;
};

namespace {

using tutti::train::NotFinite;
using tutti::train::Quantise;
using tutti::train::QuantisedType;

static_assert(TUTTI_QUANTISED_INT8 == static_cast<int>(QuantisedType::int8));
static_assert(TUTTI_QUANTISED_INT4 == static_cast<int>(QuantisedType::int4));
static_assert(TUTTI_QUANTISED_E4M3 == static_cast<int>(QuantisedType::e4m3));
static_assert(TUTTI_QUANTISED_E5M2 == static_cast<int>(QuantisedType::e5m2));
static_assert(TUTTI_QUANTISED_E3M0 == static_cast<int>(QuantisedType::e3m0));

void check_size(std::size_t size, const char* where) {
  if (size == sizeof(tutti_quantise)) return;
  reject(std::string(where) + ": the size of the settings is " + std::to_string(size) +
         "; it must be sizeof(tutti_quantise), " + std::to_string(sizeof(tutti_quantise)));
}

Quantise settings_of(const tutti_quantise* given) {
  if (given == nullptr) return {};
  check_size(given->size, "tutti_quantised_create");
  const auto type = static_cast<unsigned>(given->type);
  if (type > TUTTI_QUANTISED_E3M0)
    reject("tutti_quantised_create: there is no type " + std::to_string(type) +
           " to quantise to; take one of TUTTI_QUANTISED_INT8 .. TUTTI_QUANTISED_E3M0");
  return {.type = static_cast<QuantisedType>(type),
          .block = given->block,
          .stochastic = given->stochastic != 0,
          .seed = given->seed,
          .not_finite = given->pass_not_finite != 0 ? NotFinite::pass : NotFinite::fail};
}

tutti::DType dtype_of(tutti_type type) {
  if (type >= tutti::kDTypes) reject("tutti_quantised_all_reduce: an element of the caller's own cannot be quantised");
  return static_cast<tutti::DType>(type);
}

tutti::ReduceOp reduction_of(tutti_op op) {
  if (op > TUTTI_LXOR) reject("tutti_quantised_all_reduce: quantised values can only be summed and averaged");
  return static_cast<tutti::ReduceOp>(op);
}

}  // namespace

extern "C" {

tutti_code tutti_quantise_default(tutti_quantise* settings, size_t size) {
  return guarded([&] {
    tutti_quantise& filled = place(settings, "tutti_quantise_default: settings");
    check_size(size, "tutti_quantise_default");
    const Quantise known;
    filled = {};
    filled.size = size;
    filled.type = static_cast<tutti_quantised_type>(known.type);
    filled.block = known.block;
  });
}

tutti_code tutti_quantised_create(tutti_comm comm, const tutti_quantise* settings, tutti_quantised* quantised) {
  return guarded([&] {
    tutti_quantised& made = place(quantised, "tutti_quantised_create: quantised");
    made = nullptr;
    tutti::Communicator& communicator = communicator_of(comm);
    made = new tutti_quantised_s{comm->group, {communicator, settings_of(settings)}};
  });
}

tutti_code tutti_quantised_all_reduce(tutti_quantised quantised, void* values, size_t count, tutti_type type,
                                      tutti_op op, float* residual) {
  return guarded([&] {
    tutti_quantised_s& known = place(quantised, "tutti_quantised_all_reduce: quantised");
    if (values == nullptr && count != 0) reject("tutti_quantised_all_reduce: values is NULL");
    known.reducer.all_reduce(values, count, dtype_of(type), reduction_of(op),
                             residual == nullptr ? std::span<float>() : std::span(residual, count));
  });
}

tutti_code tutti_quantised_free(tutti_quantised* quantised) {
  return guarded([&] { delete_handle(quantised, "tutti_quantised_free: quantised"); });
}

}  // extern "C"
