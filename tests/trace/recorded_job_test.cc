// What ranks did is what their trace tells: calls with their bytes, steps without a gap, waits with whom, spans that
// nest and messages from end to end; and what is left of a rank that was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "check.h"
#include "tools/view/traced.h"
#include "trace/folder.h"
#include "trace/merge.h"
#include "tutti/trace.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using testing::Folder;
using testing::Ranks;

constexpr int kRanks = 3;
constexpr std::size_t kSmall = 2, kLarge = 30'000;  // numbers of 4 bytes
constexpr int kLate = 2;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// So long that others have stopped to spin.
void compute() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  while (std::chrono::steady_clock::now() < until) continue;
}

void make_calls(Communicator& comm) {
  std::vector<float> small(kSmall, 1.0f), large(kLarge, 1.0f), other(kLarge, 1.0f);
  const Span step("a step");
  {
    const Span forward("forward");
    const Span inner("embedding");
    comm.all_reduce(small);
    comm.all_reduce(large);
  }
  if (comm.rank() == kLate) compute();
  comm.barrier();
  {
    const Span backward("backward");
    Work first = comm.all_reduce_async(large), second = comm.broadcast_async(other, 1);
    if (comm.rank() == kLate) compute();
    first.wait();
    second.wait();
  }
  if (comm.rank() == 0) comm.send(large, 1, 5);
  if (comm.rank() == 1) comm.recv(large, 0, 5);
  const int right = (comm.rank() + 1) % kRanks, left = (comm.rank() + kRanks - 1) % kRanks;
  comm.send_recv(small, right, std::span(other).first(kSmall), left);
}

Json trace_of(Ranks kind, const Folder& folder, const RankFunction& function) {
  const std::string file = folder.path() + "/run.json";
  testing::expect_all_ok(testing::run_ranks(kind, kRanks, [&](Communicator& comm) {
    testing::require(comm.trace().where().empty() && !comm.trace().on(), "nothing is recorded at first");
    make_calls(comm);
    comm.trace().start(file);
    testing::require(comm.trace().where() == file, "where it goes");
    function(comm);
    comm.trace().stop();
    testing::require(!comm.trace().on() && std::filesystem::exists(file), "the file is there");
    make_calls(comm);
  }));
  EXPECT_FALSE(std::filesystem::exists(trace::rings_of(file)));
  return Json::parse(text_of(file));
}

struct Slice {
  int rank = 0, row = 0;
  std::string category, name;
  double begin = 0, end = 0;
  Json args;
};

std::vector<Slice> slices_of(const Json& trace, const std::string& category = "") {
  std::vector<Slice> found;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || (!category.empty() && event.at("cat") != category)) continue;
    const int thread = event.at("tid");
    const double begin = event.at("ts");
    found.push_back({thread % kRanks, thread / kRanks, event.at("cat"), event.at("name"), begin,
                     begin + event.at("dur").get<double>(), event.value("args", Json::object())});
  }
  return found;
}

using Counted = std::map<std::string, int>;

// "all_reduce 8" and how often, of each rank alike.
Counted calls_of(const Json& trace, int rank) {
  Counted calls;
  for (const Slice& call : slices_of(trace, "call")) {
    if (call.rank != rank) continue;
    const std::string direction = call.args.value("direction", "");
    ++calls[call.name + " " + std::to_string(call.args.at("bytes").get<int>()) +
            (call.args.at("async") ? " async" : "") + (direction.empty() ? "" : " " + direction)];
  }
  return calls;
}

constexpr double kRounding = 0.0015;

void expect_nesting(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<double>> open;
  for (const Slice& slice : slices_of(trace)) {  // in the order of their begins
    std::vector<double>& ends = open[{slice.rank, slice.row}];
    while (!ends.empty() && ends.back() <= slice.begin + kRounding) ends.pop_back();
    EXPECT_TRUE(ends.empty() || slice.end <= ends.back() + kRounding) << slice.category << " " << slice.name;
    ends.push_back(slice.end);
  }
}

class RecordedJob : public ::testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override { trace_ = trace_of(GetParam(), folder_, make_calls); }

  Folder folder_;
  Json trace_;
};

