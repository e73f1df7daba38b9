// What a step says along each axis: by the formulas of docs/strategies.md, as it is counted, and as that page tells it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "check.h"
#include "train/mesh_model.h"
#include "tutti/train/actor_learner.h"
#include "tutti/train/parameter_server.h"

namespace tutti {
namespace {

using testing::MeshModel;
using testing::MeshModelShape;
using testing::on_ranks;
using testing::require;

// Every token goes to all experts, so that as many rows travel whatever the router thinks.
const MeshModelShape kShape{.tokens = 8,
                            .width = 4,
                            .hidden = 8,
                            .vocabulary = 8,
                            .layers = 2,
                            .router = {.experts = 4, .top_k = 4},
                            .microbatches = 2};

struct Said {
  std::uint64_t calls = 0, bytes = 0;

  bool operator==(const Said&) const = default;
  std::string in_words() const { return std::to_string(calls) + " calls, " + std::to_string(bytes) + " bytes"; }
};

// Of a rank of two, in the second step: the first one brings shapes as well.
Said counted_along(const std::string& axis) {
  Said said;
  on_ranks(2, [&](Communicator& comm) {
    std::string text;
    for (const std::string name : {"dp", "tp", "pp", "ep"})
      text += (text.empty() ? "" : ".") + name + (name == axis ? "2" : "1");
    train::Mesh mesh(comm, train::parse_mesh(text));
    MeshModel<float> model(mesh, kShape, {.stage = 0});
    model.step(0);
    const VerbCounters before = model.counted(axis);
    model.step(1);
    const VerbCounters after = model.counted(axis);
    const Said own{after.calls - before.calls, after.bytes - before.bytes};
    if (comm.rank() == 0) said = own;
    std::vector<std::uint64_t> all{own.calls, own.bytes}, both = all;
    comm.all_reduce(both);
    require(both[0] == 2 * all[0] && both[1] == 2 * all[1], "both ranks of " + text + " say as much");
  });
  return said;
}

std::uint64_t numbers_of(bool experts) {
  std::uint64_t numbers = 0;
  for (std::size_t weight = 0; weight <= kShape.layers * MeshModel<float>::kKinds; ++weight) {
    const bool is_expert = weight % MeshModel<float>::kKinds == MeshModel<float>::kExperts;
    if (is_expert == experts) numbers += MeshModel<float>::whole(kShape, weight).size();
  }
  return numbers;
}

Said said_along(const std::string& axis) {
  const std::uint64_t e = sizeof(float), bs = kShape.tokens, h = kShape.width, l = kShape.layers;
  const auto m = static_cast<std::uint64_t>(kShape.microbatches);
  const auto experts = static_cast<std::uint64_t>(kShape.router.experts);
  if (axis == "dp") return {2, e * numbers_of(false) + e * numbers_of(true)};
  // A block has one pair of products, in the place of two, and there is no embedding.
  if (axis == "tp") return {m * (2 * l + 1 + 2), m * ((2 * l + 1) * bs * h * e + 3 * bs * e)};
  if (axis == "pp") return {2 * m, 2 * m * bs * h * e};
  const std::uint64_t rows = bs * experts;
  return {m * l * 5, m * l * (8 * experts + 4 * 4 * h * rows)};
}

// A clock of a worker with one server: a push and a pull of 100 rows of 64 numbers, and of 1000 numbers.
Said counted_at_server() {
  Said said;
  on_ranks(2, [&](Communicator& comm) {
    train::ParameterServer server(
        comm, {{.name = "bias", .shape = {1000}}, {.name = "embedding", .shape = {1000, 64}, .table = true}},
        train::Sgd{});
    if (server.serves()) {
      server.serve();
      return;
    }
    std::vector<std::int64_t> rows(100);
    std::iota(rows.begin(), rows.end(), 7);
    std::vector<float> of_rows(100 * 64), dense(1000);
    const Counters before = server.counters();
    server.pull_rows(1, rows, of_rows);
    server.push_rows(1, rows, of_rows);
    server.pull(0, dense);
    server.push(0, dense);
    server.clock();
    const Counters after = server.counters();
    said = {after[Verb::send_recv].calls - before[Verb::send_recv].calls,
            after[Verb::send_recv].bytes - before[Verb::send_recv].bytes};
    server.finish();
  });
  return said;
}

// An actor with one version of 500 weights, that sends ten trajectories of 1000 numbers. With a queue of one it hears
// that each but the last was taken before it sends the next.
Said counted_by_actor() {
  constexpr train::ActorOptions kOptions{.most_floats = 1000, .queue = 1};
  constexpr int kTrajectories = 10;
  Said said;
  on_ranks(2, [&](Communicator& comm) {
    const std::vector<float> weights(500), trajectory(1000);
    if (comm.rank() == kOptions.learner) {
      train::Learner learner(comm, weights, kOptions);
      for (int taken = 0; taken < kTrajectories; ++taken) static_cast<void>(learner.take());
      learner.stop();
      return;
    }
    train::Actor actor(comm, weights.size(), kOptions);
    static_cast<void>(actor.weights());
    for (int sent = 0; sent < kTrajectories; ++sent) actor.send(trajectory);
    const VerbCounters counted = actor.counters()[Verb::send_recv];
    said = {counted.calls, counted.bytes};
    while (actor.running()) static_cast<void>(actor.weights());
  });
  return said;
}

class StrategyBytes : public ::testing::Test {
 protected:
  void expect(const std::string& what, const Said& by_formula, const Said& counted) {
    EXPECT_EQ(by_formula.in_words(), counted.in_words()) << what;
    const std::string row = "| " + what + " | " + by_formula.in_words() + " | " + counted.in_words() + " |";
    EXPECT_TRUE(testing::contains(page_, row)) << "docs/strategies.md has no row\n" << row;
  }

  void SetUp() override {
    std::ifstream file(TUTTI_SOURCE_DIRECTORY "/docs/strategies.md");
    std::ostringstream text;
    text << file.rdbuf();
    page_ = text.str();
    ASSERT_FALSE(page_.empty());
  }

 private:
  std::string page_;
};

TEST_F(StrategyBytes, AreThoseOfTheFormulasAndOfThePage) {
  expect("`dp2`, all_reduce", said_along("dp"), counted_along("dp"));
  expect("`tp2`, all_reduce", said_along("tp"), counted_along("tp"));
  expect("`pp2`, send_recv", said_along("pp"), counted_along("pp"));
  expect("`ep2`, all_to_all", said_along("ep"), counted_along("ep"));
  const Said of_clock{2 * 3 + 2 * 2 + 2, 2 * (32 + 8 * 100 + 4 * 100 * 64) + 2 * (32 + 4 * 1000) + 2 * 32};
  expect("a worker of a parameter server, send_recv", of_clock, counted_at_server());
  const Said of_actor{10 + 10 + 2, 10 * (8 + 4 * 1000) + 10 * 32 + (4 * 500 + 8)};
  expect("an actor, send_recv", of_actor, counted_by_actor());
}

}  // namespace
}  // namespace tutti
