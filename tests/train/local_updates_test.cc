// Local updates come to the bits of replicas that one process plays, in every form that promises bits; asynchronous
// ones lose no step; all say what their formulas say.
#include "tutti/train/local_updates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "check.h"
#include "strategy/fragments.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::Bytes;
using testing::contains;
using testing::fill;
using testing::make;
using testing::on_ranks;
using testing::Ones;
using testing::require;
using testing::ToyModel;
using testing::value_of;
using train::LocalUpdates;
using train::LocalUpdatesOptions;
using train::Strategy;

const train::Optimizer kInner = train::AdamW{.learning_rate = 1e-2};

// Replicas of so many ranks each, played by one process: every rank's gradients, their mean inside a replica, inner
// steps, and outer steps over fragments.
class PlayedReplicas {
 public:
  PlayedReplicas(const ToyModel& model, int replicas, int site_ranks, const LocalUpdatesOptions& options)
      : model_(model), site_ranks_(site_ranks), options_(options) {
    std::vector<strategy::TensorSize> sizes;
    for (const train::Parameter& parameter : model.parameters) {
      sizes.push_back({parameter.elements(), parameter.type});
      const std::size_t elements = parameter.elements();
      starts_.push_back(testing::to_floats(model.memory[starts_.size()].data(), parameter.type, elements));
      momenta_.emplace_back(elements);
    }
    fragment_of_ = strategy::cut_into_fragments(sizes, options.fragments);
    for (int r = 0; r < replicas; ++r) {
      Replica& replica = replicas_.emplace_back();
      replica.masters = starts_;
      replica.values = model.memory;
      for (const auto& start : starts_)
        for (auto& states : replica.states) states.emplace_back(start.size());
    }
  }

  void step(int number) {
    ++steps_;
    for (std::size_t r = 0; r < replicas_.size(); ++r) inner_step(replicas_[r], static_cast<int>(r), number);
    const std::int64_t every = options_.every;
    for (std::size_t f = 0; f < options_.fragments; ++f) {
      const std::int64_t phase = strategy::begin_of_exchange(static_cast<std::int64_t>(f), every, options_.fragments);
      const auto begins_at = [&](std::int64_t step) { return step >= phase && (step - phase) % every == 0; };
      if (begins_at(steps_)) send(f);
      if (begins_at(steps_ - options_.overlap)) merge(f);
    }
  }

  // The end: everything once more, and taken as it is.
  void finish() {
    for (std::size_t f = 0; f < options_.fragments; ++f) {
      send(f);
      options_.mixing = 0;
      merge(f);
    }
  }

  const std::vector<Bytes>& values(int replica) const { return replicas_[static_cast<std::size_t>(replica)].values; }

 private:
  struct Replica {
    std::vector<std::vector<float>> masters, states[2], sent;
    std::vector<Bytes> values;
  };

  void inner_step(Replica& replica, int r, int number) {
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      const train::Parameter& parameter = model_.parameters[i];
      std::vector<Bytes> partial;
      for (int rank = r * site_ranks_; rank < (r + 1) * site_ranks_; ++rank)
        partial.push_back(testing::gradient_of(parameter, i, replica.values[i].data(), rank, number));
      const Bytes gradient =
          testing::reduce_naively(parameter.type, ReduceOp::average, std::move(partial), parameter.elements());
      if (gradient.empty()) continue;
      train::update(kInner, steps_,
                    {.count = parameter.elements(),
                     .master = replica.masters[i].data(),
                     .gradient = gradient.data(),
                     .gradient_type = parameter.type,
                     .states = {replica.states[0][i].data(), replica.states[1][i].data()}});
      testing::from_floats(replica.masters[i], parameter.type, replica.values[i].data());
    }
  }

  void send(std::size_t fragment) {
    for (Replica& replica : replicas_) {
      replica.sent.resize(starts_.size());
      for (std::size_t i = 0; i < starts_.size(); ++i)
        if (fragment_of_[i] == fragment) replica.sent[i] = replica.masters[i];
    }
  }

  void merge(std::size_t fragment) {
    const double kept = options_.mixing.value_or(options_.overlap > 0 ? 0.5 : 0);
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      if (fragment_of_[i] != fragment || starts_[i].empty()) continue;
      std::vector<Bytes> sent;
      for (const Replica& replica : replicas_) {
        const auto* bytes = reinterpret_cast<const std::byte*>(replica.sent[i].data());
        sent.emplace_back(bytes, bytes + 4 * replica.sent[i].size());
      }
      const Bytes mean = testing::reduce_naively(DType::float32, ReduceOp::average, std::move(sent), starts_[i].size());
      std::vector<float> gradient = testing::to_floats(mean.data(), DType::float32, starts_[i].size());
      for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] = starts_[i][k] - gradient[k];
      train::update(train::Sgd{.learning_rate = options_.learning_rate,
                               .momentum = options_.momentum,
                               .nesterov = options_.momentum > 0},
                    1,
                    {.count = gradient.size(),
                     .master = starts_[i].data(),
                     .gradient = gradient.data(),
                     .states = {momenta_[i].data(), nullptr}});
      for (Replica& replica : replicas_) {
        for (std::size_t k = 0; k < gradient.size(); ++k)
          replica.masters[i][k] = kept == 0 ? starts_[i][k]
                                            : static_cast<float>(kept) * replica.masters[i][k] +
                                                  static_cast<float>(1 - kept) * starts_[i][k];
        testing::from_floats(replica.masters[i], model_.parameters[i].type, replica.values[i].data());
      }
    }
  }

  const ToyModel& model_;
  int site_ranks_;
  LocalUpdatesOptions options_;
  std::vector<std::size_t> fragment_of_;
  std::vector<std::vector<float>> starts_, momenta_;
  std::vector<Replica> replicas_;
  std::int64_t steps_ = 0;
};

