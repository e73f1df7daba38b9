// A job out of words: options of the command, keywords of Python.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/formatted.h"
#include "base/nearest_names.h"
#include "plan/job.h"
#include "topology/json.h"
#include "topology/presets.h"
#include "topology/text.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

constexpr int kHead = 128;  // its usual width, of which widths are made
constexpr int kMostNumber = 1 << 30, kMostDevices = 1 << 24;
constexpr double kMostQuantity = 1e30;  // products of a few of them are numbers yet

class WordsReader {
 public:
  WordsReader(const JobWords& words, const ReadText& read, const FindHost& here)
      : words_(words), read_(read), here_(here) {
    static const std::vector<std::string_view> kNames{
#define X(name, value, meaning) name,
        TUTTI_PLAN_SETTINGS(X)
#undef X
    };
    for (const auto& [name, value] : words)
      if (std::ranges::find(kNames, name) == kNames.end()) refuse(none_called("setting", name, kNames));
  }

  JobQuestion question() {
    Job& job = question_.job;
    job.model = model();
    require_possible(job.model);
    read_cluster(job);
    job.accelerator.flops_per_s = number("flops", job.accelerator.flops_per_s * 1e-12, 1e-6) * 1e12;
    read_shape(job);
    read_batch(job);
    read_options(job);
    return question_;
  }

 private:
  [[noreturn]] static void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

