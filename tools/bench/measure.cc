#include "tools/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tutti::bench {
namespace {

constexpr int kFewestRounds = 3;
constexpr std::uint64_t kMostCalls = 1'000'000;

// One contestant in one cell.
class Race {
 public:
  // `slot` tells apart the contestants of one group.
  Race(const Contestant& contestant, int slot, Cell cell, const Effort& effort)
      : contestant_(contestant), slot_(slot), cell_(std::move(cell)), effort_(effort) {
    cell_.symmetric = contestant.symmetric;
    cell_.algorithm = contestant.algorithm;
  }

  const Contestant& contestant() const { return contestant_; }
  const Cell& cell() const { return cell_; }

  // Empty, or why it cannot.
  std::string prepare() {
    for (const std::string& answer : ask(fmt::format("prepare {} {}", slot_, text_of(cell_)))) {
      if (answer.starts_with("cannot ")) return answer.substr(7);
      if (answer != "ready") throw Dropped("a rank of it answered '" + answer + "' to prepare");
    }
    return "";
  }

  std::string check() {
    std::uint64_t wrong = 0;
    for (const std::string& answer : ask(fmt::format("check {}", slot_))) {
      std::istringstream words(answer);
      std::string checked;
      std::uint64_t here = 0;
      if (!(words >> checked >> here >> algorithm_) || checked != "checked") {
        throw Dropped("a rank of it answered '" + answer + "' to check");
      }
      if (double us = 0; words >> us) predicted_us_ = us;
      wrong += here;
    }
    if (algorithm_ == "-") algorithm_.clear();
    if (effort_.check) wrong_ = wrong;
    const bool other = !contestant_.algorithm.empty() && algorithm_ != contestant_.algorithm;
    return other ? fmt::format("{} ran instead", algorithm_) : "";
  }

  void calibrate() {
    calls_ = effort_.iterations;
    if (calls_ != 0) return;
    calls_ = 1;
    for (;;) {
      const double batch_s = std::max(time_batch() * static_cast<double>(calls_), 1e-7);
      const double more = effort_.batch_s / batch_s;
      if (more < 2 || calls_ == kMostCalls) break;
      // The first batches are cold: steps are bounded, and the last one is near the target.
      calls_ = std::min(kMostCalls, static_cast<std::uint64_t>(static_cast<double>(calls_) * std::min(more, 64.0)));
    }
  }

  void run_round() {
    if (spent_s_ > effort_.cell_s && times_us_.size() >= kFewestRounds) return;
    const Clock::time_point begin = Clock::now();
    times_us_.push_back(time_batch() * 1e6);
    spent_s_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Row row(int ranks, const std::string& transport) const {
    Row row;
    row.impl = contestant_.group->name();
    row.cell = cell_;
    row.ranks = ranks;
    row.transport = transport;
    row.timing = timing_of(times_us_);
    row.wrong = wrong_;
    row.algorithm = algorithm_;
    row.predicted_us = predicted_us_;
    row.forced = !contestant_.algorithm.empty();
    return row;
  }

 private:
  std::vector<std::string> ask(const std::string& line) {
    return contestant_.group->ask(line, std::chrono::milliseconds(static_cast<long long>(effort_.patience_s * 1000)));
  }

  // The slowest rank's seconds per call.
  double time_batch() {
    double slowest = 0;
    for (const std::string& answer : ask(fmt::format("time {} {} {}", slot_, calls_, effort_.warm_up))) {
      std::istringstream words(answer);
      std::string took;
      double seconds = 0;
      if (!(words >> took >> seconds) || took != "took" || !(seconds >= 0)) {
        throw Dropped("a rank of it answered '" + answer + "' to time");
      }
      slowest = std::max(slowest, seconds);
    }
    return slowest;
  }

  Contestant contestant_;
  int slot_;
  Cell cell_;
  Effort effort_;
  std::uint64_t calls_ = 1;
  double spent_s_ = 0;
  std::vector<double> times_us_;
  std::optional<std::uint64_t> wrong_;
  std::string algorithm_;
  std::optional<double> predicted_us_;
};

}  // namespace

std::vector<Row> measure(const Cell& cell, int ranks, const std::string& transport,
                         const std::vector<Contestant>& contestants, const Effort& effort, const Notes& notes) {
  std::vector<Race> races;
  for (const Contestant& contestant : contestants) {
    const auto slot = std::count_if(races.begin(), races.end(),
                                    [&](const Race& race) { return race.contestant().group == contestant.group; });
    if (contestant.group->alive()) races.emplace_back(contestant, static_cast<int>(slot), cell, effort);
  }
  // Runs `stage` for each, and goes on without those that fail in it.
  const auto all = [&](const std::function<std::string(Race&)>& stage) {
    std::erase_if(races, [&](Race& race) {
      try {
        const std::string reason = stage(race);
        if (!reason.empty()) notes.cannot(race.contestant(), race.cell(), reason);
        return !reason.empty();
      } catch (const Dropped& dropped) {
        race.contestant().group->give_up(dropped.what());
        notes.dropped(race.contestant(), race.cell(), dropped.what());
        return true;
      }
    });
  };
  all([&](Race& race) {
    std::string reason = race.prepare();
    if (reason.empty()) reason = race.check();
    if (reason.empty()) race.calibrate();
    return reason;
  });
  for (int round = 0; round < effort.rounds; ++round) {
    all([&](Race& race) {
      race.run_round();
      return std::string();
    });
  }
  std::vector<Row> rows;
  for (const Race& race : races) rows.push_back(race.row(ranks, transport));
  return rows;
}

}  // namespace tutti::bench