train::LocalStep train_step(LocalUpdates& local, const ToyModel& model, int rank, int step) {
  testing::run_passes(local.strategy(), model, rank, step);
  return local.step();
}

void trains_as_played(int ranks, int site_ranks, int stage, const LocalUpdatesOptions& options,
                      DType type = DType::float32) {
  constexpr int kSteps = 13;
  const ToyModel model(type);
  std::vector<std::vector<Bytes>> before, after;
  PlayedReplicas played(model, ranks / site_ranks, site_ranks, options);
  for (int step = 0; step < kSteps; ++step) played.step(step);
  for (int replica = 0; replica < ranks / site_ranks; ++replica) before.push_back(played.values(replica));
  const bool is_over = options.fragments == 1 && options.overlap == 0 && kSteps % options.every == 0;
  if (options.overlap == 0 && options.fragments == 1 && !is_over) played.finish();
  for (int replica = 0; replica < ranks / site_ranks; ++replica) after.push_back(played.values(replica));
  on_ranks(ranks, [&](Communicator& comm) {
    train::Replicas replicas = train::make_replicas(comm, site_ranks);
    Strategy strategy = make(stage, replicas.inside, model.parameters, {.bucket_bytes = 10'000}, kInner);
    LocalUpdates local(replicas, strategy, options);
    for (int step = 0; step < kSteps; ++step) train_step(local, model, comm.rank(), step);
    const auto replica = static_cast<std::size_t>(replicas.between.rank());
    require(testing::values_of(strategy, model) == before[replica], "the values of replicas that were played");
    strategy.verify();
    local.verify();
    local.finish();
    if (options.overlap == 0 && options.fragments == 1)
      require(testing::values_of(strategy, model) == after[replica], "the values at the end");
    std::uint64_t hash = 0, least = 0;
    for (const Bytes& bytes : testing::values_of(strategy, model))
      for (const std::byte byte : bytes) hash = hash * 31 + static_cast<std::uint64_t>(byte);
    comm.all_reduce(std::span<const std::uint64_t>(&hash, 1), std::span(&least, 1), ReduceOp::minimum);
    std::uint64_t same = least == hash ? 1 : 0;
    comm.all_reduce(std::span(&same, 1), ReduceOp::minimum);
    require(same == 1, "all replicas end alike");
    local.verify();
  });
}

TEST(LocalUpdates, ComeToTheBitsOfReplicasThatOneProcessPlays) {
  for (const int ranks : {1, 2, 3, 4})
    for (const std::int64_t every : {1, 4, 13}) trains_as_played(ranks, 1, 0, {.every = every});
  trains_as_played(3, 1, 0, {.every = 4}, DType::bfloat16);
  trains_as_played(3, 1, 0, {.every = 4, .learning_rate = 1, .momentum = 0.5});
}

TEST(LocalUpdates, StreamInFragmentsThatOverlapWithSteps) {
  for (const int ranks : {1, 3}) {
    trains_as_played(ranks, 1, 0, {.every = 6, .fragments = 3});
    trains_as_played(ranks, 1, 0, {.every = 6, .fragments = 3, .overlap = 1});
    trains_as_played(ranks, 1, 0, {.every = 5, .fragments = 2, .overlap = 4, .mixing = 0.25});
    trains_as_played(ranks, 1, 0, {.every = 5, .fragments = 8, .overlap = 2, .mixing = 0});
  }
  trains_as_played(2, 1, 0, {.every = 2, .fragments = 8, .overlap = 1}, DType::bfloat16);
}

// Sites of two ranks each, with any strategy inside.
TEST(LocalUpdates, GoBetweenSitesThatTrainByAnyStrategy) {
  for (const int stage : testing::kStages) {
    trains_as_played(4, 2, stage, {.every = 4});
    trains_as_played(4, 2, stage, {.every = 6, .fragments = 3, .overlap = 1});
  }
  trains_as_played(4, 2, 2, {.every = 4}, DType::bfloat16);
  trains_as_played(4, 4, 1, {.every = 4});
}

// One fragment without overlap is the plain form, whatever way it is written.
TEST(LocalUpdates, InOneFragmentWithoutOverlapAreThePlainForm) {
  const ToyModel model;
  std::vector<Bytes> results[2];
  for (const bool streaming : {false, true}) {
    on_ranks(3, [&](Communicator& comm) {
      train::Replicas replicas = train::make_replicas(comm);
      Strategy strategy = make(0, replicas.inside, model.parameters, {}, kInner);
      LocalUpdatesOptions options{.every = 5};
      if (streaming) options = {.every = 5, .fragments = 1, .overlap = 0, .mixing = 0.0};
      LocalUpdates local(replicas, strategy, options);
      for (int step = 0; step < 12; ++step) train_step(local, model, comm.rank(), step);
      if (comm.rank() == 1) results[streaming ? 1 : 0] = testing::values_of(strategy, model);
    });
  }
  EXPECT_EQ(results[0], results[1]);
}

// With every = 1, an outer learning rate of 1 and no momentum: masters are averaged by hand beside.
TEST(LocalUpdates, InEveryStepWithRateOneAreParameterAveraging) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const DType type : {DType::float32, DType::bfloat16}) {
      on_ranks(ranks, [&](Communicator& comm) {
        const ToyModel model(type);
        train::Replicas replicas = train::make_replicas(comm);
        Strategy strategy = make(0, replicas.inside, model.parameters, {}, kInner);
        Strategy averaged = make(0, replicas.inside, model.parameters, {}, kInner);
        LocalUpdates local(replicas, strategy, {.every = 1, .learning_rate = 1, .momentum = 0});
        static_cast<void>(averaged.owned());  // before a first step lays buckets out by an order of this rank's own
        for (int step = 0; step < 6; ++step) {
          require(train_step(local, model, comm.rank(), step).merged == 1, "an exchange in every step");
          testing::train_step(averaged, model, comm.rank(), step);
          for (const train::OwnedPart& part : averaged.owned())
            comm.all_reduce(std::span(part.shard.master, part.count), ReduceOp::average);
          averaged.restored(averaged.updates());
          require(testing::values_of(strategy, model) == testing::values_of(averaged, model), "the mean, bit for bit");
        }
      });
    }
  }
}

