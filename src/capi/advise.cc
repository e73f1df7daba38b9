// In how few bytes gradients had better travel.
#include "tutti/train/advise.h"

#include <span>
#include <string>
#include <vector>

#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/told.h"

using namespace tutti::capi;

struct tutti_advice_s {
  tutti::train::Advice advice;
};

namespace {

using tutti::train::AdviseOptions;

// What AdviseOptions begin with, where C can point at it.
const std::vector<std::int64_t>& usual_local_updates() {
  static const std::vector<std::int64_t> kUsual = AdviseOptions().local_updates;
  return kUsual;
}

void check_settings_size(std::size_t size, const char* where) {
  if (size == sizeof(tutti_advise_settings)) return;
  reject(std::string(where) + ": the size of the settings is " + std::to_string(size) +
         "; it must be sizeof(tutti_advise_settings), " + std::to_string(sizeof(tutti_advise_settings)));
}

AdviseOptions options_of(const tutti_advise_settings* given) {
  AdviseOptions options;
  if (given == nullptr) return options;
  check_settings_size(given->size, "tutti_advise");
  if (given->local_updates == nullptr && given->local_updates_count != 0)
    reject("tutti_advise: local_updates is NULL; pass numbers of steps, or a local_updates_count of 0");
  options.stage = given->stage;
  options.strategy.bucket_bytes = given->bucket_bytes;
  options.strategy.compress_from_step = given->compress_from_step;
  if (given->clips != 0) options.strategy.clip_norm = 1;  // only whether there is one counts
  if (given->computing_us >= 0) options.computing_us = given->computing_us;
  if (given->measure >= 0) options.measure = given->measure != 0;
  options.worth = given->worth;
  options.local_updates.assign(given->local_updates, given->local_updates + given->local_updates_count);
  return options;
}

tutti::train::Parameter parameter_of(const tutti_parameter& given, std::size_t number) {
  const std::string which = "tutti_advise: parameter " + std::to_string(number);
  if (given.name == nullptr) reject(which + ": its name is NULL");
  if (given.shape == nullptr && given.dimensions != 0) reject(which + ": its shape is NULL");
  if (given.type != TUTTI_FLOAT32 && given.type != TUTTI_BFLOAT16 && given.type != TUTTI_FLOAT16)
    reject(which + ": only float32, bfloat16 and float16 can be trained");
  const std::span<const std::int64_t> shape(given.shape, given.dimensions);
  for (const std::int64_t extent : shape)
    if (extent < 0) reject(which + ": a shape has no negative extents");
  return {.name = given.name, .type = static_cast<tutti::DType>(given.type), .shape = {shape.begin(), shape.end()}};
}

}  // namespace

extern "C" {

tutti_code tutti_advise_default(tutti_advise_settings* settings, size_t size) {
  return guarded([&] {
    tutti_advise_settings& filled = place(settings, "tutti_advise_default: settings");
    check_settings_size(size, "tutti_advise_default");
    const AdviseOptions known;
    filled = {};
    filled.size = size;
    filled.measure = -1;
    filled.computing_us = -1;
    filled.worth = known.worth;
    filled.local_updates = usual_local_updates().data();
    filled.local_updates_count = usual_local_updates().size();
  });
}

tutti_code tutti_advise(tutti_comm comm, const tutti_parameter* parameters, size_t count,
                        const tutti_advise_settings* settings, tutti_advice* advice) {
  return guarded([&] {
    tutti_advice& made = place(advice, "tutti_advise: advice");
    made = nullptr;
    tutti::Communicator& communicator = communicator_of(comm);
    if (parameters == nullptr && count != 0) reject("tutti_advise: parameters is NULL");
    tutti::train::Parameters model;
    for (std::size_t i = 0; i < count; ++i) model.push_back(parameter_of(parameters[i], i));
    made = new tutti_advice_s{tutti::train::advise(communicator, model, options_of(settings))};
  });
}

tutti_code tutti_advice_told(tutti_advice advice, tutti_report_format format, char* text, size_t room, size_t* length) {
  return guarded([&] {
    const tutti_advice_s& known = place(advice, "tutti_advice_told: advice");
    tell(
        [&]() -> const auto& { return known.advice; }, format, text, room, length, "tutti_advice_told");
  });
}

tutti_code tutti_advice_best(tutti_advice advice, const char** name) {
  return guarded([&] {
    place(name, "tutti_advice_best: name") = place(advice, "tutti_advice_best: advice").advice.best().name.c_str();
  });
}

tutti_code tutti_advice_free(tutti_advice* advice) {
  return guarded([&] { delete_handle(advice, "tutti_advice_free: advice"); });
}

}  // extern "C"
