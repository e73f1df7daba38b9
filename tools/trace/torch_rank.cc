#include "tools/trace/torch_rank.h"

#include <algorithm>
#include <cstdlib>

#include "tools/json_shape.h"
#include "tools/trace/traced_job.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

constexpr std::string_view kBackends[] = {"nccl", "gloo", "tutti", "mpi", "ucc", "xccl", "hccl"};

// PyTorch names its types in several ways; 0 where this is none of them.
double type_bytes(std::string name) {
  if (name.starts_with("c10::")) name.erase(0, 5);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static const std::map<std::string, double, std::less<>> kTypes = {{"float", 4},
                                                                    {"double", 8},
                                                                    {"half", 2},
                                                                    {"bfloat16", 2},
                                                                    {"long", 8},
                                                                    {"long int", 8},
                                                                    {"int", 4},
                                                                    {"short", 2},
                                                                    {"short int", 2},
                                                                    {"byte", 1},
                                                                    {"char", 1},
                                                                    {"unsigned char", 1},
                                                                    {"bool", 1},
                                                                    {"complexfloat", 8},
                                                                    {"complexdouble", 16},
                                                                    {"complex<float>", 8},
                                                                    {"complex<double>", 16},
                                                                    {"signed char", 1}};
  const auto found = kTypes.find(name);
  return found != kTypes.end() ? found->second : name.starts_with("float8") ? 1 : 0;
}

// A number, or one in quotes.
double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? std::strtod(value.get_ref<const std::string&>().c_str(), nullptr) : 0;
}

double elements_of(const Json& dimensions) {
  double elements = 1;
  for (const Json& length : dimensions) elements *= number_of(length);
  return elements;
}

std::string lower_category(const Json& event) {
  std::string category = event.value("cat", "");
  std::ranges::transform(category, category.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return category;
}

// "all_reduce" of "gloo:all_reduce", "send" of "nccl:send 0->1"; nothing where no backend is named.
std::optional<std::string> row_of_backend(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || colon + 1 == name.size() || name[colon + 1] == ':') return std::nullopt;
  if (std::ranges::find(kBackends, std::string_view(name).substr(0, colon)) == std::end(kBackends)) return std::nullopt;
  return name.substr(colon + 1, name.find(' ', colon) - colon - 1);
}

// "AllReduce" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)".
std::string verb_of_kernel(const std::string& name) {
  const std::size_t from = name.find('_') + 1;
  return name.substr(from, name.find_first_of("_(", from) - from);
}

std::optional<std::int64_t> step_number(const std::string& name) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (!name.starts_with(kStep)) return std::nullopt;
  return std::strtoll(name.c_str() + kStep.size(), nullptr, 10);
}

class RankBuilder {
 public:
  explicit RankBuilder(const Json& members);
  void add(const Json& event);
  TorchRank finish();

 private:
  // What ran on one thread of the host.
  struct Thread {
    std::vector<Interval> operators, calls;
  };
  struct RawCall {
    std::string verb;
    Json arguments;
    Interval time;
    bool of_nccl = false;
  };

  void add_on_host(const Json& event, const std::string& name, const Interval& time, bool is_operator);
  void measure_gpu();
  void measure_host();
  void tell(const RawCall& raw);
  TorchCall told(const RawCall& raw) const;

  TorchRank rank_;
  std::vector<Interval> kernels_, nccl_kernels_;
  std::map<std::string, Thread> threads_;
  std::vector<RawCall> kernel_calls_, row_calls_;
  std::map<std::string, Json> told_by_id_;  // arguments of record_param_comms by their External id
  std::map<std::int64_t, Interval> gpu_steps_;
  bool any_ = false;
};

RankBuilder::RankBuilder(const Json& members) {
  const Json facts = members.value("distributedInfo", Json::object());
  static const Json kExample = Json::parse(R"({"rank?": 0, "world_size?": 0, "backend?": ""})");
  if (std::string wrong = tools::wrong_with(facts, kExample, "distributedInfo"); !wrong.empty())
    throw Error(ErrorCode::invalid_argument, std::move(wrong));
  // What is beyond any job is refused by who makes room for it.
  const auto number = [&](const char* name) {
    return static_cast<int>(std::clamp<std::int64_t>(facts.at(name).get<std::int64_t>(), -1, kMostJobRanks + 1));
  };
  if (facts.contains("rank")) rank_.rank = number("rank");
  if (facts.contains("world_size")) rank_.size = number("world_size");
  rank_.backend = facts.value("backend", "");
  if (members.contains("baseTimeNanoseconds")) rank_.epoch_us = members.at("baseTimeNanoseconds").get<double>() / 1e3;
}

void extend(std::map<std::int64_t, Interval>& steps, std::int64_t number, const Interval& time) {
  const auto [at, is_new] = steps.emplace(number, time);
  at->second = {std::min(at->second.begin_us, time.begin_us), std::max(at->second.end_us, time.end_us)};
}

