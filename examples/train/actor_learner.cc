// Actors and a learner: a cart that learns to keep a pole upright. Rank 0 learns, all others try the policy out on
// carts of their own and send what happened; nobody waits for anybody.
//
//   tutti run -n 3 -- build/bin/actor_learner
//   build/bin/actor_learner                      # alone it starts three ranks of its own, as threads
//
// The policy is a network of one hidden layer, with gradients written out by hand: from position and speed of cart and
// pole to the odds of a push to the left or to the right, and to how long the pole will stay up. Trajectories are
// of weights that are a few versions old when they are learned from, which v-trace corrects. It ends with exit code 1
// where the pole does not stay up within the time.
#include <tutti/train/actor_learner.h>
#include <tutti/train/optimizer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

namespace train = tutti::train;
using Clock = std::chrono::steady_clock;

constexpr const char* kHelp = R"(usage: actor_learner [--seconds S] [--report]

  --seconds S  at most (60)
  --report     what an actor has said to the learner
)";

// ---- A pole on a cart, pushed to the left or to the right fifty times a second.

constexpr int kMostSteps = 500;  // of an episode; who holds it that long has done it

struct Cart {
  std::array<float, 4> state{};  // position, speed, angle, its speed
  int steps = 0;

  explicit Cart(std::mt19937& random) {
    for (float& number : state) number = std::uniform_real_distribution<float>(-0.05F, 0.05F)(random);
  }
  bool fallen() const { return std::abs(state[0]) > 2.4F || std::abs(state[2]) > 0.21F; }
  bool ended() const { return fallen() || steps >= kMostSteps; }
  void push(bool right) {
    constexpr double kGravity = 9.8, kPole = 0.1, kMass = 1.1, kLength = 0.5, kStep = 0.02;
    const double sine = std::sin(state[2]), cosine = std::cos(state[2]);
    const double thrown = ((right ? 10.0 : -10.0) + kPole * kLength * state[3] * state[3] * sine) / kMass;
    const double turning =
        (kGravity * sine - cosine * thrown) / (kLength * (4.0 / 3 - kPole * cosine * cosine / kMass));
    const double speeding = thrown - kPole * kLength * turning * cosine / kMass;
    state[0] += static_cast<float>(kStep * state[1]);
    state[1] += static_cast<float>(kStep * speeding);
    state[2] += static_cast<float>(kStep * state[3]);
    state[3] += static_cast<float>(kStep * turning);
    ++steps;
  }
};

// ---- The policy: 4 numbers to kHidden to 3, the scores of left and right and the value.

constexpr std::size_t kInputs = 4, kHidden = 32, kOutputs = 3;
constexpr std::size_t kWeights = (kInputs + 1) * kHidden + (kHidden + 1) * kOutputs;

struct Seen {
  std::array<float, kHidden> hidden{};
  std::array<float, kOutputs> outputs{};

  // Log of the probability of an action.
  float log_probability(bool right) const {
    const float chosen = outputs[right ? 1 : 0], other = outputs[right ? 0 : 1];
    return -std::log1p(std::exp(other - chosen));
  }
};

Seen look(std::span<const float> weights, std::span<const float> state) {
  Seen seen;
  const float* w = weights.data();
  for (float& hidden : seen.hidden) {
    float sum = w[kInputs];
    for (std::size_t i = 0; i < kInputs; ++i) sum += w[i] * state[i];
    hidden = std::tanh(sum);
    w += kInputs + 1;
  }
  for (float& output : seen.outputs) {
    output = w[kHidden];
    for (std::size_t i = 0; i < kHidden; ++i) output += w[i] * seen.hidden[i];
    w += kHidden + 1;
  }
  return seen;
}

void add_gradient(std::span<const float> weights, std::span<const float> state, const Seen& seen,
                  const std::array<float, kOutputs>& of_outputs, std::span<float> gradient) {
  constexpr std::size_t kSecond = (kInputs + 1) * kHidden;
  std::array<float, kHidden> of_hidden{};
  for (std::size_t o = 0; o < kOutputs; ++o) {
    const std::size_t row = kSecond + o * (kHidden + 1);
    for (std::size_t i = 0; i < kHidden; ++i) {
      gradient[row + i] += of_outputs[o] * seen.hidden[i];
      of_hidden[i] += of_outputs[o] * weights[row + i];
    }
    gradient[row + kHidden] += of_outputs[o];
  }
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float through = of_hidden[h] * (1 - seen.hidden[h] * seen.hidden[h]);
    for (std::size_t i = 0; i < kInputs; ++i) gradient[h * (kInputs + 1) + i] += through * state[i];
    gradient[h * (kInputs + 1) + kInputs] += through;
  }
}

std::vector<float> first_weights() {
  std::mt19937 random(1);
  std::vector<float> weights(kWeights);
  for (float& weight : weights) weight = std::normal_distribution<float>(0, 0.2F)(random);
  return weights;
}

// ---- A trajectory as floats: kSteps times state, action, log of its probability, discount; then the last state.

constexpr std::size_t kSteps = 64, kStepFloats = kInputs + 3;
constexpr train::ActorOptions kOptions{.most_floats = kSteps * kStepFloats + kInputs, .queue = 2};

