// Meshes of 1 to 8 ranks by chance, of data, tensor, pipeline and expert parallel at once, with and without sequence
// parallel, every schedule and every stage of ZeRO: 20 steps of plain gradient descent against one process.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "check.h"
#include "train/mesh_model.h"
#include "train/some_axes.h"

namespace tutti {
namespace {

using testing::Array;
using testing::expect_all_ok;
using testing::Forgotten;
using testing::MeshModel;
using testing::MeshModelShape;
using testing::MeshTraining;
using testing::on_ranks;
using testing::Ranks;
using testing::require;
using testing::run_ranks;
using train::Mesh;
using train::MeshAxis;
using train::PipelineSchedule;

constexpr int kSteps = 20;

// What one process comes to that has the micro-batches of all replicas.
template <class T>
struct OneProcess {
  std::vector<double> losses;
  typename MeshModel<T>::Weights weights;
  double closest_choice = 1;

  OneProcess(MeshModelShape shape, int replicas, int steps = kSteps) {
    shape.microbatches *= replicas;
    on_ranks(1, [&](Communicator& comm) {
      Mesh mesh(comm, train::parse_mesh("dp1.tp1.pp1.ep1"));
      MeshModel<T> model(mesh, shape, {.schedule = PipelineSchedule::one_f_one_b});
      for (int step = 0; step < steps; ++step) losses.push_back(model.step(step));
      weights = model.weights();
      closest_choice = model.closest_choice();
    });
  }
};

std::string in_words(const std::vector<MeshAxis>& axes, const MeshTraining& training) {
  return to_text(axes) + ", " + std::string(train::kPipelineWords[static_cast<std::size_t>(training.schedule)]) +
         " of " + std::to_string(training.chunks) + " chunks" + (training.sequence ? ", by tokens" : "") +
         (training.stage ? ", stage " + std::to_string(*training.stage) : "");
}

// How far this rank is from one process at most, relatively: weights by the largest of their array.
struct Distance {
  double of_losses = 0, of_weights = 0;

  double most() const { return std::max(of_losses, of_weights); }
  std::string in_words() const {
    std::ostringstream words;
    words << "losses " << of_losses << " and weights " << of_weights << " from one process";
    return words.str();
  }
};

template <class T>
double distance_of(const Array<T>& values, const Array<T>& right) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(right[i])));
    apart = std::max(apart, static_cast<double>(std::abs(values[i] - right[i])));
  }
  return apart / largest;
}

// Of one process in float32 from the same in float64.
double distance_between(const OneProcess<float>& floats, const OneProcess<double>& doubles) {
  double distance = distance_of(floats.losses, doubles.losses);
  for (const auto& [number, right] : doubles.weights) {
    const Array<float>& values = floats.weights.at(number);
    distance = std::max(distance, distance_of(Array<double>(values.begin(), values.end()), right));
  }
  return distance;
}

template <class T>
Distance distance_on(Mesh& mesh, const MeshModelShape& shape, const MeshTraining& training,
                     const OneProcess<T>& expected) {
  MeshModel<T> model(mesh, shape, training);
  Distance distance;
  int step = 0;
  for (const double right : expected.losses)
    distance.of_losses = std::max(distance.of_losses, std::abs(model.step(step++) - right) / std::abs(right));
  for (const auto& [number, values] : model.weights()) {
    const Array<T> right = model.cut(number, expected.weights.at(number));
    require(values.size() == right.size() && !values.empty(), "size of weight " + std::to_string(number));
    distance.of_weights = std::max(distance.of_weights, distance_of(values, right));
  }
  return distance;
}

template <class T>
void train_on(Mesh& mesh, const MeshModelShape& shape, const MeshTraining& training, const OneProcess<T>& expected,
              double tolerance) {
  const Distance distance = distance_on(mesh, shape, training, expected);
  require(distance.most() <= tolerance, in_words(mesh.axes(), training) + " in " +
                                            std::string(name_of(Element::of<T>().dtype())) + ": " +
                                            distance.in_words());
}