  const std::string* find(std::string_view name) const {
    const auto found = words_.find(name);
    return found == words_.end() ? nullptr : &found->second;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string word(std::string_view name, const std::string& otherwise) const {
    const std::string* found = find(name);
    return found == nullptr ? otherwise : *found;
  }
  double number(std::string_view name, double otherwise, double least = 0) const {
    const std::string* text = find(name);
    if (text == nullptr) return otherwise;
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value) || value < least)
      refuse(formatted("--%.*s %s: a number from %g belongs there", static_cast<int>(name.size()), name.data(),
                       text->c_str(), least));
    if (value > kMostQuantity || (value > 0 && value < 1 / kMostQuantity))
      refuse(formatted("--%.*s %s: no such quantity is anywhere; give a number up to %g, and 0 for less than %g",
                       static_cast<int>(name.size()), name.data(), text->c_str(), kMostQuantity, 1 / kMostQuantity));
    return value;
  }
  int whole(std::string_view name, int otherwise, int least = 1, int most = kMostNumber) const {
    const double value = number(name, otherwise, least);
    if (value != std::floor(value) || value > most)
      refuse(formatted("--%.*s %g: a whole number up to %d belongs there", static_cast<int>(name.size()), name.data(),
                       value, most));
    return static_cast<int>(value);
  }
  bool flag(std::string_view name, bool otherwise) const {
    const int value = whole(name, otherwise ? 1 : 0, 0);
    if (value > 1)
      refuse(formatted("--%.*s %d: 0 or 1 belongs there", static_cast<int>(name.size()), name.data(), value));
    return value == 1;
  }
  template <std::size_t kCount>
  std::size_t one_of(std::string_view name, const std::string_view (&names)[kCount], std::size_t otherwise) const {
    const std::string* text = find(name);
    if (text == nullptr) return otherwise;
    const auto found = std::ranges::find(names, *text);
    if (found == std::end(names)) refuse(none_called("--" + std::string(name), *text, {names, names + kCount}));
    return static_cast<std::size_t>(found - names);
  }

  static bool is_preset_model(const std::string& name) {
    return std::ranges::any_of(model_presets(), [&](const ModelPreset& preset) { return preset.shape.name == name; });
  }
  static bool names_a_file(const std::string& name) {
    return name.find('/') != std::string::npos || name.ends_with(".json");
  }

  std::optional<bool> named_gated() const { return has("gated") ? std::optional(flag("gated", false)) : std::nullopt; }

  ModelShape model() {
    ModelShape shape;
    const std::string name = word("model", "");
    if (!name.empty()) {
      shape = !is_preset_model(name) && names_a_file(name) ? model_from_json(read_(name), name, named_gated())
                                                           : find_model(name);
    } else if (has("hidden") + has("layers") + has("params") < 2) {
      refuse("no model; give --model NAME or a file, or two of --hidden, --layers and --params of your own");
    } else {
      shape.name = "own model";
    }
    const bool own = name.empty();
    shape.hidden = whole("hidden", shape.hidden, own ? 0 : 1, kMostHidden);
    shape.layers = whole("layers", shape.layers, own ? 0 : 1);
    shape.vocab = whole("vocab", own ? 51200 : shape.vocab);
    shape.gated = flag("gated", shape.gated);
    shape.tied = shape.tied || own;
    shape.experts = whole("experts", shape.experts, 0);
    for (const char* of_experts : {"top-k", "expert-ffn", "capacity-factor", "imbalance"})
      if (shape.experts == 0 && has(of_experts))
        refuse(formatted("--%s: model %s has no experts, which alone it is about; leave it out, or give --experts",
                         of_experts, shape.name.c_str()));
    shape.top_k = whole("top-k", shape.top_k);
    shape = own && !has("hidden") ? shape_of_parameters(shape) : with_widths(shape, own);
    shape.dropout = flag("dropout", own ? !shape.gated : shape.dropout);
    shape.imbalance = number("imbalance", shape.imbalance, 1);
    // Who says how uneven tokens come, and nothing of room, drops none.
    shape.capacity_factor = number(
        "capacity-factor", has("imbalance") ? std::max(shape.capacity_factor, shape.imbalance) : shape.capacity_factor);
    if (own && !has("layers")) shape.layers = layers_of_parameters(shape);
    if (has("params")) require_parameters(shape);
    return shape;
  }

  // What follows from --hidden, where it is not said.
  ModelShape with_widths(ModelShape shape, bool own) const {
    const bool new_width = has("hidden") || has("heads");
    shape.heads = whole("heads", own ? usual_heads(shape.hidden) : shape.heads);
    shape.kv_heads = whole("kv-heads", own || has("heads") ? shape.heads : shape.kv_heads);
    if (own || new_width) {
      if (shape.hidden % shape.heads != 0)
        refuse(formatted("--heads %d: a width of %d is not cut evenly among so many; give heads that divide it",
                         shape.heads, shape.hidden));
      shape.head_size = shape.hidden / shape.heads;
    }
    shape.ffn = whole("ffn", own || has("hidden") ? 4 * shape.hidden : shape.ffn, 0);
    shape.expert_ffn = whole("expert-ffn", shape.expert_ffn > 0 ? shape.expert_ffn : shape.ffn, 0);
    return shape;
  }

  // So wide that as many layers have so many parameters, as near as multiples of a head come.
  ModelShape shape_of_parameters(ModelShape shape) const {
    const double said = number("params", 0, 1);
    require_possible_layers(shape);
    // A head's width in multiples of 8, where somebody says how many heads.
    const int step = has("heads") ? 8 * whole("heads", 1, 1, kMostHidden / 16) : kHead;
    const auto of_heads = [&](int steps) {
      shape.hidden = steps * step;
      return with_widths(shape, true);
    };
    constexpr int kWidest = 1 << 20;
    int below = 1, above = std::max(2, kWidest / step);  // or as many parameters as said
    while (above - below > 1) {
      const int middle = (below + above) / 2;
      (parameters_of(of_heads(middle)).all <= said ? below : above) = middle;
    }
    const double less = parameters_of(of_heads(below)).all, more = parameters_of(of_heads(above)).all;
    return of_heads(std::abs(said - less) <= std::abs(more - said) ? below : above);
  }

  // As many layers of this shape as have so many parameters with what stands before and behind them.
  int layers_of_parameters(ModelShape shape) const {
    shape.layers = 1;
    const double with_one = parameters_of(shape).all;
    shape.layers = 2;
    const double of_layer = parameters_of(shape).all - with_one;
    const double layers = (number("params", 0, 1) - with_one) / of_layer + 1;
    shape.layers = static_cast<int>(std::clamp(layers, 0.0, 1.0 + kMostLayers));
    require_possible_layers(shape);
    if (layers < 0.5)
      refuse(formatted("--params %g is less than a layer has, %.4g; give more, or --layers", number("params", 0, 1),
                       of_layer));
    return static_cast<int>(std::lround(layers));
  }

  // A number that nothing follows from must at least be true.
  void require_parameters(const ModelShape& shape) const {
    constexpr double kNear = 0.1;
    const double said = number("params", 0, 1), counted = parameters_of(shape).all;
    if (std::abs(counted / said - 1) > kNear)
      refuse(
          formatted("--params %g: model %s has %.4g parameters by its layers and widths; leave --params out, or "
                    "--layers or --hidden of your own",
                    said, shape.name.c_str(), counted));
  }

  topology::Topology topology_of(const std::string& name) const {
    const std::string preset = name.substr(0, name.find(':'));
    const bool known = std::ranges::any_of(topology::presets(), [&](const auto& of) { return of.name == preset; });
    if (known || !(names_a_file(name) || name.ends_with(".topology"))) return topology::find_preset(name);
    const std::string text = read_(name);
    const bool json = text.find_first_not_of(" \t\r\n") == text.find('{');
    return json ? topology::topology_from_json(text, name) : topology::parse_topology(text, name);
  }

  // Ranks of this host, which share its memory.
  void read_host(Job& job) {
    if (!here_) refuse("--cluster here: only `tutti plan` knows the host that it runs on");
    job.host = here_();
    job.accelerator = find_accelerator(word("accelerator", "cpu"));
    devices_ = whole("gpus", job.host->cores);
    share_host(job);
  }

  void share_host(Job& job) const {
    if (job.accelerator.name == "cpu") job.accelerator.memory_bytes = job.host->memory_bytes / devices_;
    job.cluster = topology::parse_topology(formatted("topology here\nhosts 1\ndevice core %d\nbridge memory 1\n"
                                                     "link core memory each 10 GB/s 0.1 us\n",
                                                     devices_),
                                           "here");
  }

  void read_cluster(Job& job) {
    const std::string cluster = word("cluster", ""), accelerator = word("accelerator", "");
    if (cluster == "here") return read_host(job);
    if (cluster.empty() && accelerator.empty())
      refuse("no cluster; give --cluster dgx-h100:8, or --accelerator h100 --gpus 64");
    if (!accelerator.empty()) job.accelerator = find_accelerator(accelerator);
    job.cluster = topology_of(cluster.empty() ? std::string(job.accelerator.cluster) : cluster);
    if (accelerator.empty()) {
      const Accelerator* usual = accelerator_of_cluster(job.cluster.name);
      if (usual == nullptr)
        refuse("--cluster " + cluster + ": what do its devices compute with? give --accelerator NAME");
      job.accelerator = *usual;
    }
    const int per_host = job.cluster.devices_per_host();
    const bool sized = cluster.find(':') != std::string::npos || (!cluster.empty() && job.cluster.hosts > 1);
    devices_ = whole("gpus", job.cluster.ranks());
    if (sized && devices_ > job.cluster.ranks())
      refuse(formatted("--gpus %d: %s has %d; take more hosts, %s:%d", devices_, cluster.c_str(), job.cluster.ranks(),
                       job.cluster.name.c_str(), (devices_ + per_host - 1) / per_host));
    if (!sized) job.cluster.hosts = (devices_ + per_host - 1) / per_host;
  }

  // A degree, by its option or in the words of the strategy: both must say the same.
  std::optional<int> degree(const char* name, int least = 1) const {
    const auto said = named_.find(name);
    if (!has(name)) return said == named_.end() ? std::nullopt : std::optional(said->second);
    const bool is_flag = std::string_view(name) == "sp";
    const int value = is_flag ? (flag(name, false) ? 1 : 0) : whole(name, 1, least);
    if (said != named_.end() && said->second != value)
      refuse(formatted("--strategy %s and --%s %d contradict each other; say it once", word("strategy", "").c_str(),
                       name, value));
    return value;
  }

  void read_shape(Job& job) {
    const std::string strategy = word("strategy", "");
    for (const char* name : {"tp", "pp", "cp", "dp", "ep", "sp", "zero", "interleave", "diloco", "servers", "actors"})
      if (has(name)) job.said_apart.emplace_back(name);
    question_.any_strategy = job.searched = strategy == "auto";
    if (question_.any_strategy) return read_any_shape(job);
    named_ = read_strategy(strategy);
    ParallelShape& shape = job.parallel;
    shape.tp = degree("tp").value_or(1);
    shape.pp = degree("pp").value_or(1);
    shape.cp = degree("cp").value_or(1);
    shape.ep = degree("ep").value_or(1);
    shape.sp = degree("sp").value_or(0) != 0;
    shape.zero = degree("zero", 0).value_or(0);
    shape.interleave = degree("interleave").value_or(1);
    shape.local_steps = degree("diloco", 0).value_or(0);
    shape.servers = degree("servers", 0).value_or(0);
    shape.actors = degree("actors", 0).value_or(0);
    if (shape.zero > 3) refuse(formatted("--zero %d: stages are 1, 2 and 3", shape.zero));
    read_replicas(job, degree("dp"));
  }

  // What is not said is found; what is said stays (search.h).
  void read_any_shape(Job& job) {
    for (const char* name : {"diloco", "servers", "actors"})
      if (has(name) && whole(name, 0, 0) > 0)
        refuse(
            formatted("--strategy auto looks among synchronous strategies of all devices, which --%s is none of; "
                      "name the strategy, or leave --%s out",
                      name, name));
    FixedWords& fixed = question_.fixed;
    fixed.tp = degree("tp");
    fixed.pp = degree("pp");
    fixed.cp = degree("cp");
    fixed.ep = degree("ep");
    fixed.dp = degree("dp");
    fixed.zero = degree("zero", 0);
    fixed.interleave = degree("interleave");
    if (const auto sp = degree("sp")) fixed.sp = *sp != 0;
    if (fixed.zero.value_or(0) > 3) refuse(formatted("--zero %d: stages are 1, 2 and 3", *fixed.zero));
    job.parallel.dp = devices_;
  }

  static std::int64_t product_of(std::initializer_list<int> degrees) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;  // more than there are devices anywhere
    std::int64_t product = 1;
    for (const int degree : degrees) product = std::min(kMost, product * degree);
    return product;
  }

  void read_replicas(Job& job, std::optional<int> dp) {
    ParallelShape& shape = job.parallel;
    const std::int64_t others = product_of({shape.tp, shape.pp, shape.cp});
    const std::int64_t besides = static_cast<std::int64_t>(shape.servers) + shape.actors,
                       computing = devices_ - besides;
    if (dp) {
      shape.dp = *dp;
      const std::int64_t all = product_of({shape.tp, shape.pp, shape.cp, shape.dp}) + besides;
      // Degrees that were all named say how many devices there are, where nobody else did.
      if (!has("gpus") && word("cluster", "").find(':') == std::string::npos && job.cluster.hosts == 1 &&
          all <= kMostDevices) {
        devices_ = static_cast<int>(all);
        if (job.host) {
          share_host(job);
        } else {
          job.cluster.hosts = (devices_ + job.cluster.devices_per_host() - 1) / job.cluster.devices_per_host();
        }
      }
      if (all != devices_)
        refuse(formatted(
            "%s makes %s devices, and there are %d; %s", to_text(shape).c_str(),
            all > kMostDevices ? formatted("more than %d", kMostDevices).c_str() : std::to_string(all).c_str(),
            devices_,
            computing > 0 && computing % others == 0
                ? formatted("take dp%lld", static_cast<long long>(computing / others)).c_str()
                : "take degrees that multiply to that"));
      return;
    }
    if (besides > 0 && computing < others)
      refuse(formatted("%s: %lld servers and actors leave %lld of %d devices to compute steps; take fewer",
                       to_text(shape).c_str(), static_cast<long long>(besides), static_cast<long long>(computing),
                       devices_));
    if (others > kMostDevices)
      refuse(
          formatted("%s: tp %d times cp %d times pp %d is more than the %d devices there are; take degrees that "
                    "multiply to them",
                    to_text(shape).c_str(), shape.tp, shape.cp, shape.pp, devices_));
    if (computing < others || computing % others != 0)
      refuse(formatted("%s: %lld devices are no multiple of tp %d times cp %d times pp %d = %lld; take %lld or %lld",
                       to_text(shape).c_str(), static_cast<long long>(computing), shape.tp, shape.cp, shape.pp,
                       static_cast<long long>(others),
                       static_cast<long long>(std::max<std::int64_t>(1, computing / others) * others + besides),
                       static_cast<long long>((computing / others + 1) * others + besides)));
    shape.dp = static_cast<int>(computing / others);
  }

  void read_batch(Job& job) {
    const int places = job.model.positions;
    job.sequence = whole("seq", places > 0 ? std::min(places, 2048) : 2048);
    if (places > 0 && job.sequence > places)
      refuse(formatted("--seq %d: model %s has %d positions; take at most as many", job.sequence,
                       job.model.name.c_str(), places));
    question_.any_micro_batch = !has("micro-batch");
    job.micro_batch = whole("micro-batch", 1);
    if (question_.any_strategy && has("micro-batch")) question_.fixed.micro_batch = job.micro_batch;
    const std::int64_t usual =
        question_.any_strategy ? devices_ : product_of({job.parallel.dp, job.parallel.pp, job.micro_batch});
    if (!has("global-batch") && usual > kMostNumber)
      refuse(
          formatted("%s: micro-batches of %d for every dp rank and stage are more than %d sequences; give "
                    "--global-batch, or a smaller --micro-batch",
                    to_text(job.parallel).c_str(), job.micro_batch, kMostNumber));
    job.global_batch = whole("global-batch", static_cast<int>(std::min<std::int64_t>(usual, kMostNumber)));
    job.tokens = number("tokens", 0);
    job.price = number("price", 0);
    job.critical_batch = number("critical-batch", 0);
  }

  void read_options(Job& job) {
    constexpr std::string_view kRecomputes[] = {"none", "selective", "full"};
    constexpr std::string_view kAttentions[] = {"unfused", "flash", "flash1"};
    constexpr std::string_view kOverlaps[] = {"none", "dp", "tp", "pp", "all"};
    constexpr Overlap kMeant[] = {
        {}, {true, false, false}, {true, true, false}, {true, false, true}, {true, true, true}};
    job.recompute = static_cast<Recompute>(one_of("recompute", kRecomputes, 0));
    if (question_.any_strategy && has("recompute")) question_.fixed.recompute = job.recompute;
    job.attention =
        static_cast<Attention>(one_of("attention", kAttentions, static_cast<std::size_t>(job.accelerator.attention)));
    job.overlap = has("overlap") ? kMeant[one_of("overlap", kOverlaps, 0)] : job.accelerator.overlap;
    job.gradient_bytes = number("grad-bytes", job.accelerator.value_bytes);
    job.value_bytes = number("value-bytes", job.accelerator.value_bytes);
    for (const auto& [name, bytes] : {std::pair("grad-bytes", job.gradient_bytes), {"value-bytes", job.value_bytes}})
      if (bytes != 2 && bytes != 4)
        refuse(formatted("--%s is 2 or 4; for fewer bytes on the way there is --compress", name));
    job.compress = number("compress", 1, 1);
    job.bucket_bytes = word("bucket", "") == "auto" ? 0 : number("bucket", 25, 0.001) * (1 << 20);
    job.stack = find_stack(word("stack", "tutti"));
  }

  const JobWords& words_;
  const ReadText& read_;
  const FindHost& here_;
  JobQuestion question_;
  std::map<std::string, int, std::less<>> named_;  // in the words of the strategy
  int devices_ = 1;
};

}  // namespace

JobQuestion question_of(const JobWords& words, const ReadText& read, const FindHost& here) {
  return WordsReader(words, read, here).question();
}

}  // namespace tutti::plan