bool act(tutti::Communicator& comm, bool report) {
  train::Actor actor(comm, kWeights, kOptions);
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 100);
  Cart cart(random);
  while (actor.running()) {
    const std::span<const float> weights = actor.weights();
    std::vector<float> trajectory;
    for (std::size_t step = 0; step < kSteps; ++step) {
      const Seen seen = look(weights, cart.state);
      const bool right = std::bernoulli_distribution(std::exp(seen.log_probability(true)))(random);
      trajectory.insert(trajectory.end(), cart.state.begin(), cart.state.end());
      cart.push(right);
      const bool ended = cart.ended();
      trajectory.insert(trajectory.end(), {right ? 1.0F : 0.0F, seen.log_probability(right), ended ? 0.0F : 0.99F});
      if (ended) cart = Cart(random);
    }
    trajectory.insert(trajectory.end(), cart.state.begin(), cart.state.end());
    actor.send(trajectory);
  }
  if (report && comm.rank() == 1) {
    for (const train::Phrase& phrase : actor.sentence())
      std::printf("rank 1: %llu times %s of %llu bytes\n", static_cast<unsigned long long>(phrase.times),
                  phrase.what.c_str(), static_cast<unsigned long long>(phrase.bytes));
  }
  return true;
}

class Learning {
 public:
  // Adds what a trajectory teaches to the gradient.
  void learn(const train::Trajectory& trajectory) {
    std::array<float, kSteps> ratios{}, discounts{}, values{}, targets{}, advantages{};
    std::array<float, kSteps> rewards{};
    std::vector<Seen> seen;
    const auto at = [&](std::size_t step) { return trajectory.data.subspan(step * kStepFloats); };
    for (std::size_t step = 0; step < kSteps; ++step) {
      seen.push_back(look(weights_, at(step)));
      const bool right = at(step)[kInputs] != 0;
      ratios[step] = seen.back().log_probability(right) - at(step)[kInputs + 1];
      discounts[step] = at(step)[kInputs + 2];
      rewards[step] = 0.1F;
      values[step] = seen.back().outputs[2];
      count_episode(trajectory.actor, discounts[step] == 0);
    }
    const float behind = look(weights_, at(kSteps)).outputs[2];
    train::v_trace({ratios, rewards, discounts, values, behind}, targets, advantages);
    for (std::size_t step = 0; step < kSteps; ++step) {
      const float p = std::exp(seen[step].log_probability(true)), chosen = at(step)[kInputs];
      constexpr float kEntropy = 0.01F;
      const float entropy = kEntropy * p * (1 - p) * (seen[step].outputs[1] - seen[step].outputs[0]);
      const float of_right = advantages[step] * (p - chosen) + entropy;
      add_gradient(weights_, at(step), seen[step], {-of_right, of_right, 0.5F * (values[step] - targets[step])},
                   gradient_);
    }
    ++learned_;
  }
  void update() {
    train::update(
        train::Adam{.learning_rate = 0.005}, ++updates_,
        {.count = kWeights, .master = weights_.data(), .gradient = gradient_.data(), .states = {m_.data(), v_.data()}},
        1.0 / static_cast<double>(learned_ * kSteps));
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    learned_ = 0;
  }
  std::span<const float> weights() const { return weights_; }
  std::size_t episodes() const { return episodes_; }
  // Steps of the last 20 episodes, on average.
  double mean_steps() const {
    return last_.size() < 20 ? 0 : std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(last_.size());
  }

 private:
  void count_episode(int actor, bool ended) {
    const int steps = ++steps_[actor];
    if (!ended) return;
    ++episodes_;
    steps_[actor] = 0;
    last_.push_back(steps);
    if (last_.size() > 20) last_.pop_front();
  }

  std::vector<float> weights_ = first_weights();
  std::vector<float> gradient_ = std::vector<float>(kWeights), m_ = gradient_, v_ = gradient_;
  std::int64_t updates_ = 0;
  std::size_t learned_ = 0, episodes_ = 0;
  std::map<int, int> steps_;
  std::deque<int> last_;
};

bool learn(tutti::Communicator& comm, double seconds) {
  Learning learning;
  train::Learner learner(comm, learning.weights(), kOptions);
  const Clock::time_point began = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  constexpr double kSolved = 450;
  while (elapsed() < seconds && learning.mean_steps() < kSolved) {
    constexpr int kTogether = 4;
    for (int i = 0; i < kTogether; ++i) learning.learn(learner.take());
    learning.update();
    learner.publish(learning.weights());
    if (learner.version() % 200 == 0)
      std::printf("version %5lld: the pole stays up for %3.0f steps\n", static_cast<long long>(learner.version()),
                  learning.mean_steps());
  }
  const double took = elapsed();
  learner.stop();
  const train::PolicyLag lag = learner.lag();
  const bool solved = learning.mean_steps() >= kSolved;
  std::printf("actors: %d, %s after %.1f s, %zu episodes and %lld versions; lag %.1f versions, %lld at most\n",
              comm.size() - 1, solved ? "the pole stays up" : "the pole still falls", took, learning.episodes(),
              static_cast<long long>(learner.version()), lag.mean, static_cast<long long>(lag.most));
  return solved;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    double seconds = 60;
    bool report = false;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--report") {
        report = true;
      } else if (word == "--seconds" && i + 1 < argc) {
        seconds = std::stod(argv[++i]);
      } else {
        std::fputs(kHelp, word == "--help" ? stdout : stderr);
        return word == "--help" ? 0 : 1;
      }
    }
    const auto run = [&](tutti::Communicator& comm) {
      return comm.rank() == 0 ? learn(comm, seconds) : act(comm, report);
    };
    tutti::Communicator comm = tutti::init();
    if (comm.size() > 1) return run(comm) ? 0 : 1;
    for (const tutti::RankEnd& end : tutti::run_threads(3, [&](tutti::Communicator& own) {
           if (!run(own)) throw std::runtime_error("the pole still falls");
         })) {
      if (!end.ok()) throw std::runtime_error(end.message);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "actor_learner: %s\n", error.what());
    return 1;
  }
  return 0;
}