// A gradient of rank + 1 in every step, plain descent with rate 1: outer steps can be worked out by hand.
void step_by(LocalUpdates& local, float gradient, train::LocalStep* result = nullptr) {
  local.strategy().zero_gradients();
  for (const std::size_t i : {1, 0}) {
    fill(local.strategy(), i, gradient);
    local.strategy().ready(i);
  }
  const train::LocalStep step = local.step();
  if (result != nullptr) *result = step;
}

TEST(LocalUpdates, ApplyNesterovToTheStart) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters, {}, ones.plain);
    LocalUpdates local(replicas, strategy, {.every = 2, .learning_rate = 0.5, .momentum = 0.5});
    const auto gradient = static_cast<float>(comm.rank() + 1);
    step_by(local, gradient);
    require(value_of(strategy, 0) == 1 - gradient && local.exchanges() == 0, "by itself");
    step_by(local, gradient);
    // Outer gradient 3, momentum 3, so 1 - 0.5 * (3 + 1.5).
    require(value_of(strategy, 0) == -1.25F && value_of(strategy, 1) == -1.25F, "the first outer step");
    step_by(local, gradient);
    step_by(local, gradient);
    // Momentum 1.5 + 3.
    require(value_of(strategy, 0) == -1.25F - 0.5F * (3 + 2.25F), "the second");
    require(local.contributions() == std::vector<std::int64_t>{2, 2} && local.exchanges() == 2, "two of two steps");
  });
}