void RankBuilder::add(const Json& event) {
  if (event.value("ph", "") != "X") return;
  const std::string category = lower_category(event);
  const std::string name = event.value("name", "");
  const double begin = number_of(event.at("ts"));
  const Interval time = {begin, begin + (event.contains("dur") ? number_of(event.at("dur")) : 0)};
  const bool is_operator = category == "cpu_op" || category == "operator";
  if (category == "kernel") {
    const bool of_nccl = name.starts_with("nccl");
    (of_nccl ? nccl_kernels_ : kernels_).push_back(time);
    if (of_nccl) kernel_calls_.push_back({verb_of_kernel(name), event.value("args", Json::object()), time, true});
  } else if (category == "gpu_user_annotation") {
    if (const auto step = step_number(name)) extend(gpu_steps_, *step, time);
    return;
  } else if (is_operator || category == "user_annotation") {
    add_on_host(event, name, time, is_operator);
  } else {
    return;
  }
  rank_.whole =
      any_ ? Interval{std::min(rank_.whole.begin_us, begin), std::max(rank_.whole.end_us, time.end_us)} : time;
  any_ = true;
}

void RankBuilder::add_on_host(const Json& event, const std::string& name, const Interval& time, bool is_operator) {
  Thread& thread = threads_[event.value("pid", Json()).dump() + "/" + event.value("tid", Json()).dump()];
  const Json arguments = event.value("args", Json::object());
  if (const auto step = step_number(name)) {
    extend(rank_.steps, *step, time);
  } else if (const auto verb = row_of_backend(name)) {
    row_calls_.push_back({*verb, arguments, time, name.starts_with("nccl:")});
    thread.calls.push_back(time);
  } else if (name == "record_param_comms") {
    told_by_id_[arguments.value("External id", Json()).dump()] = arguments;
    thread.calls.push_back(time);
  } else if (is_operator) {
    (name.starts_with("c10d::") ? thread.calls : thread.operators).push_back(time);
  }
}

// Arguments may be of other types than PyTorch's: then the call is left out.
void RankBuilder::tell(const RawCall& raw) {
  try {
    rank_.calls.push_back(told(raw));
  } catch (const Json::exception&) {
    ++rank_.unreadable;
  }
}

TorchCall RankBuilder::told(const RawCall& raw) const {
  Json of = raw.arguments;
  if (!of.contains("In msg nelems")) {
    const auto found = told_by_id_.find(of.value("External id", Json()).dump());
    if (found != told_by_id_.end()) of.update(found->second);
  }
  TorchCall call;
  call.verb = verb_of(of.value("Collective name", raw.verb));
  call.group = of.value("Process Group Name", Json("")).dump() + of.value("Process Group Ranks", Json("")).dump();
  const double told = of.contains("Group size") ? number_of(of.at("Group size")) : rank_.size.value_or(0);
  call.ranks = static_cast<int>(std::max(0.0, std::min<double>(told, kMostJobRanks)));
  call.time = raw.time;
  if (of.contains("bytes")) {
    call.bytes = number_of(of.at("bytes"));
  } else if (of.contains("In msg nelems")) {
    const double elements = std::max(number_of(of.at("In msg nelems")), number_of(of.value("Out msg nelems", Json(0))));
    call.bytes = elements * type_bytes(of.value("dtype", ""));
  } else if (of.contains("Input Dims") && of.contains("Input type")) {
    const Json &dimensions = of.at("Input Dims"), &types = of.at("Input type");
    for (std::size_t i = 0; i < std::min(dimensions.size(), types.size()); ++i)
      call.bytes += elements_of(dimensions[i]) * type_bytes(types[i].get<std::string>());
    // What a rank gives is its own chunk.
    if (call.verb == "all_gather" || call.verb == "gather") call.bytes *= std::max(1, call.ranks);
  }
  return call;
}

void RankBuilder::measure_gpu() {
  rank_.on_gpu = true;
  rank_.compute = united(std::move(kernels_));
  std::vector<Interval> calls = std::move(nccl_kernels_);
  for (const RawCall& raw : kernel_calls_) tell(raw);
  for (const RawCall& raw : row_calls_) {  // of other backends, on the host
    if (raw.of_nccl) continue;
    calls.push_back(raw.time);
    tell(raw);
  }
  rank_.communication = united(std::move(calls));
  if (gpu_steps_.empty()) return;
  // Kernels of a step begin after those of the one before: what lies between belongs to it.
  rank_.steps = std::move(gpu_steps_);
  for (auto step = rank_.steps.begin(); std::next(step) != rank_.steps.end(); ++step)
    step->second.end_us = std::next(step)->second.begin_us;
}

void RankBuilder::measure_host() {
  std::vector<Interval> compute, calls;
  for (auto& [name, thread] : threads_) {
    calls.insert(calls.end(), thread.calls.begin(), thread.calls.end());
    // An operator within a call, or around a blocking one, does not compute meanwhile.
    const Intervals own = without(united(std::move(thread.operators)), united(std::move(thread.calls)));
    compute.insert(compute.end(), own.begin(), own.end());
  }
  rank_.compute = united(std::move(compute));
  rank_.communication = united(std::move(calls));
  for (const RawCall& raw : row_calls_) tell(raw);
}

TorchRank RankBuilder::finish() {
  rank_.launches_only = kernel_calls_.empty() && std::ranges::any_of(row_calls_, &RawCall::of_nccl);
  if (kernels_.empty() && nccl_kernels_.empty())
    measure_host();
  else
    measure_gpu();
  std::ranges::stable_sort(rank_.calls, {}, [](const TorchCall& call) { return call.time.begin_us; });
  return std::move(rank_);
}

}  // namespace

TorchRank torch_rank(const EventFile& file) {
  RankBuilder builder(file.members());
  const std::size_t unreadable = file.for_each([&](const Json& event) { builder.add(event); });
  TorchRank rank = builder.finish();
  rank.unreadable += unreadable;
  return rank;
}

}  // namespace tutti::analysis