TEST_P(RecordedJob, HasTheCallsThatWereMade) {
  Counted alike{{"all_reduce 8", 1},
                {"all_reduce 120000", 1},
                {"barrier 0", 1},
                {"all_reduce 120000 async", 1},
                {"broadcast 120000 async", 1},
                {"send_recv 8 send", 1},
                {"send_recv 8 receive", 1}};
  for (int rank = 0; rank < kRanks; ++rank) {
    Counted expected = alike;
    if (rank == 0) expected["send_recv 120000 send"] = 1;
    if (rank == 1) expected["send_recv 120000 receive"] = 1;
    EXPECT_EQ(calls_of(trace_, rank), expected) << rank;
  }
  std::map<std::uint64_t, std::set<double>> all_in;
  for (const Slice& call : slices_of(trace_, "call")) {
    EXPECT_EQ(call.row == 0, !call.args.at("async").get<bool>());
    EXPECT_LE(call.begin, call.args.at("began_us").get<double>() + kRounding);
    EXPECT_LE(call.args.at("began_us").get<double>(), call.end + kRounding);
    EXPECT_FALSE(call.args.at("algorithm").get<std::string>().empty());
    EXPECT_GT(call.args.at("predicted_us").get<double>(), 0);
    EXPECT_EQ(call.args.contains("root"), call.name == "broadcast");
    EXPECT_EQ(call.args.contains("all_in_us"), call.name != "send_recv");
    if (call.name != "send_recv") all_in[call.args.at("seq")].insert(call.args.at("all_in_us").get<double>());
  }
  EXPECT_EQ(all_in.size(), 5u);
  for (const auto& [sequence, moments] : all_in) EXPECT_EQ(moments.size(), 1u) << "all ranks tell of call " << sequence;
}

TEST_P(RecordedJob, HasEveryStepOfLongCalls) {
  using Key = std::tuple<int, std::string, int>;
  std::map<Key, std::vector<Slice>> calls;
  for (const Slice& call : slices_of(trace_, "call"))
    if (call.name != "send_recv") calls[{call.rank, call.args.at("comm"), call.args.at("seq")}].push_back(call);
  std::map<Key, int> steps;
  std::map<std::tuple<Key, int>, std::pair<int, int>> last;  // by call and lane: segment, step
  for (const Slice& step : slices_of(trace_, "step")) {
    const Key key{step.rank, step.args.at("comm"), step.args.at("seq")};
    ASSERT_EQ(calls[key].size(), 1u);
    const Slice& call = calls[key].front();
    EXPECT_GE(call.args.at("bytes").get<int>(), 4096);
    EXPECT_GE(step.begin + kRounding, call.begin);
    EXPECT_LE(step.end, call.end + kRounding);
    ++steps[key];
    const int segment = step.args.at("segment"), number = step.args.at("step");
    const auto [before, first] = last.try_emplace({key, step.args.at("lane").get<int>()}, 0, -1);
    const bool follows = segment == before->second.first && number == before->second.second + 1;
    const bool begins = number == 0 && segment == before->second.first + 1;
    EXPECT_TRUE(follows || begins) << "segment " << segment << ", step " << number;
    before->second = {segment, number};
    for (const char* end : {"from", "to"}) EXPECT_NE(step.args.value(end, -1), step.rank);
  }
  EXPECT_EQ(steps.size(), 3u * kRanks) << "two all_reduce and a broadcast of each rank";
}

// Who is late by so much is waited for, unless the machine stops the others for as long.
TEST_P(RecordedJob, SaysWhoWaitedForWhom) {
  std::set<std::string> on;
  bool waited = false;
  for (int turn = 0; turn < 20 && !(waited && on.contains("work")); ++turn) {
    if (turn > 0) trace_ = trace_of(GetParam(), folder_, make_calls);
    for (const Slice& wait : slices_of(trace_, "wait")) {
      on.insert(wait.args.at("on"));
      EXPECT_EQ(wait.row, 0);
      EXPECT_NE(wait.args.value("peer", -1), wait.rank);
      EXPECT_EQ(wait.args.contains("peer"), wait.args.at("on") != "work");
      waited = waited || (wait.rank != kLate && wait.args.value("peer", -1) == kLate);
    }
  }
  EXPECT_TRUE(waited) << "nobody waited for the late rank";
  EXPECT_TRUE(on.contains("work")) << "nobody waited for an async call";
}

TEST_P(RecordedJob, HasSpansThatNest) {
  expect_nesting(trace_);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::string> names;
    for (const Slice& span : slices_of(trace_, "span")) {
      EXPECT_EQ(span.row, 0);
      if (span.rank == rank) names.push_back(span.name);
    }
    EXPECT_THAT(names, ElementsAre("a step", "forward", "embedding", "backward"));
  }
}

