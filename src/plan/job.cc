#include "plan/job.h"

#include <algorithm>
#include <charconv>

#include "base/formatted.h"
#include "base/nearest_names.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

[[noreturn]] void refuse_job(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

// "64 or 128": the multiples of `unit` around a number.
std::string multiples_near(std::int64_t number, std::int64_t unit) {
  const std::int64_t below = number / unit * unit, above = below + unit;
  return (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(above);
}

std::string count_of(int number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace

std::string to_text(const ParallelShape& shape) {
  std::string text;
  const auto add = [&](const char* name, int degree, int usual) {
    if (degree != usual) text += (text.empty() ? "" : ".") + std::string(name) + std::to_string(degree);
  };
  add("tp", shape.tp, 1);
  if (shape.sp) text += text.empty() ? "sp" : ".sp";
  add("cp", shape.cp, 1);
  add("pp", shape.pp, 1);
  add("v", shape.interleave, 1);
  add("dp", shape.dp, text.empty() ? -1 : 1);
  add("ep", shape.ep, 1);
  add("zero", shape.zero, 0);
  add("diloco", shape.local_steps, 0);
  add("ps", shape.servers, 0);
  add("actors", shape.actors, 0);
  return text;
}

std::string_view name_of(Recompute recompute) {
  constexpr std::string_view kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

std::map<std::string, int, std::less<>> read_strategy(const std::string& text) {
  // Words, the settings that they are, and what they mean without a number; 0: they need one.
  struct Word {
    std::string_view word, setting;
    int alone;
  };
  constexpr Word kWords[] = {{"tp", "tp", 0},      {"sp", "sp", 1},        {"cp", "cp", 0},
                             {"pp", "pp", 0},      {"v", "interleave", 0}, {"dp", "dp", 0},
                             {"ep", "ep", 0},      {"zero", "zero", 0},    {"diloco", "diloco", 100},
                             {"ps", "servers", 1}, {"actors", "actors", 0}};
  static const std::vector<std::string_view> kNames{"dp", "zero1", "zero2", "zero3",  "tp", "sp",    "pp",
                                                    "v",  "ep",    "cp",    "diloco", "ps", "actors"};
  const std::string before = "--strategy " + text + ": ";
  std::map<std::string, int, std::less<>> named;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const std::size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    const auto found = std::ranges::find(kWords, std::string_view(word).substr(0, digits), &Word::word);
    int degree = 0;
    if (digits < word.size()) {
      const auto [rest, error] = std::from_chars(word.data() + digits, word.data() + word.size(), degree);
      if (error != std::errc() || rest != word.data() + word.size() || degree < 1)
        refuse_job(before + "'" + word + "' is a name and a number from 1, such as tp8");
    }
    if (word == "dp") continue;  // the rest of the devices, as if left out
    if (found == std::end(kWords) || (found->word == "sp" && degree > 0) || (found->word == "zero" && degree > 3))
      refuse_job(before + none_called("strategy", word, kNames) + "; such as tp8.pp4.dp16.zero1");
    if (degree == 0) degree = found->alone;
    if (degree == 0) refuse_job(before + word + " needs a number, such as " + word + (word == "zero" ? "1" : "8"));
    const auto [known, is_new] = named.try_emplace(std::string(found->setting), degree);
    if (!is_new && known->second != degree)
      refuse_job(formatted("%s%.*s is said twice, as %d and as %d; say it once", before.c_str(),
                           static_cast<int>(found->word.size()), found->word.data(), known->second, degree));
  }
  return named;
}

std::string to_text(const FixedWords& fixed) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    if (value)
      text += (text.empty() ? "--" : " --") + std::string(name) + " " + std::to_string(static_cast<int>(*value));
  };
  add("tp", fixed.tp);
  add("sp", fixed.sp);
  add("cp", fixed.cp);
  add("pp", fixed.pp);
  add("interleave", fixed.interleave);
  add("dp", fixed.dp);
  add("ep", fixed.ep);
  add("zero", fixed.zero);
  add("micro-batch", fixed.micro_batch);
  if (fixed.recompute)
    text += (text.empty() ? "--recompute " : " --recompute ") + std::string(name_of(*fixed.recompute));
  return text;
}

namespace {

void require_heads(const Job& job, const std::string& text) {
  const ModelShape& model = job.model;
  const int tp = job.parallel.tp;
  if (model.kv_rank > 0 || model.kv_heads % tp == 0 || tp % model.kv_heads == 0) return;
  refuse_job(
      formatted("%s: %d heads of keys and values of %s are neither cut nor copied evenly among tp%d; take a tp "
                "that divides %d, or a multiple of it",
                text.c_str(), model.kv_heads, model.name.c_str(), tp, model.kv_heads));
}

// Replicas that go on by themselves, and workers, have all that they update.
void require_whole_replicas(const ParallelShape& shape, const std::string& text) {
  if (shape.local_steps > 0 && shape.zero > 0)
    refuse_job(text +
               ": replicas that exchange now and then update whole models of their own, and zero would cut those along "
               "replicas; leave zero out, or diloco");
  if (shape.servers > 0 && (shape.computing() != shape.dp || shape.zero > 0 || shape.local_steps > 0))
    refuse_job(text +
               ": workers of parameter servers have whole models and exchange in every step; give dp and ps alone");
}

void require_batch(const Job& job, const std::string& text) {
  const ParallelShape& shape = job.parallel;
  const std::int64_t share = static_cast<std::int64_t>(shape.dp) * job.micro_batch;
  if (job.micro_batch < 1 || job.global_batch < 1 || job.global_batch % share != 0)
    refuse_job(formatted(
        "%s: a global batch of %d sequences does not divide into %d dp ranks times micro-batches of "
        "%d; %s would",
        text.c_str(), job.global_batch, shape.dp, job.micro_batch, multiples_near(job.global_batch, share).c_str()));
  if (shape.interleave > 1 && job.microbatches() % shape.pp != 0)
    refuse_job(
        formatted("%s: interleaved stages take micro-batches %d at a time, and there are %d; change "
                  "--global-batch or --micro-batch",
                  text.c_str(), shape.pp, job.microbatches()));
}

}  // namespace

void require_possible(const Job& job) {
  require_possible(job.model);
  const ParallelShape& shape = job.parallel;
  const ModelShape& model = job.model;
  const std::string text = to_text(shape);
  const auto divides = [&](int what, const char* noun, int by, const char* degree) {
    if (what % by != 0)
      refuse_job(formatted("%s: %s of %s cannot be cut for %s%d; take a degree that divides %d", text.c_str(),
                           count_of(what, noun).c_str(), model.name.c_str(), degree, by, what));
  };
  divides(model.heads, "head", shape.tp, "tp");
  require_heads(job, text);
  if (model.ffn > 0) divides(model.ffn, "number between matrices", shape.tp, "tp");
  if (model.experts > 0) divides(model.experts, "expert", shape.ep, "ep");
  if (shape.ep > 1 && model.experts == 0)
    refuse_job(text + ": " + model.name + " has no experts to spread; leave ep out, or give --experts");
  if (shape.dp % shape.ep != 0)
    refuse_job(
        formatted("%s: experts are spread over ranks of a dp group, and %d of %d is no even share; take an ep "
                  "that divides %d",
                  text.c_str(), shape.ep, shape.dp, shape.dp));
  require_whole_replicas(shape, text);
  if (shape.sp && shape.tp == 1) refuse_job(text + ": sp goes along tp; give a tp of 2 or more, or leave sp out");
  if (static_cast<std::int64_t>(shape.pp) * shape.interleave > model.layers)
    refuse_job(formatted("%s: %d layers are too few for %d stages of %d chunks; take pp times interleave of %d at most",
                         text.c_str(), model.layers, shape.pp, shape.interleave, model.layers));
  if (shape.interleave > 1 && shape.pp == 1)
    refuse_job(text + ": interleaving needs a pipeline; give a pp of 2 or more");
  if (job.sequence < 1) refuse_job("--seq is a number of tokens, from 1");
  if (job.sequence % (shape.cp * (shape.sp ? shape.tp : 1)) != 0)
    refuse_job(formatted("%s: a sequence of %d tokens cannot be cut evenly; %s could", text.c_str(), job.sequence,
                         multiples_near(job.sequence, shape.cp * (shape.sp ? shape.tp : 1)).c_str()));
  require_batch(job, text);
  if (job.price > 0 && job.tokens == 0)
    refuse_job("--price is for the tokens of the whole training; give --tokens as well, such as 1e12");
}

}  // namespace tutti::plan