TEST(LocalUpdates, BeginWithTheValuesOfReplicaZero) {
  for (const int stage : {0, 1, 3}) {
    on_ranks(4, [&](Communicator& comm) {
      Ones ones;
      if (comm.rank() > 1) std::ranges::fill(ones.values, 7.0F);
      train::Replicas replicas = train::make_replicas(comm, 2);
      Strategy strategy = make(stage, replicas.inside, ones.parameters, {}, ones.plain);
      const LocalUpdates local(replicas, strategy);
      require(value_of(strategy, 0) == 1 && value_of(strategy, 1) == 1, "those of replica 0");
    });
  }
}

TEST(LocalUpdates, GoOnAfterTheyWereFinished) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters, {}, ones.plain);
    LocalUpdates local(replicas, strategy, {.every = 3, .learning_rate = 1, .momentum = 0});
    for (int step = 0; step < 5; ++step) step_by(local, static_cast<float>(2 * comm.rank()));
    local.finish();
    require(value_of(strategy, 0) == 1 - 5 && local.exchanges() == 2, "the mean of 0 and 2, five times");
    local.finish();
    require(local.exchanges() == 2, "nothing has moved");
    for (int step = 0; step < 2; ++step) step_by(local, static_cast<float>(2 * comm.rank()));
    require(local.exchanges() == 2, "the count begins anew");
    step_by(local, static_cast<float>(2 * comm.rank()));
    require(value_of(strategy, 0) == 1 - 8 && local.exchanges() == 3, "three steps more");
  });
}

// ---- Quantised.

// All replicas end alike, and not far from where they end without.
TEST(QuantisedUpdates, EndAlikeAndNearTheUnquantised) {
  using train::QuantisedType;
  for (const LocalUpdatesOptions& with :
       {LocalUpdatesOptions{.every = 4}, LocalUpdatesOptions{.every = 6, .fragments = 3, .overlap = 3},
        LocalUpdatesOptions{.every = 4, .asynchronous = true, .most_delay = 1}}) {
    for (const std::optional<QuantisedType> type :
         {std::optional<QuantisedType>(), {QuantisedType::int8}, {QuantisedType::int4}, {QuantisedType::e3m0}}) {
      on_ranks(3, [&](Communicator& comm) {
        const ToyModel model;
        train::Replicas replicas = train::make_replicas(comm);
        Strategy strategy = make(0, replicas.inside, model.parameters, {}, kInner);
        LocalUpdatesOptions options = with;
        if (type) options.quantise = train::Quantise{.type = *type};
        LocalUpdates local(replicas, strategy, options);
        for (int step = 0; step < 24; ++step) train_step(local, model, comm.rank(), step);
        local.finish();
        local.verify();
        Strategy whole = make(0, comm, model.parameters, {}, kInner);
        std::vector<float> all;
        for (std::size_t i = 0; i < strategy.size(); ++i) {
          const auto values = strategy.values_as<float>(i);
          std::ranges::copy(values, whole.values_as<float>(i).begin());
          all.insert(all.end(), values.begin(), values.end());
        }
        whole.verify();
        static std::vector<float> exact;
        if (!type && comm.rank() == 0) exact = all;
        comm.barrier();
        double off = 0, moved = 0;
        std::size_t k = 0;
        for (std::size_t i = 0; i < strategy.size(); ++i) {
          const std::vector<float> first =
              testing::to_floats(model.memory[i].data(), DType::float32, model.parameters[i].elements());
          for (const float start : first) {
            off += std::pow(all[k] - exact[k], 2);
            moved += std::pow(exact[k++] - start, 2);
          }
        }
        if (options.asynchronous) return;  // when results are merged depends on timing
        const double limit = !type ? 0 : *type == QuantisedType::int8 ? 0.05 : 0.4;
        require(std::sqrt(off / moved) <= limit, "off by " + std::to_string(std::sqrt(off / moved)));
      });
    }
  }
}

