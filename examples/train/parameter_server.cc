// A parameter server: sparse logistic regression by workers of which one is slow, in three ways of keeping them
// together. Rank 0 is the server, all others work.
//
//   tutti run -n 5 -- build/bin/parameter_server
//   build/bin/parameter_server                            # alone it starts five ranks of its own, as threads
//   build/bin/parameter_server --seconds 5 --losses runs  # runs/stale.txt and others: a time and a loss a line
//
// Examples have few features out of many, and an example's label depends on hidden weights of them. A worker pulls the
// weights of the features that its batch has, pushes their gradients and ends its clock. The slow worker takes ten
// times as long for that: synchronous workers all wait for it, stale ones once they are a few clocks ahead, and
// asynchronous ones never do. It draws the losses over time, and ends with exit code 1 where one did not fall.
#include <tutti/train/parameter_server.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <numbers>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

namespace train = tutti::train;
using Clock = std::chrono::steady_clock;

constexpr const char* kHelp = R"(usage: parameter_server [--seconds S] [--bound N] [--losses DIR]

  --seconds S   for each way (1.5)
  --bound N     clocks that a stale worker may be ahead of the slowest (4)
  --losses DIR  writes the curves there, for bench/loss_curves
)";

struct Arguments {
  double seconds = 1.5;
  std::int64_t bound = 4;
  std::string losses;
  bool help = false;
};

Arguments parse(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--help" || word == "-h") {
      arguments.help = true;
      continue;
    }
    if (i + 1 == words.size()) throw std::runtime_error(word + " needs a value; --help tells more");
    const std::string value = words[++i];
    if (word == "--seconds") {
      arguments.seconds = std::stod(value);
    } else if (word == "--bound") {
      arguments.bound = std::stol(value);
    } else if (word == "--losses") {
      arguments.losses = value;
    } else {
      throw std::runtime_error("there is no option '" + word + "'; --help lists them");
    }
  }
  return arguments;
}

// ---- Examples: a dozen features of a thousand, popular ones more often, and a label.

constexpr std::int64_t kFeatures = 1000;
constexpr std::size_t kActive = 12, kBatch = 16;

struct Example {
  std::vector<std::int64_t> features;
  bool label = false;
};

double hidden_weight(std::int64_t feature) { return 2 * std::sin(static_cast<double>(feature * feature % 97)); }

Example draw(std::mt19937& random) {
  Example example;
  double score = 0;
  for (std::size_t i = 0; i < kActive; ++i) {
    const double popular = std::uniform_real_distribution<double>(0, 1)(random);
    example.features.push_back(static_cast<std::int64_t>(popular * popular * static_cast<double>(kFeatures)));
    score += hidden_weight(example.features.back());
  }
  example.label = score > 0;
  return example;
}

template <class Weight>
double score_of(const Example& example, const Weight& weight) {
  double score = 0;
  for (const std::int64_t feature : example.features) score += weight(feature);
  return score;
}

double loss_of(const std::vector<Example>& examples, const std::vector<float>& weights) {
  double loss = 0;
  for (const Example& example : examples) {
    const double score =
        score_of(example, [&](std::int64_t feature) { return weights[static_cast<std::size_t>(feature)]; });
    loss += std::log1p(std::exp(example.label ? -score : score));
  }
  return loss / static_cast<double>(examples.size());
}

// ---- Workers.

struct Point {
  double seconds = 0, loss = 0;
};

void work_a_clock(train::ParameterServer& server, std::mt19937& random) {
  std::vector<Example> batch(kBatch);
  std::map<std::int64_t, float> gradient;
  for (Example& example : batch) {
    example = draw(random);
    for (const std::int64_t feature : example.features) gradient[feature] = 0;
  }
  std::vector<std::int64_t> rows;
  for (const auto& [feature, none] : gradient) rows.push_back(feature);
  std::vector<float> values(rows.size());
  server.pull_rows(0, rows, values);
  std::map<std::int64_t, float> weights;
  for (std::size_t i = 0; i < rows.size(); ++i) weights[rows[i]] = values[i];
  for (const Example& example : batch) {
    const double score = score_of(example, [&](std::int64_t feature) { return weights[feature]; });
    const double error = 1 / (1 + std::exp(-score)) - (example.label ? 1 : 0);
    for (const std::int64_t feature : example.features)
      gradient[feature] += static_cast<float>(error / static_cast<double>(kBatch));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) values[i] = gradient[rows[i]];
  server.push_rows(0, rows, values);
}