int size_of_axis(const std::vector<MeshAxis>& axes, std::string_view name) {
  return std::ranges::find(axes, name, &MeshAxis::name)->size;
}

// A mesh, a model that it can cut, and a way to train it.
struct Sample {
  std::vector<MeshAxis> axes;
  MeshModelShape shape;
  MeshTraining training;
  int stage = 0;  // of ZeRO, where the type is float32

  Sample(int ranks, std::mt19937& random) : axes(testing::some_axes(ranks, random)) {
    const auto tp = static_cast<std::size_t>(size_of_axis(axes, "tp"));
    const int pp = size_of_axis(axes, "pp"), ep = size_of_axis(axes, "ep");
    training.schedule = static_cast<PipelineSchedule>(random() % train::kPipelineSchedules);
    training.sequence = random() % 2 == 0;
    const bool interleaves = training.schedule == PipelineSchedule::interleaved;
    training.chunks = interleaves ? 2 : 1;
    shape.tokens = tp * (1 + random() % 3);
    shape.width = 2 + random() % 4;
    shape.hidden = tp * (1 + random() % 3);
    shape.vocabulary = tp + 1 + random() % 6;
    shape.layers = static_cast<std::size_t>(pp * training.chunks) + random() % 2;
    shape.router.experts = ep * (1 + static_cast<int>(random() % 2));
    shape.router.top_k = std::min(shape.router.experts, 1 + static_cast<int>(random() % 2));
    // By tokens a router sees some of a micro-batch's, and would drop others.
    if (!training.sequence && random() % 2 == 0) shape.router.capacity_factor = 0.75;
    shape.microbatches = interleaves ? pp : 1 + static_cast<int>(random() % 3);
    stage = static_cast<int>(random() % 4);
    shape.seed = static_cast<unsigned>(random() % 100'000);
  }
  int replicas() const { return size_of_axis(axes, "dp") * size_of_axis(axes, "ep"); }
};

// By a seed for each kind and number. Where a token's choice of experts hangs on the last bits, or float32 is not good
// enough for the model in one process either, another one is taken.
constexpr int kRanksOf[] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 8};
constexpr Ranks kKinds[] = {Ranks::processes, Ranks::tcp};

struct Chosen {
  Sample sample;
  OneProcess<double> doubles;
  OneProcess<float> floats;

  Chosen(int ranks, std::mt19937& random)
      : sample(ranks, random), doubles(sample.shape, sample.replicas()), floats(sample.shape, sample.replicas()) {}
  bool good() const {
    constexpr double kClose = 1e-4, kFaithful = 5e-6;
    return std::min(doubles.closest_choice, floats.closest_choice) >= kClose &&
           distance_between(floats, doubles) < kFaithful;
  }
};

Chosen chosen_for(Ranks kind, std::size_t number) {
  std::mt19937 random(13 + static_cast<unsigned>(kind) + 100 * static_cast<unsigned>(number));
  for (;;)
    if (Chosen chosen(kRanksOf[number], random); chosen.good()) return chosen;
}

class MeshTrainingOn : public ::testing::TestWithParam<std::tuple<Ranks, std::size_t>> {};
TEST_P(MeshTrainingOn, IsThatOfOneProcess) {
  const auto [kind, number] = GetParam();
  const Chosen chosen = chosen_for(kind, number);
  const Sample& sample = chosen.sample;
  expect_all_ok(run_ranks(kind, kRanksOf[number], [&](Communicator& comm) {
    Mesh mesh(comm, sample.axes);
    train_on(mesh, sample.shape, sample.training, chosen.doubles, 1e-12);
    train_on(mesh, sample.shape, sample.training, chosen.floats, 1e-5);
    MeshTraining zero = sample.training;
    zero.stage = sample.stage;
    train_on(mesh, sample.shape, zero, chosen.floats, 1e-5);
  }));
}
INSTANTIATE_TEST_SUITE_P(All, MeshTrainingOn,
                         ::testing::Combine(::testing::ValuesIn(kKinds),
                                            ::testing::Range(std::size_t{0}, std::size(kRanksOf))),
                         [](const auto& made) {
                           const std::size_t number = std::get<1>(made.param);
                           return testing::name_of(std::get<0>(made.param)) + "_" + std::to_string(kRanksOf[number]) +
                                  "_ranks_" + std::to_string(number);
                         });

