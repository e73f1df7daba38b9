// A training job as it is asked about: the model, the cluster, how the one is spread over the other, and the batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/accelerator.h"
#include "plan/collectives.h"
#include "plan/model.h"
#include "topology/topology.h"

namespace tutti::plan {

// Degrees multiply to the devices that compute steps: tp cp pp dp. Experts are spread over ep ranks of a dp group.
// Ranks of tp lie nearest to each other, then cp, pp and dp, as tutti::train::Mesh has them. Servers and actors come
// besides.
struct ParallelShape {
  int tp = 1, cp = 1, pp = 1, dp = 1, ep = 1;
  int zero = 0;         // stage, along dp
  bool sp = false;      // sequence parallel, along tp
  int interleave = 1;   // chunks of the model on every stage
  int local_steps = 0;  // local updates: replicas exchange once in so many steps; 0: in every step
  int servers = 0;      // that hold the parameters: dp ranks are their workers, who push gradients and pull values
  int actors = 0;       // that make what is learned from, with weights that dp ranks, the learners, send them

  int computing() const { return tp * cp * pp * dp; }
  // Ranks that have the same parameters: those that share a sequence do, too. Gradients are summed up among them, and
  // ZeRO cuts along them.
  int replicas() const { return dp * cp; }
  int expert_replicas() const { return dp / ep * cp; }
  int devices() const { return computing() + servers + actors; }
  bool operator==(const ParallelShape&) const = default;
};
// "tp8.pp4.dp16.zero1"; "dp64" where nothing else is more than 1.
std::string to_text(const ParallelShape& shape);

enum class Recompute : unsigned char { none, selective, full };
std::string_view name_of(Recompute recompute);

struct Job {
  ModelShape model;
  topology::Topology cluster;  // with as many hosts as the devices need
  Accelerator accelerator;
  ParallelShape parallel;
  int micro_batch = 1, global_batch = 1, sequence = 2048;  // sequences, and tokens in each
  Recompute recompute = Recompute::none;
  Overlap overlap;
  Attention attention = Attention::flash;
  double gradient_bytes = 2;
  double compress = 1;     // gradients travel in so many times fewer bytes
  double value_bytes = 2;  // of a weight or an activation on the way
  Stack stack;
  std::optional<HostCosts> host;   // where the plan is for the host that it is made on
  double bucket_bytes = 25 << 20;  // 0: the cap that exposes least
  double tokens = 0;               // of the whole training; 0: not asked about
  double price = 0;                // of a device for an hour; 0: not asked about
  double critical_batch = 0;       // in sequences; 0: not known
  // Degrees that options of their own say, by name: advice must say them so as well.
  std::vector<std::string> said_apart;
  bool searched = false;  // by --strategy auto, whose words are not those of the strategy