// What is small beside the largest of its block is nothing in four bits, but not for ever.
TEST(QuantisedUpdates, MakeUpForWhatWasLost) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](Communicator& comm) {
      const Ones ones;
      train::Replicas replicas = train::make_replicas(comm);
      Strategy strategy = make(0, replicas.inside, ones.parameters, {}, ones.plain);
      LocalUpdates local(replicas, strategy,
                         {.every = 1,
                          .learning_rate = 1,
                          .momentum = 0,
                          .quantise = train::Quantise{.type = train::QuantisedType::int4}});
      for (int step = 0; step < 40; ++step) {
        strategy.zero_gradients();
        fill(strategy, 0, 1);
        fill(strategy, 1, 1 / 64.0F);
        for (const std::size_t i : {1, 0}) strategy.ready(i);
        local.step();
      }
      require(std::abs(value_of(strategy, 0) - (1 - 40)) < 0.01F, "the large one");
      require(std::abs(value_of(strategy, 1) - (1 - 40 / 64.0F)) < 0.3F, std::to_string(value_of(strategy, 1)));
    });
  }
}

// ---- Asynchronous.

// Replica 0 has made 25 steps before replica 1 makes its first.
TEST(AsynchronousUpdates, HoldNobodyUpAndLoseNoStep) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters, {}, ones.plain);
    LocalUpdates local(replicas, strategy, {.every = 10, .learning_rate = 1, .momentum = 0, .asynchronous = true});
    const float gradient = comm.rank() == 0 ? 1 : 4;
    train::LocalStep result;
    if (comm.rank() == 0) {
      for (int step = 0; step < 25; ++step) {
        step_by(local, gradient, &result);
        require(result.merged == 0, "there is nothing to merge");
      }
      require(value_of(strategy, 0) == 1 - 25, "on its own");
    }
    comm.barrier();
    if (comm.rank() == 1)
      for (int step = 0; step < 10; ++step) step_by(local, gradient, &result);
    comm.barrier();
    while (local.exchanges() == 0) step_by(local, gradient, &result);
    // Ten steps each: the mean of 10 and 40, and what each has moved since it began.
    const auto since = static_cast<float>(local.steps() - 10);
    require(value_of(strategy, 0) == 1 - 25 - gradient * since, "the mean, and what was moved meanwhile");
    require(result.merged == 1 && result.delay == local.steps() - 10, "the delay");
    require(local.contributions() == std::vector<std::int64_t>{10, 10}, "what it is made of");
    const std::int64_t so_far = local.steps();
    comm.barrier();
    local.finish();
    std::vector<std::int64_t> steps(2);
    comm.all_gather(std::span(&so_far, 1), steps);
    const auto all = static_cast<float>(steps[0] + 4 * steps[1]) / 2;
    require(value_of(strategy, 0) == 1 - all && value_of(strategy, 1) == 1 - all, "every step counts once");
    local.verify();
  });
}

TEST(AsynchronousUpdates, WaitForWhatIsTooOldWhereToldSo) {
  on_ranks(2, [&](Communicator& comm) {
    const Ones ones;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, ones.parameters, {}, ones.plain);
    LocalUpdates local(replicas, strategy,
                       {.every = 4, .learning_rate = 1, .momentum = 0, .asynchronous = true, .most_delay = 3});
    std::int64_t longest = 0;
    for (int step = 0; step < 40; ++step) {
      train::LocalStep result;
      step_by(local, 1, &result);
      longest = std::max(longest, result.delay);
    }
    require(longest <= 3 && local.exchanges() >= 5, "never older");
    local.finish();
    require(value_of(strategy, 0) == 1 - 40, "both moved alike");
  });
}