// What chance has chosen cuts every axis, beside others as well, and takes every way where there are ranks to take it.
TEST(MeshTraining, OfTheseSeedsTakesEveryAxisScheduleAndStage) {
  std::map<std::string, int> taken;
  for (const Ranks kind : kKinds) {
    for (std::size_t number = 0; number < std::size(kRanksOf); ++number) {
      const Sample sample = chosen_for(kind, number).sample;
      int cut = 0;
      for (const MeshAxis& axis : sample.axes) {
        if (axis.size > 1) ++taken[axis.name], ++cut;
      }
      if (cut > 1) ++taken["two axes"];
      if (cut > 2) ++taken["three axes"];
      if (size_of_axis(sample.axes, "pp") > 1)
        ++taken[std::string(train::kPipelineWords[static_cast<std::size_t>(sample.training.schedule)])];
      if (size_of_axis(sample.axes, "tp") > 1) ++taken[sample.training.sequence ? "by tokens" : "whole tokens"];
      if (sample.replicas() > 1) ++taken["stage " + std::to_string(sample.stage)];
      if (sample.shape.router.capacity_factor) ++taken["a capacity"];
    }
  }
  for (const char* what : {"dp", "tp", "pp", "ep", "two axes", "three axes", "gpipe", "1f1b", "interleaved", "zb-h1",
                           "by tokens", "whole tokens", "stage 0", "stage 1", "stage 2", "stage 3", "a capacity"})
    EXPECT_GT(taken[what], 0) << what;
}

// The comparison finds every reduction that is left out.
TEST(MeshTraining, LacksWhatIsForgotten) {
  const std::pair<Forgotten, const char*> cases[] = {
      {Forgotten::mean_of_replicas, "dp2.tp1.pp1.ep1"}, {Forgotten::mean_of_replicas, "dp1.tp1.pp2.ep2"},
      {Forgotten::mean_of_expert, "dp2.tp1.pp1.ep2"},   {Forgotten::share_of_expert, "dp1.tp1.pp1.ep2"},
      {Forgotten::sum_of_input, "dp1.tp2.pp2.ep1"},     {Forgotten::sum_of_tokens, "dp1.tp2.pp1.ep1"},
      {Forgotten::gradients_of_rows, "dp1.tp1.pp2.ep2"}};
  for (const auto& [forgotten, text] : cases) {
    const std::vector<MeshAxis> axes = train::parse_mesh(text);
    const int replicas = size_of_axis(axes, "dp") * size_of_axis(axes, "ep");
    const MeshModelShape shape{.layers = 2, .microbatches = 2};
    const OneProcess<double> expected(shape, replicas, 4);
    const int ranks = replicas * size_of_axis(axes, "tp") * size_of_axis(axes, "pp");
    on_ranks(ranks, [&, forgets = forgotten](Communicator& comm) {
      Mesh mesh(comm, axes);
      MeshTraining training{.sequence = forgets == Forgotten::sum_of_tokens};
      train_on(mesh, shape, training, expected, 1e-12);
      training.forgotten = forgets;
      double distance = distance_on(mesh, shape, training, expected).most();
      mesh.all().all_reduce(one(distance), ReduceOp::maximum);
      require(distance > 1e-4, in_words(axes, training) + ": " + std::to_string(distance) + " from one process");
    });
  }
}

}  // namespace
}  // namespace tutti