  int devices() const { return parallel.devices(); }
  int microbatches() const {
    return static_cast<int>(global_batch / (static_cast<std::int64_t>(parallel.dp) * micro_batch));
  }
};

// Throws Error(invalid_argument) that says what does not go together, and what would.
void require_possible(const Job& job);

// X(name, value, meaning): what can be said of a job, by name; the options of `tutti plan` and the keywords of Python.
#define TUTTI_PLAN_SETTINGS(X)                                                                                 \
  X("model", "NAME", "A preset (--list), or a file: a Hugging Face config.json, or keys as the options below") \
  X("cluster", "NAME", "A preset or file of `tutti topo`, with :HOSTS, or here; by accelerator if left out")   \
  X("accelerator", "NAME", "What ranks compute on: a100-80, h100, ...; the cluster's usual one if left out")   \
  X("flops", "X", "TFLOP/s of a device at its peak; the accelerator's if left out")                            \
  X("gpus", "N", "Devices; all of the cluster if left out")                                                    \
  X("strategy", "WORDS", "Degrees between dots: tp8.pp4.dp16.zero1, zero3, ...; or auto. dp if left out")      \
  X("tp", "N", "Tensor-parallel degree")                                                                       \
  X("pp", "N", "Pipeline stages")                                                                              \
  X("dp", "N", "Data-parallel degree; what is left of the devices if left out")                                \
  X("ep", "N", "Ranks of a dp group that experts are spread over")                                             \
  X("cp", "N", "Context-parallel degree: ranks that share a sequence")                                         \
  X("sp", "0|1", "Sequence parallel along tp")                                                                 \
  X("zero", "STAGE", "ZeRO: 1 optimizer states, 2 and gradients, 3 and parameters are cut along dp")           \
  X("interleave", "N", "Chunks of the model on every pipeline stage")                                          \
  X("diloco", "H", "Local updates: replicas exchange once in H steps")                                         \
  X("servers", "N", "Parameter servers, in the place of the all_reduce: ps2 in --strategy")                    \
  X("actors", "N", "Ranks that make trajectories for the dp ranks, the learners: actors8 in --strategy")       \
  X("micro-batch", "N", "Sequences at a time; the quickest that fits if left out")                             \
  X("global-batch", "N", "Sequences in a step, of all ranks; one for each dp rank and stage if left out")      \
  X("seq", "N", "Tokens in a sequence; 2048 if left out")                                                      \
  X("recompute", "KIND", "none, selective or full: what backward computes again; none if left out")            \
  X("overlap", "KIND", "none, dp, tp, pp or all: what runs behind computing; by accelerator if left out")      \
  X("attention", "KIND", "unfused, flash, or flash1, kernels of 2022-23; by accelerator if left out")          \
  X("grad-bytes", "N", "Bytes of a gradient, 2 or 4; 2 if left out, on cpu 4")                                 \
  X("value-bytes", "N", "Bytes of a weight or an activation on the way, 2 or 4; 2 if left out, on cpu 4")      \
  X("compress", "X", "Gradients travel in so many times fewer bytes; 1 if left out")                           \
  X("bucket", "MB|auto", "Cap of a bucket of gradients, or the one that exposes least; 25 if left out")        \
  X("stack", "NAME", "Whose choice of algorithms is priced; tutti if left out")                                \
  X("tokens", "N", "Of the whole training: device-hours, and with --price money")                              \
  X("price", "X", "Of a device for an hour")                                                                   \
  X("critical-batch", "N", "Sequences from which on a larger batch buys little: what steps cost then")         \
  X("layers", "N", "Of a model of your own, or of a preset with changes")                                      \
  X("params", "P", "Its parameters: what is left out of --layers and --hidden follows")                        \
  X("hidden", "N", "Its width")                                                                                \
  X("heads", "N", "Of attention; hidden / 128 if left out, or the most below that divide hidden")              \
  X("kv-heads", "N", "Heads of keys and values; as many as heads if left out")                                 \
  X("ffn", "N", "Width between the matrices of a layer; 4 hidden if left out")                                 \
  X("vocab", "N", "Words; 51200 if left out")                                                                  \
  X("gated", "0|1", "SwiGLU: three matrices instead of two")                                                   \
  X("dropout", "0|1", "Behind attention and MLP, with masks to keep; where not gated if left out")             \
  X("experts", "N", "Of a layer")                                                                              \
  X("expert-ffn", "N", "Width of an expert; --ffn if left out")                                                \
  X("top-k", "N", "Experts that a token goes to")                                                              \
  X("capacity-factor", "X", "Room of an expert over its even share; all that come if left out")                \
  X("imbalance", "X", "Tokens of the fullest expert over the mean; 1 if left out")

using JobWords = std::map<std::string, std::string, std::less<>>;  // by name, without dashes before it
// The text of a file; throws Error(invalid_argument) where there is none.
using ReadText = std::function<std::string(const std::string& path)>;
// What is known of the host we are on, for --cluster here.
using FindHost = std::function<HostCosts()>;

// What words say of a job while a strategy is searched for; the rest may be anything.
struct FixedWords {
  std::optional<int> tp, cp, pp, dp, ep, zero, interleave, micro_batch;
  std::optional<bool> sp;
  std::optional<Recompute> recompute;

  bool operator==(const FixedWords&) const = default;
};
// "--tp 4 --recompute full"; empty where nothing is.
std::string to_text(const FixedWords& fixed);

// What was asked for: a job, and what of it is to be found.
struct JobQuestion {
  Job job;
  bool any_strategy = false, any_micro_batch = false;
  FixedWords fixed = {};  // of any strategy
};
// Throws Error(invalid_argument) that names the setting, what is wrong and what would be right.
JobQuestion question_of(const JobWords& words, const ReadText& read, const FindHost& here = {});

// "tp8.pp4.zero1" as numbers by the names of settings: tp, pp, zero. What of dp alone says is left out: the rest of the
// devices. Throws Error(invalid_argument) where a word is none, or is said twice and differently.
std::map<std::string, int, std::less<>> read_strategy(const std::string& text);

}  // namespace tutti::plan