TEST_P(RecordedJob, TiesSendersToReceivers) {
  std::map<int, std::vector<Json>> flows;
  for (const Json& event : trace_.at("traceEvents"))
    if (event.at("ph") == "s" || event.at("ph") == "f") flows[event.at("id")].push_back(event);
  int messages = 0;
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends[0].at("ph"), "s");
    EXPECT_LE(ends[0].at("ts").get<double>(), ends[1].at("ts").get<double>() + 1000) << "apart from clocks' errors";
    if (ends[0].at("tid").get<int>() / kRanks == 0) ++messages;
  }
  EXPECT_EQ(messages, 1 + kRanks);
  EXPECT_TRUE(GetParam() != Ranks::tcp || flows.size() > 1u + kRanks) << "steps send messages, too";
}

TEST_P(RecordedJob, IsWhatTheViewPlays) {
  const Json shown = view::traced_json(trace_.dump(), "run.json");
  EXPECT_EQ(shown.at("ranks"), kRanks);
  for (const Json& note : shown.at("notes"))
    EXPECT_TRUE(note.get<std::string>().starts_with("clocks: ")) << note << " of hosts alone";
  EXPECT_EQ(shown.at("events").size(), 7 * slices_of(trace_).size());
  EXPECT_EQ(view::traced_json(text_of(folder_.path() + "/run.json"), "run.json"), shown);
}

INSTANTIATE_TEST_SUITE_P(Groups, RecordedJob, ::testing::ValuesIn(testing::kAlsoMixed),
                         [](const auto& test) { return testing::name_of(test.param); });

std::span<int> one_of(std::vector<int>& values, int i) {
  return std::span(values).subspan(static_cast<std::size_t>(i), 1);
}

// The longest wait of the program in its span of this name, in microseconds.
double held_up_in(const Json& trace, const std::string& name) {
  double longest = 0;
  for (const Slice& span : slices_of(trace, "span")) {
    if (span.name != name) continue;
    for (const Slice& wait : slices_of(trace, "wait")) {
      const bool inside = wait.rank == span.rank && wait.row == 0 && wait.begin + kRounding >= span.begin &&
                          wait.end <= span.end + kRounding;
      if (inside) longest = std::max(longest, wait.end - wait.begin);
    }
  }
  return longest;
}

class Recorded : public ::testing::TestWithParam<Ranks> {};

// Ranks of a group made of others are those of the job.
TEST_P(Recorded, GroupsHaveTheRanksOfTheJob) {
  const Folder folder;
  const Json trace = trace_of(GetParam(), folder, [](Communicator& comm) {
    float value = 1;
    comm.all_reduce(std::span(&value, 1));
    Communicator part = comm.split(comm.rank() == 1 ? 1 : 0, -comm.rank());  // ranks 2 and 0, and rank 1 alone
    part.broadcast(std::span(&value, 1), 0);
  });
  std::map<std::string, Json> members;
  for (const Json& communicator : trace.at("tutti").at("communicators"))
    members[communicator.at("id")] = communicator.at("ranks");
  EXPECT_EQ(members.size(), 3u);
  int broadcasts = 0;
  for (const Slice& call : slices_of(trace, "call")) {
    EXPECT_TRUE(call.name != "all_reduce" || members[call.args.at("comm")] == (Json{0, 1, 2}));
    if (call.name != "broadcast") continue;
    ++broadcasts;
    EXPECT_EQ(members[call.args.at("comm")], call.rank == 1 ? Json{1} : (Json{2, 0}));
    EXPECT_EQ(call.args.at("root"), call.rank == 1 ? 1 : 2);
  }
  EXPECT_EQ(broadcasts, kRanks);
}

