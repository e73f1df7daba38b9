// Crossings against what they are by definition, a model cut over a mesh against the same in one process, the norm of
// a model whose parts are trained by strategies of their own, bytes by formula, and what is refused.
#include "tutti/train/tensor_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "check.h"
#include "train/matrices.h"
#include "train/ones.h"
#include "train/saved_folder.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/mesh.h"

namespace tutti {
namespace {

using testing::Array;
using testing::columns_of;
using testing::contains;
using testing::error_of;
using testing::multiply;
using testing::on_ranks;
using testing::Ranks;
using testing::require;
using testing::run_ranks;
using testing::turned;
using train::conjugate;
using train::Crossing;
using train::CutPart;
using train::Mesh;
using train::TensorParallel;

constexpr Crossing kCrossings[] = {Crossing::copy,    Crossing::reduce,          Crossing::gather,
                                   Crossing::scatter, Crossing::gather_sequence, Crossing::reduce_scatter_sequence};

bool takes_part(Crossing crossing) { return crossing == Crossing::gather || crossing == Crossing::gather_sequence; }
bool leaves_part(Crossing crossing) {
  return crossing == Crossing::scatter || crossing == Crossing::reduce_scatter_sequence;
}

// Rank `rank`'s part of an array of {before, extent, behind}.
template <class T>
Array<T> part_of(const Array<T>& whole, std::size_t before, std::size_t extent, std::size_t ranks, std::size_t rank) {
  const std::size_t row = whole.size() / before, piece = row / ranks;
  Array<T> part;
  for (std::size_t i = 0; i < before; ++i)
    part.insert(part.end(), whole.begin() + static_cast<std::ptrdiff_t>(i * row + rank * piece),
                whole.begin() + static_cast<std::ptrdiff_t>(i * row + (rank + 1) * piece));
  EXPECT_EQ(extent % ranks, 0U);
  return part;
}

// Whole numbers, so that sums are exact in any order.
template <class T>
Array<T> whole_of(int rank, std::size_t count) {
  Array<T> whole(count);
  for (std::size_t i = 0; i < count; ++i)
    whole[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  return whole;
}

template <class T>
void check_crossings(TensorParallel& tp, std::size_t before) {
  const auto ranks = static_cast<std::size_t>(tp.size()), rank = static_cast<std::size_t>(tp.rank());
  const std::size_t extent = 3 * ranks, behind = 5, count = before * extent * behind;
  const train::CutArray array{.type = Element::of<T>().dtype(), .before = before, .extent = extent, .behind = behind};
  Array<T> sum(count);
  for (int other = 0; other < tp.size(); ++other) {
    const Array<T> whole = whole_of<T>(other, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += whole[i];
  }
  for (const Crossing crossing : kCrossings) {
    // What all have alike is rank 0's; terms of a sum are each rank's own.
    const bool terms = crossing == Crossing::reduce || crossing == Crossing::reduce_scatter_sequence;
    const Array<T> own = whole_of<T>(terms ? tp.rank() : 0, count);
    const Array<T> input = takes_part(crossing) ? part_of(own, before, extent, ranks, rank) : own;
    const Array<T>& all = terms ? sum : own;
    const Array<T> expected = leaves_part(crossing) ? part_of(all, before, extent, ranks, rank) : all;
    Array<T> output(expected.size());
    tp.cross(crossing, input.data(), output.data(), array);
    require(output == expected, "crossing " + std::to_string(static_cast<int>(crossing)));
    if (before != 1) continue;
    output.assign(output.size(), T(-1));
    Work work = tp.start(crossing, input.data(), output.data(), array);
    wait_all(std::span(&work, 1));
    require(output == expected, "started crossing " + std::to_string(static_cast<int>(crossing)));
  }
}

TEST(Crossings, AreWhatTheySay) {
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [](Communicator& comm) {
      TensorParallel tp(comm);
      for (const std::size_t before : {1, 4}) {
        check_crossings<float>(tp, before);
        check_crossings<double>(tp, before);
      }
    });
  }
}

TEST(Crossings, AreConjugate) {
  for (const Crossing crossing : kCrossings) {
    EXPECT_EQ(conjugate(conjugate(crossing)), crossing);
    EXPECT_EQ(takes_part(crossing), leaves_part(conjugate(crossing)));
  }
}

TEST(Crossings, NameARankThatDiesInTheMiddleOfOne) {
  for (const Ranks kind : {Ranks::processes, Ranks::tcp}) {
    const auto ends = run_ranks(kind, 4, [](Communicator& comm) {
      Communicator telling = comm.duplicate();
      TensorParallel tp(comm);
      if (comm.rank() == 1) {
        std::thread([&] {
          int token = 0;
          telling.recv(one(token), 0);
          ::raise(SIGKILL);
        }).detach();
      }
      std::vector<float> whole(1'000'000), part(whole.size() / 4);
      const Error error = error_of([&] {
        for (int step = 0;; ++step) {
          if (comm.rank() == 0 && step == 5) telling.send(one(step), 1);
          tp.cross(Crossing::reduce, whole.data(), whole.data(), {.extent = whole.size()});
          tp.cross(Crossing::gather, part.data(), whole.data(), {.extent = whole.size()});
        }
      });
      require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
    });
    EXPECT_EQ(ends[1].signal, SIGKILL) << ends[1].message;
    for (const std::size_t rank : {0u, 2u, 3u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
  }
}

TEST(Crossings, PartsAreEvenWhereTheyMustBe) {
  on_ranks(3, [](Communicator& comm) {
    TensorParallel tp(comm, "cut");
    std::int64_t all = tp.part_of(128).count;
    require(all == 42 || all == 43, "uneven");
    comm.all_reduce(one(all));
    require(all == 128, "nothing is left out");
    require(tp.even_part_of(12, "it") == CutPart{4 * tp.rank(), 4}, "even");
    const std::string words = error_of([&] { (void)tp.even_part_of(64, "the hidden size"); }).what();
    require(words ==
                "axis \"cut\" of 3 ranks cannot cut the hidden size, 64, evenly; make it a multiple of 3, or give "
                "the axis a size that divides it",
            words);
    Array<float> values(64);
    require(contains(error_of([&] { tp.cross(Crossing::gather, values.data(), values.data(), {.extent = 64}); }).what(),
                     "cannot cut a dimension of an activation, 64"),
            "a crossing");
    require(contains(error_of([&] {
                       (void)tp.start(Crossing::gather, values.data(), values.data(), {.before = 2, .extent = 3});
                     }).what(),
                     "cut along its first dimension"),
            "a start");
  });
}

// ---- A model: z = x + tanh(x A + a) B + b, logits z C, their cross entropy; A and C cut by columns, B by rows.

struct Sizes {
  std::size_t tokens = 4, width = 3, hidden = 4, vocabulary = 7;
};

// The parameters A, a, B, b, C, or their gradients.
constexpr std::size_t kParameters = 5;
constexpr bool kCut[] = {true, true, true, false, true};
template <class T>
using Model = std::array<Array<T>, kParameters>;

template <class T>
Model<T> whole_model(const Sizes& sizes, unsigned seed) {
  Model<T> model{Array<T>(sizes.width * sizes.hidden), Array<T>(sizes.hidden), Array<T>(sizes.hidden * sizes.width),
                 Array<T>(sizes.width), Array<T>(sizes.width * sizes.vocabulary)};
  std::mt19937 random(seed);
  for (Array<T>& values : model)
    for (T& value : values) value = static_cast<T>(static_cast<double>(random() % 2001) / 1000 - 1);
  return model;
}

template <class T>
Model<T> cut_model(const Model<T>& whole, const Sizes& sizes, const TensorParallel& tp) {
  const CutPart hidden = tp.even_part_of(static_cast<std::int64_t>(sizes.hidden), "the hidden size");
  const CutPart vocabulary = tp.part_of(static_cast<std::int64_t>(sizes.vocabulary));
  const auto width = static_cast<std::int64_t>(sizes.width);
  return {columns_of(whole[0], sizes.hidden, hidden), columns_of(whole[1], sizes.hidden, hidden),
          columns_of(whole[2], whole[2].size(), {hidden.first * width, hidden.count * width}), whole[3],
          columns_of(whole[4], sizes.vocabulary, vocabulary)};
}

// This rank's batch: tokens and what is to come out.
template <class T>
struct Batch {
  Array<T> tokens;
  std::vector<std::int64_t> targets;
  Batch(const Sizes& sizes, std::size_t batches, std::size_t first, int step) {
    std::mt19937 random(static_cast<unsigned>(1000 + step));
    for (std::size_t batch = 0; batch < first + batches; ++batch) {
      if (batch == first) {
        tokens.clear();
        targets.clear();
      }
      for (std::size_t i = 0; i < sizes.tokens * sizes.width; ++i)
        tokens.push_back(static_cast<T>(static_cast<double>(random() % 2001) / 1000 - 1));
      for (std::size_t i = 0; i < sizes.tokens; ++i)
        targets.push_back(static_cast<std::int64_t>(random() % sizes.vocabulary));
    }
  }
};

// Forward and backward of one batch on this rank; the mean loss, and gradients into `gradient`.
template <class T>
T learn(TensorParallel& tp, const Sizes& sizes, const Model<T>& model, const Batch<T>& batch, bool sequence,
        Model<T>& gradient) {
  const auto ranks = static_cast<std::size_t>(tp.size()), rank = static_cast<std::size_t>(tp.rank());
  const std::size_t tokens = batch.targets.size(), width = sizes.width, hidden = model[1].size();
  const std::size_t own = sequence ? tokens / ranks : tokens, columns = model[4].size() / width;
  const train::CutArray rows{.type = Element::of<T>().dtype(), .before = 1, .extent = tokens, .behind = width};
  const auto crossed = [&](Crossing crossing, const Array<T>& from, std::size_t count) {
    Array<T> to(count * width);
    tp.cross(crossing, from.data(), to.data(), rows);
    return to;
  };
  const Crossing into = sequence ? Crossing::gather_sequence : Crossing::copy;
  const Crossing out = sequence ? Crossing::reduce_scatter_sequence : Crossing::reduce;
  const Array<T> x = sequence ? part_of(batch.tokens, 1, tokens, ranks, rank) : batch.tokens;

  const Array<T> all_x = crossed(into, x, tokens);
  Array<T> h(tokens * hidden), term(tokens * width), logits(tokens * columns), losses(tokens), d_logits(logits.size());
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = model[1][i % hidden];
  multiply(all_x.data(), model[0].data(), h.data(), tokens, width, hidden);
  for (T& value : h) value = std::tanh(value);
  multiply(h.data(), model[2].data(), term.data(), tokens, hidden, width);
  Array<T> z = crossed(out, term, own);
  for (std::size_t i = 0; i < z.size(); ++i) z[i] += x[i] + model[3][i % width];
  const Array<T> all_z = crossed(into, z, tokens);
  multiply(all_z.data(), model[4].data(), logits.data(), tokens, width, columns);
  train::vocabulary_cross_entropy(tp, std::span<const T>(logits), batch.targets,
                                  static_cast<std::int64_t>(sizes.vocabulary), std::span(losses), std::span(d_logits));
  for (T& value : d_logits) value /= static_cast<T>(tokens);

  for (std::size_t i = 0; i < kParameters; ++i) gradient[i].assign(model[i].size(), T(0));
  multiply(turned(all_z, width).data(), d_logits.data(), gradient[4].data(), width, tokens, columns);
  Array<T> d_all_z(tokens * width);
  multiply(d_logits.data(), turned(model[4], columns).data(), d_all_z.data(), tokens, columns, width);
  const Array<T> d_z = crossed(conjugate(into), d_all_z, own);
  for (std::size_t i = 0; i < d_z.size(); ++i) gradient[3][i % width] += d_z[i];
  if (sequence) tp.reduce(gradient[3].data(), width, rows.type, ReduceOp::sum);
  const Array<T> d_term = crossed(conjugate(out), d_z, tokens);
  multiply(turned(h, hidden).data(), d_term.data(), gradient[2].data(), hidden, tokens, width);
  Array<T> d_h(h.size());
  multiply(d_term.data(), turned(model[2], width).data(), d_h.data(), tokens, width, hidden);
  for (std::size_t i = 0; i < h.size(); ++i) {
    d_h[i] *= 1 - h[i] * h[i];
    gradient[1][i % hidden] += d_h[i];
  }
  multiply(turned(all_x, width).data(), d_h.data(), gradient[0].data(), width, tokens, hidden);
  return std::accumulate(losses.begin(), losses.end(), T(0)) / static_cast<T>(tokens);
}

constexpr int kSteps = 20;

// Losses of one process that has all batches, by plain gradient descent.
template <class T>
std::vector<T> one_process(const Sizes& sizes, std::size_t batches, unsigned seed) {
  std::vector<T> losses;
  on_ranks(1, [&](Communicator& comm) {
    TensorParallel tp(comm);
    Model<T> model = whole_model<T>(sizes, seed), gradient;
    for (int step = 0; step < kSteps; ++step) {
      losses.push_back(learn(tp, sizes, model, Batch<T>(sizes, batches, 0, step), false, gradient));
      for (std::size_t i = 0; i < kParameters; ++i)
        for (std::size_t j = 0; j < model[i].size(); ++j) model[i][j] -= T(0.2) * gradient[i][j];
    }
  });
  return losses;
}

template <class T>
void train_on(Mesh& mesh, const Sizes& sizes, bool sequence, unsigned seed, const std::vector<T>& expected,
              double tolerance) {
  TensorParallel tp(mesh.along("tp"));
  Communicator& dp = mesh.along("dp");
  Model<T> model = cut_model(whole_model<T>(sizes, seed), sizes, tp), gradient;
  for (int step = 0; step < kSteps; ++step) {
    const Batch<T> batch(sizes, 1, static_cast<std::size_t>(dp.rank()), step);
    T loss = learn(tp, sizes, model, batch, sequence, gradient);
    dp.all_reduce(one(loss), ReduceOp::average);
    const T right = expected[static_cast<std::size_t>(step)];
    require(std::abs(loss - right) <= tolerance * std::abs(right),
            to_text(mesh.axes()) + (sequence ? " by tokens" : "") + ", step " + std::to_string(step) + ": loss " +
                std::to_string(loss) + " and in one process " + std::to_string(right));
    for (std::size_t i = 0; i < kParameters; ++i) {
      dp.all_reduce(gradient[i], ReduceOp::average);
      for (std::size_t j = 0; j < model[i].size(); ++j) model[i][j] -= T(0.2) * gradient[i][j];
    }
  }
}

// Meshes of 1 to 8 ranks by chance, both ways of cutting, both types.
class MeshesOf : public ::testing::TestWithParam<Ranks> {};
TEST_P(MeshesOf, TrainAsOneProcessDoes) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::mt19937 random(static_cast<unsigned>(ranks) * 100 + static_cast<unsigned>(GetParam()));
    std::vector<int> divisors;
    for (int i = 1; i <= ranks; ++i)
      if (ranks % i == 0) divisors.push_back(i);
    const int tp = ranks <= 2 ? ranks : divisors[random() % divisors.size()], dp = ranks / tp;
    const auto cut = static_cast<std::size_t>(tp);
    const Sizes sizes{.tokens = cut * (1 + random() % 3),
                      .width = 1 + random() % 5,
                      .hidden = cut * (1 + random() % 3),
                      .vocabulary = cut + random() % 9};
    const auto seed = static_cast<unsigned>(random());
    const std::vector<double> doubles = one_process<double>(sizes, static_cast<std::size_t>(dp), seed);
    const std::vector<float> floats = one_process<float>(sizes, static_cast<std::size_t>(dp), seed);
    testing::expect_all_ok(run_ranks(GetParam(), ranks, [&](Communicator& comm) {
      Mesh mesh(comm, {{"dp", dp}, {"tp", tp}});
      for (const bool sequence : {false, true}) {
        train_on(mesh, sizes, sequence, seed, doubles, 1e-12);
        train_on(mesh, sizes, sequence, seed, floats, 1e-5);
      }
    }));
  }
}
INSTANTIATE_TEST_SUITE_P(All, MeshesOf, ::testing::Values(Ranks::processes, Ranks::tcp),
                         [](const auto& made) { return testing::name_of(made.param); });

// ---- Strategies for parts of a model.

// With where each lies in the whole.
train::Parameters parameters_of(const Model<float>& model, const Sizes& sizes, const TensorParallel& tp) {
  constexpr const char* kNames[] = {"A", "a", "B", "b", "C"};
  const auto length = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  const std::vector<std::int64_t> shapes[] = {{length(sizes.width), length(sizes.hidden)},
                                              {length(sizes.hidden)},
                                              {length(sizes.hidden), length(sizes.width)},
                                              {length(sizes.width)},
                                              {length(sizes.width), length(sizes.vocabulary)}};
  const CutPart hidden = tp.part_of(length(sizes.hidden)), vocabulary = tp.part_of(length(sizes.vocabulary));
  const auto part = [&](std::size_t i, std::size_t row, const CutPart& cut, std::size_t place = 1) {
    return train::ParameterPart{shapes[i], row * place, static_cast<std::size_t>(cut.first) * place,
                                static_cast<std::size_t>(cut.count) * place};
  };
  train::Parameters parameters;
  for (std::size_t i = 0; i < kParameters; ++i)
    parameters.push_back({.name = kNames[i], .shape = {length(model[i].size())}, .values = model[i].data()});
  parameters[0].part = part(0, sizes.hidden, hidden);
  parameters[1].part = part(1, sizes.hidden, hidden);
  parameters[2].part = part(2, sizes.hidden, hidden, sizes.width);
  parameters[3].shape = shapes[3];
  parameters[4].part = part(4, sizes.vocabulary, vocabulary);
  return parameters;
}

// The norms of all steps, with a clip that bites.
std::vector<double> norms_of(Mesh& mesh, const Sizes& sizes, int stage, bool counts_all = false) {
  TensorParallel tp(mesh.along("tp"));
  Communicator& dp = mesh.along("dp");
  Model<float> model = cut_model(whole_model<float>(sizes, 3), sizes, tp), gradient;
  train::StrategyOptions options{.clip_norm = 0.3, .model_ranks = &tp.communicator()};
  options.counts_in_norm = [&](const train::Parameter& parameter) {
    return counts_all || parameter.name != "b" || tp.rank() == 0;
  };
  train::Strategy strategy =
      testing::make(stage, dp, parameters_of(model, sizes, tp), options, train::Sgd{.learning_rate = 0.5});
  std::vector<double> norms;
  const int batches = 4 / dp.size();
  for (int step = 0; step < 5; ++step) {
    const Batch<float> batch(sizes, static_cast<std::size_t>(batches), static_cast<std::size_t>(dp.rank() * batches),
                             step);
    strategy.gather(0);
    for (std::size_t i = 0; i < kParameters; ++i)
      model[i].assign(strategy.values_as<float>(i).begin(), strategy.values_as<float>(i).end());
    strategy.release(0);
    learn(tp, sizes, model, batch, false, gradient);
    for (std::size_t i = 0; i < kParameters; ++i) {
      strategy.set_gradient(i, gradient[i].data());
      strategy.ready(i);
    }
    norms.push_back(strategy.step().gradient_norm);
  }
  const train::Report report = strategy.report();
  const auto agreement = std::ranges::find_if(
      report.each_step, [](const train::Phrase& phrase) { return phrase.what == "squares of parts of the model"; });
  require((agreement != report.each_step.end()) == (tp.size() > 1), "the sentence has it where there are parts");
  const train::Spoken said = spoken(report.each_step, Verb::all_reduce), once = spoken(report.once, Verb::all_reduce);
  require(strategy.counters()[Verb::all_reduce].calls == once.calls + 5 * said.calls, "calls as the sentence says");
  require(strategy.counters()[Verb::all_reduce].bytes == once.bytes + 5 * said.bytes, "bytes as the sentence says");
  return norms;
}

TEST(NormOfParts, IsThatOfTheWhole) {
  const Sizes sizes{.tokens = 6, .width = 5, .hidden = 8, .vocabulary = 9};
  std::vector<double> expected;
  on_ranks(1, [&](Communicator& comm) {
    Mesh mesh(comm, {{"dp", 1}, {"tp", 1}});
    expected = norms_of(mesh, sizes, 0);
  });
  ASSERT_GT(expected[0], 0.3) << "the clip bites";
  for (const char* axes : {"dp1.tp2", "dp2.tp2", "dp1.tp4"}) {
    const std::vector<train::MeshAxis> parsed = train::parse_mesh(axes);
    on_ranks(parsed[0].size * parsed[1].size, [&](Communicator& comm) {
      Mesh mesh(comm, parsed);
      for (const int stage : testing::kStages) {
        const std::vector<double> norms = norms_of(mesh, sizes, stage);
        for (std::size_t i = 0; i < norms.size(); ++i)
          require(std::abs(norms[i] - expected[i]) < 1e-5 * expected[i],
                  std::string(axes) + " stage " + std::to_string(stage) + ": norm " + std::to_string(norms[i]) +
                      " in the place of " + std::to_string(expected[i]));
      }
      // What all ranks hold, counted by each, is found.
      require(norms_of(mesh, sizes, 0, /*counts_all=*/true)[0] > 1.0001 * expected[0], "counted twice");
    });
  }
}

// One part overflows: all skip.
TEST(NormOfParts, AllSkipWhatOneHasToSkip) {
  on_ranks(4, [](Communicator& comm) {
    Mesh mesh(comm, train::parse_mesh("dp2.tp2"));
    testing::Ones ones;
    train::StrategyOptions options{.model_ranks = &mesh.along("tp"), .loss_scale = train::LossScale{.initial = 8}};
    train::Strategy strategy = train::data_parallel(mesh.along("dp"), ones.parameters, ones.plain, options);
    for (const bool overflows : {true, false}) {
      strategy.zero_gradients();
      const bool here = overflows && comm.rank() == 3;
      for (const std::size_t i : {0, 1}) {
        testing::fill(strategy, i, here ? std::numeric_limits<float>::infinity() : 1.0F);
        strategy.ready(i);
      }
      require(strategy.step().skipped == overflows, "skipped alike");
      require(strategy.loss_scale() == 4, "the scale of all");
    }
  });
}

// Masters, or a state, that tell in the whole which element they are.
Model<float> numbered(const Sizes& sizes, float begin) {
  Model<float> model = whole_model<float>(sizes, 1);
  for (Array<float>& values : model)
    for (float& value : values) value = begin++;
  return model;
}

// Saves where masters and states are numbered, or loads and compares.
void pass_checkpoint(Communicator& comm, const std::string& folder, const char* axes, int stage, bool saves) {
  const Sizes sizes{.tokens = 1, .width = 5, .hidden = 12, .vocabulary = 9};
  Mesh mesh(comm, train::parse_mesh(axes));
  TensorParallel tp(mesh.along("tp"));
  const Model<float> begin = cut_model(whole_model<float>(sizes, 1), sizes, tp);
  train::StrategyOptions options;
  options.counts_in_norm = [&](const train::Parameter& parameter) { return parameter.part || tp.rank() == 0; };
  train::Strategy strategy = testing::make(stage, mesh.along("dp"), parameters_of(begin, sizes, tp), options);
  const Model<float> arrays[] = {cut_model(numbered(sizes, 1), sizes, tp), cut_model(numbered(sizes, 1000), sizes, tp),
                                 cut_model(numbered(sizes, 5000), sizes, tp)};
  const auto each_owned = [&](const auto& visit) {
    for (const train::OwnedPart& part : strategy.owned()) {
      float* const places[] = {part.shard.master, part.shard.states[0], part.shard.states[1]};
      for (std::size_t array = 0; array < 3; ++array)
        for (std::size_t i = 0; i < part.count; ++i)
          visit(places[array][i], arrays[array][part.parameter][part.first + i]);
    }
  };
  train::Checkpoints checkpoints(mesh.all(), folder);
  if (saves) {
    each_owned([](float& there, float right) { there = right; });
    strategy.restored(7);
    checkpoints.save(strategy, {.step = 7});
  } else {
    require(checkpoints.load(strategy)->step == 7 && strategy.updates() == 7, "loaded");
    each_owned([&](float there, float right) {
      require(there == right, std::string(axes) + " stage " + std::to_string(stage) + ": " + std::to_string(there) +
                                  " in the place of " + std::to_string(right));
    });
    strategy.gather(0);
    for (std::size_t i = 0; i < kParameters; ++i)
      require(std::ranges::equal(strategy.values_as<float>(i), arrays[0][i]), "values");
    strategy.release(0);
  }
}

TEST(CheckpointsOfParts, AreWholeAndLoadOnAnyMesh) {
  constexpr std::pair<const char*, int> kMeshes[] = {{"dp1.tp1", 0}, {"dp2.tp2", 1}, {"dp1.tp3", 0},
                                                     {"dp2.tp3", 3}, {"dp4.tp1", 2}, {"dp2.tp2", 0}};
  const auto run = [](const std::pair<const char*, int>& how, const std::string& folder, bool saves) {
    const std::vector<train::MeshAxis> axes = train::parse_mesh(how.first);
    on_ranks(axes[0].size * axes[1].size,
             [&](Communicator& comm) { pass_checkpoint(comm, folder, how.first, how.second, saves); });
  };
  for (const auto& from : kMeshes) {
    const testing::SavedFolder folder;
    run(from, folder.path(), true);
    for (const auto& to : kMeshes) run(to, folder.path(), false);
  }
}

TEST(CheckpointsOfParts, NeedAllRanksOfTheMesh) {
  const testing::SavedFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    TensorParallel tp(comm);
    const Sizes sizes;
    const Model<float> model = cut_model(whole_model<float>(sizes, 1), sizes, tp);
    Communicator self = comm.self();
    train::Strategy strategy = testing::make(0, self, parameters_of(model, sizes, tp));
    train::Checkpoints checkpoints(self, folder.path());
    require(contains(error_of([&] { checkpoints.save(strategy, {.step = 1}); }).what(),
                     "parameter \"A\" is a part of a larger one, whose other parts ranks beyond these have"),
            "over too few ranks");
    train::Parameters wrong = parameters_of(model, sizes, tp);
    wrong[1].part->count += 1;
    require(contains(error_of([&] { testing::make(0, self, wrong); }).what(), "parameter \"a\""), "no such part");
  });
}

TEST(VocabularyCrossEntropy, RefusesWhatDoesNotFit) {
  on_ranks(2, [](Communicator& comm) {
    TensorParallel tp(comm);
    std::vector<float> logits(6), losses(2), gradient;
    const auto words = [&](std::vector<std::int64_t> targets, std::int64_t vocabulary) {
      return std::string(error_of([&] {
                           train::vocabulary_cross_entropy(tp, std::span<const float>(logits), targets, vocabulary,
                                                           std::span(losses), std::span(gradient));
                         }).what());
    };
    require(contains(words({0, 6}, 6), "the target of row 1 is 6, and the vocabulary has 0 .. 5"), "a target");
    require(contains(words({0, -1}, 6), "the target of row 1 is -1"), "a negative target");
    require(contains(words({0, 1}, 8), "logits has 6 numbers, for 2 rows of which this rank has 4 columns"), "logits");
    require(contains(words({0, 1, 2}, 4), "losses has 2 numbers, for 3 rows"), "losses");
  });
}

}  // namespace
}  // namespace tutti