// Replicas of two ranks, in fragments, with different numbers of steps: they end alike.
TEST(AsynchronousUpdates, EndAlikeWhateverEachHasDone) {
  for (const int stage : testing::kStages) {
    on_ranks(4, [&](Communicator& comm) {
      const ToyModel model;
      train::Replicas replicas = train::make_replicas(comm, 2);
      Strategy strategy = make(stage, replicas.inside, model.parameters, {.bucket_bytes = 10'000}, kInner);
      LocalUpdates local(replicas, strategy, {.every = 6, .fragments = 3, .asynchronous = true});
      const int steps = replicas.between.rank() == 0 ? 31 : 9;
      for (int step = 0; step < steps; ++step) train_step(local, model, comm.rank(), step);
      local.finish();
      local.verify();
      Strategy whole = make(0, comm, model.parameters, {}, kInner);  // to compare values over all ranks
      const std::vector<Bytes> values = testing::values_of(strategy, model);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!values[i].empty()) std::memcpy(whole.values(i), values[i].data(), values[i].size());
      whole.verify();
    });
  }
}

// ---- What they say.

void says_its_sentence(int ranks, int site_ranks, int stage, const LocalUpdatesOptions& options) {
  const ToyModel model;
  on_ranks(ranks, [&](Communicator& comm) {
    train::Replicas replicas = train::make_replicas(comm, site_ranks);
    Strategy strategy = make(stage, replicas.inside, model.parameters, {.bucket_bytes = 10'000}, kInner);
    LocalUpdates local(replicas, strategy, options);
    constexpr std::int64_t kSteps = 12;
    for (int step = 0; step < kSteps; ++step) train_step(local, model, comm.rank(), step);
    const train::Report report = local.report();
    const Counters inner = strategy.counters(), outer = local.counters();
    for (std::size_t v = 0; v < kVerbs; ++v) {
      const auto verb = static_cast<Verb>(v);
      train::Spoken said = spoken(report.once, verb);
      for (const train::Phrase& phrase : report.each_step) {
        if (phrase.verb != verb) continue;
        const auto times = static_cast<std::uint64_t>(kSteps / phrase.every) * phrase.times;
        said.calls += times;
        said.bytes += times * phrase.bytes;
      }
      const std::string name(name_of(verb));
      require(said.calls == inner[verb].calls + outer[verb].calls, name + ": calls");
      require(said.bytes == inner[verb].bytes + outer[verb].bytes, name + ": bytes");
    }
    // Between replicas: the model once in `every` steps, cut over the ranks of a replica.
    std::uint64_t between = 0, elements = 0;
    for (const train::Phrase& phrase : report.each_step)
      if (phrase.what.starts_with("outer gradients")) between += phrase.bytes;
    for (const train::Parameter& parameter : model.parameters) elements += parameter.elements();
    if (options.quantise) {
      require(stage > 0 || between < elements, "codes of four bits, scales, and places that are not finite");
      return;
    }
    if (stage == 0) require(between == elements * sizeof(float), "four bytes for each number");
    std::uint64_t all = between;
    replicas.inside.all_reduce(std::span(&all, 1));
    require(all == elements * sizeof(float) * static_cast<std::uint64_t>(stage == 0 ? site_ranks : 1), "or its shard");
  });
}

TEST(LocalUpdates, CountWhatTheirSentenceSays) {
  for (const int ranks : {1, 2, 3}) {
    says_its_sentence(ranks, 1, 0, {.every = 4});
    says_its_sentence(ranks, 1, 0, {.every = 6, .fragments = 3});
  }
  const train::Quantise few{.type = train::QuantisedType::e3m0};
  for (const int ranks : {1, 2, 3}) says_its_sentence(ranks, 1, 0, {.every = 4, .fragments = 2, .quantise = few});
  says_its_sentence(4, 2, 1, {.every = 4, .fragments = 8, .quantise = few});
  for (const int stage : {0, 1, 2}) {
    says_its_sentence(4, 2, stage, {.every = 4});
    says_its_sentence(4, 2, stage, {.every = 6, .fragments = 3});
  }
}

TEST(LocalUpdates, TellAReport) {
  on_ranks(2, [&](Communicator& comm) {
    const ToyModel model;
    train::Replicas replicas = train::make_replicas(comm);
    Strategy strategy = make(0, replicas.inside, model.parameters, {}, kInner);
    LocalUpdates local(replicas, strategy, {.every = 5});
    for (int step = 0; step < 6; ++step) train_step(local, model, comm.rank(), step);
    const train::Report report = local.report();
    const std::string text = to_text(report);
    for (const char* part : {"local updates every 5 steps, 2 replicas of data parallel, 2 ranks, after 6 steps",
                             "outer gradients of fragment 0", "exposed, every 5 steps", "where they set out"})
      require(contains(text, part), text);
    require(contains(to_json(report), "\"every\": 5") && contains(to_json(report), "\"outer_bytes\": "),
            to_json(report));
    require(report.times.computing_us > 0, "what exchanges take is no computing");
    const std::uint64_t model_bytes = report.bytes.elements * sizeof(float);
    require(report.bytes.outer == 2 * model_bytes && report.bytes.in_flight == model_bytes, "bytes");
  });
}

}  // namespace
}  // namespace tutti