// Of calls that differ in one thing alone, each is told as what it is.
TEST_P(Recorded, CallsAreNotTakenForTheOneBefore) {
  const Folder folder;
  const Json trace = trace_of(GetParam(), folder, [](Communicator& comm) {
    std::vector<float> all(2 * kRanks, 1.0f);
    const std::vector<std::size_t> ones(kRanks, 1);
    const std::vector<float> one(1, 1.0f);
    const std::span<float> some = std::span(all).first(kRanks);
    for (int turn = 0; turn < 2; ++turn) {
      comm.all_gather(one, some);
      comm.all_gather_v(one, some, Parts{ones});
      comm.broadcast(some, 1);
      comm.broadcast(some, 2);
      comm.broadcast(std::span(all), 2);
      comm.broadcast_async(std::span(all), 2).wait();
    }
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<std::string> told;
    for (const Slice& call : slices_of(trace, "call")) {
      if (call.rank != rank) continue;
      const Json& args = call.args;
      told.push_back(call.name + " " + std::to_string(args.at("bytes").get<int>()) +
                     (args.contains("predicted_us") ? "" : " unpredicted") +
                     (args.contains("root") ? " of " + std::to_string(args.at("root").get<int>()) : "") +
                     (args.at("async").get<bool>() ? " async" : ""));
    }
    const std::vector<std::string> once = {"all_gather 12",     "all_gather 12 unpredicted", "broadcast 12 of 1",
                                           "broadcast 12 of 2", "broadcast 24 of 2",         "broadcast 24 of 2 async"};
    std::vector<std::string> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    EXPECT_EQ(told, twice) << rank;
  }
}

// However a program waits for what is under way, it does not compute meanwhile.
TEST_P(Recorded, WaitsOfAllKindsHoldTheProgramUp) {
  constexpr double kLong_us = 20'000;  // of the 30 ms that the other rank computes
  const Folder folder;
  int turns = 0;
  for (double one = 0, several = 0, probe = 0; one < kLong_us || several < kLong_us || probe < kLong_us; ++turns) {
    ASSERT_LT(turns, 10) << one << " us in wait_any, " << several << " in that of two groups, " << probe << " in probe";
    const Json trace = trace_of(GetParam(), folder, [](Communicator& comm) {
      Communicator other = comm.duplicate();
      std::vector<int> values(4);
      const auto receive = [&](Communicator& at, int i) { return at.recv_async(one_of(values, i), 1, i); };
      const auto send = [&](Communicator& at, int i) { at.send(one_of(values, i), 0, i); };
      if (comm.rank() == 0) {
        std::vector<Work> works;
        works.push_back(receive(comm, 0));
        works.push_back(receive(comm, 1));
        const Span span("one");
        wait_any(works);
        wait_all(works);
      }
      if (comm.rank() == 1) {
        compute();
        send(comm, 0);
        send(comm, 1);
      }
      comm.barrier();
      if (comm.rank() == 0) {
        std::vector<Work> works;
        works.push_back(receive(comm, 2));
        works.push_back(receive(other, 3));
        const Span span("several");
        wait_any(works);
        wait_all(works);
      }
      if (comm.rank() == 1) {
        compute();
        send(comm, 2);
        send(other, 3);
      }
      comm.barrier();
      if (comm.rank() == 0) {
        const Span span("probe");
        comm.probe(1, 0);
      }
      if (comm.rank() == 1) {
        compute();
        send(comm, 0);
      }
      if (comm.rank() == 0) comm.recv(one_of(values, 0), 1, 0);
    });
    one = held_up_in(trace, "one");
    several = held_up_in(trace, "several");
    probe = held_up_in(trace, "probe");
  }
}

// Each rank that comes is waited for by itself, though nothing moves before the last of them is there.
TEST_P(Recorded, RanksThatComeOneAfterTheOtherAreWaitedForEach) {
  const Folder folder;
  std::set<int> awaited;
  const bool messages = GetParam() == Ranks::tcp;  // rank 0 hears of rank 1 by rank 2
  for (int turn = 0; turn < 20 && awaited.size() < (messages ? 1 : 2); ++turn) {
    awaited.clear();
    const Json trace = trace_of(GetParam(), folder, [](Communicator& comm) {
      for (int i = 0; i < comm.rank(); ++i) compute();
      const Span span("barrier");
      comm.barrier();
    });
    for (const Slice& wait : slices_of(trace, "wait"))
      if (wait.rank == 0 && wait.args.contains("peer")) awaited.insert(wait.args.at("peer").get<int>());
  }
  EXPECT_EQ(awaited, messages ? std::set{2} : (std::set{1, 2}));
}

// Of an exchange with two ranks each half ends by itself: the send when it has gone, long before the message comes.
TEST_P(Recorded, HalvesOfAnExchangeEndEach) {
  const Folder folder;
  double apart = 0;
  for (int turn = 0; turn < 20 && apart < 10'000; ++turn) {
    const Json trace = trace_of(GetParam(), folder, [](Communicator& comm) {
      std::vector<int> values(2);
      if (comm.rank() == 2) compute();  // its message comes late
      comm.send_recv(one_of(values, 0), (comm.rank() + 1) % kRanks, one_of(values, 1), (comm.rank() + 2) % kRanks);
    });
    double sent = 0, received = 0;
    for (const Slice& call : slices_of(trace, "call"))
      if (call.rank == 0) (call.args.value("direction", "") == "send" ? sent : received) = call.end;
    apart = received - sent;
  }
  EXPECT_GE(apart, 10'000);
}

// The ranks of a group alone are recorded: the last of them makes the file.
TEST_P(Recorded, GroupsOfSomeRanksMakeTheirFile) {
  const Folder folder;
  const std::string file = folder.path() + "/run.json";
  testing::expect_all_ok(testing::run_ranks(GetParam(), kRanks, [&](Communicator& comm) {
    Communicator part = comm.split(comm.rank() == 1 ? 1 : 0, comm.rank());
    if (comm.rank() == 1) return;
    part.trace().start(file);
    float value = 1;
    part.all_reduce(std::span(&value, 1));
    part.trace().stop();
    testing::require(std::filesystem::exists(file), "the file is there");
  }));
  EXPECT_FALSE(std::filesystem::exists(trace::rings_of(file)));
  const Json facts = Json::parse(text_of(file)).at("tutti");
  EXPECT_EQ(facts.at("ranks"), kRanks);
  EXPECT_EQ(facts.at("schedules").at(0).at("calls"), 1);
  EXPECT_EQ(facts.at("parts").at(1).at("recorded"), false);
}

TEST_P(Recorded, AgainIsAnotherTrace) {
  const Folder folder;
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, [&](Communicator& comm) {
    for (const char* name : {"/first.json", "/second.json"}) {
      comm.trace().start(folder.path() + name);
      comm.barrier();
      const std::string words = testing::error_of([&] { comm.trace().start(folder.path() + "/third.json"); }).what();
      testing::require(words.find(name) != std::string::npos, words);
      comm.trace().stop();
      comm.trace().stop();
    }
  }));
  const Json first = Json::parse(text_of(folder.path() + "/first.json"));
  const Json second = Json::parse(text_of(folder.path() + "/second.json"));
  EXPECT_EQ(first.at("tutti").at("schedules").at(0).at("calls"), 1);
  EXPECT_EQ(second.at("tutti").at("schedules").at(0).at("calls"), 1);
  EXPECT_NE(first.at("tutti").at("job"), second.at("tutti").at("job"));
}