// The first worker looks at the loss now and then; returns what it saw.
std::vector<Point> work(tutti::Communicator& comm, train::ParameterServer& server, double seconds) {
  const bool slow = comm.rank() == comm.size() - 1, watches = comm.rank() == 1;
  std::mt19937 random(static_cast<unsigned>(comm.rank())), test(99);
  std::vector<Example> examples(500);
  for (Example& example : examples) example = draw(test);
  std::vector<Point> curve;
  std::vector<float> weights(kFeatures);
  const Clock::time_point began = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  for (double now = 0; now < seconds; now = elapsed()) {
    if (watches && (curve.empty() || now >= curve.back().seconds + seconds / 40)) {
      server.pull(0, weights);
      curve.push_back({now, loss_of(examples, weights)});
    }
    work_a_clock(server, random);
    std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 20 : 2));
    server.clock();
  }
  if (watches) {
    server.pull(0, weights);
    curve.push_back({elapsed(), loss_of(examples, weights)});
  }
  server.finish();
  return curve;
}

// ---- What came of it.

struct Run {
  std::string name;
  std::vector<Point> curve = {};
  std::int64_t updates = 0;
};

void draw_curves(const std::vector<Run>& runs, double seconds) {
  constexpr std::size_t kColumns = 64, kRows = 16;
  std::vector<std::string> picture(kRows, std::string(kColumns, ' '));
  for (const Run& run : runs) {
    for (const Point& point : run.curve) {
      const double right = std::min(1.0, point.seconds / seconds), up = std::min(1.0, point.loss / std::numbers::ln2);
      picture[static_cast<std::size_t>((1 - up) * (kRows - 1))][static_cast<std::size_t>(right * (kColumns - 1))] =
          run.name[1];
    }
  }
  std::printf("loss over %.1f s: y synchronous, t stale, s asynchronous\n", seconds);
  for (std::size_t row = 0; row < kRows; ++row)
    std::printf("%5.2f |%s\n", std::numbers::ln2 * (1 - static_cast<double>(row) / (kRows - 1)), picture[row].c_str());
}

bool tell(const std::vector<Run>& runs, const Arguments& arguments, int workers) {
  draw_curves(runs, arguments.seconds);
  bool good = true;
  for (const Run& run : runs) {
    const double loss = run.curve.back().loss;
    good = good && loss < 0.9 * std::numbers::ln2;
    std::printf("%-12s workers: %d, one slow, updates: %5lld, loss %.3f\n", run.name.c_str(), workers,
                static_cast<long long>(run.updates), loss);
    if (arguments.losses.empty()) continue;
    std::ofstream file(arguments.losses + "/" + run.name + ".txt");
    for (const Point& point : run.curve) file << point.seconds << " " << point.loss << "\n";
    if (!file.flush()) throw std::runtime_error("cannot write into " + arguments.losses);
  }
  return good;
}

bool run(tutti::Communicator& comm, const Arguments& arguments) {
  if (comm.size() < 2) throw std::runtime_error("a server and a worker are two ranks at least");
  const std::pair<const char*, train::Consistency> ways[] = {{"synchronous", train::Consistency::synchronous},
                                                             {"stale", train::Consistency::stale},
                                                             {"asynchronous", train::Consistency::asynchronous}};
  std::vector<Run> runs;
  for (const auto& [name, consistency] : ways) {
    train::ParameterServer server(comm, {{.name = "weights", .shape = {kFeatures, 1}, .table = true}},
                                  train::Sgd{.learning_rate = 8},
                                  {.consistency = consistency, .bound = arguments.bound});
    Run run{.name = name};
    if (server.serves()) {
      const train::ServerReport report = server.serve();
      for (const std::int64_t clocks : report.clocks) run.updates += clocks;
      comm.send(tutti::one(run.updates), 1);
      continue;
    }
    run.curve = work(comm, server, arguments.seconds);
    if (comm.rank() == 1) comm.recv(tutti::one(run.updates), 0);
    runs.push_back(std::move(run));
  }
  return comm.rank() != 1 || tell(runs, arguments, comm.size() - 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse({argv, static_cast<std::size_t>(argc)});
    if (arguments.help) {
      std::fputs(kHelp, stdout);
      return 0;
    }
    tutti::Communicator comm = tutti::init();
    if (comm.size() > 1) return run(comm, arguments) ? 0 : 1;
    for (const tutti::RankEnd& end : tutti::run_threads(5, [&](tutti::Communicator& own) {
           if (!run(own, arguments)) throw std::runtime_error("a loss did not fall");
         })) {
      if (!end.ok()) throw std::runtime_error(end.message);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parameter_server: %s\n", error.what());
    return 1;
  }
  return 0;
}