INSTANTIATE_TEST_SUITE_P(Groups, Recorded, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

TEST(RecordedJobs, PartOfAKilledRankIsThere) {
  const Folder folder;
  const std::string file = folder.path() + "/run.json";
  const auto ends = testing::run_ranks(Ranks::processes, kRanks, [&](Communicator& comm) {
    comm.trace().start(file);
    const Span whole("a span that does not end where the rank is killed");
    float value = 1;
    comm.all_reduce(std::span(&value, 1));
    if (comm.rank() == 1) ::raise(SIGKILL);
    testing::error_of([&] { comm.barrier(); });
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(file)) << "nobody is the last to end";
  const trace::Merged merged = trace::merge(trace::rings_of(file), file);
  EXPECT_THAT(merged.sentences, ElementsAre(::testing::HasSubstr("rank 1 was killed, or still runs")));
  const Json trace = Json::parse(text_of(file));
  EXPECT_EQ(trace.at("tutti").at("parts").at(0).at("ended"), true);
  EXPECT_EQ(trace.at("tutti").at("parts").at(1).at("ended"), false);
  EXPECT_EQ(calls_of(trace, 1), (Counted{{"all_reduce 4", 1}}));
  EXPECT_EQ(slices_of(trace, "span").size(), 2u);
}

TEST(RecordedJobs, SpansElsewhereCostNothingAndSayNothing) {
  const Span span("nobody records");
  EXPECT_FALSE(trace::on());
}

// A ring is its own process's alone.
TEST(RecordedJobs, ForkedChildrenRecordNothing) {
  const Folder folder;
  const std::string file = folder.path() + "/run.json";
  testing::expect_all_ok(run_threads(1, [&](Communicator& comm) {
    comm.trace().start(file);
    {
      const Span span("of the parent");
      const pid_t child = ::fork();
      if (child == 0) {
        { const Span own("of the child"); }
        ::_exit(trace::on() ? 1 : 0);
      }
      int status = -1;
      testing::require(::waitpid(child, &status, 0) == child && status == 0, "the child records nothing");
    }
    comm.trace().stop();
  }));
  const Json trace = Json::parse(text_of(file));
  const auto spans = slices_of(trace, "span");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name, "of the parent");
}

TEST(RecordedJobs, RefuseWhatCannotBe) {
  testing::expect_all_ok(run_threads(1, [](Communicator& comm) {
    testing::error_of([&] { comm.trace().start(""); });
    testing::error_of([&] { comm.trace().start("/nowhere/run.json"); });
    testing::error_of([&] { comm.trace().start("run.json", std::size_t{1} << 40); });
    testing::require(!comm.trace().on(), "nothing is recorded");
  }));
}

}  // namespace
}  // namespace tutti
