// Rings become one file: what each event turns into, clocks of several hosts, and folders in which something is
// missing, cut short or of another job.
#include "trace/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "schedule/program.h"
#include "trace/folder.h"
#include "trace/ring_folder.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::trace {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;

constexpr std::uint64_t kJob = 0x9f3c;

RingFacts facts_of(int rank, int size = 2) {
  RingFacts facts{.rank = rank, .size = size, .job = kJob};
  std::ranges::copy(std::string("node0"), facts.host_name.begin());
  std::ranges::copy(std::string("1.2.3"), facts.library.begin());
  return facts;
}

// A recorder with the two ranks as its first communicator, and events at microseconds since it was made.
struct Rank {
  explicit Rank(const Folder& folder, const RingFacts& facts, const RingShape& shape = {.events = 64})
      : recorder(folder.path(), facts, shape), origin(recorder.now()) {
    std::vector<int> all;
    for (int rank = 0; rank < facts.size; ++rank) all.push_back(rank);
    recorder.add_communicator(0x1a, all);
  }

  static double ticks_per_us() {
    static const double kTicks = [] {
      const Clock clock;
      const ClockPair from = clock.pair();
      ClockPair to = clock.pair();
      while (to.steady_ns < from.steady_ns + 20'000'000) to = clock.pair();
      return 1e3 * static_cast<double>(to.ticks - from.ticks) / static_cast<double>(to.steady_ns - from.steady_ns);
    }();
    return kTicks;
  }
  TraceEvent event(EventKind kind, double begin, double end) const {
    TraceEvent made;
    made.kind = kind;
    made.begin = origin + static_cast<std::uint64_t>(begin * ticks_per_us());
    made.end = origin + static_cast<std::uint64_t>(end * ticks_per_us());
    made.middle = made.begin;
    return made;
  }
  void call(Verb verb, std::uint64_t sequence, double begin, double end, bool async = false) {
    TraceEvent made = event(EventKind::call, begin, end);
    made.what = static_cast<std::uint8_t>(verb);
    made.flags = async ? TraceEvent::kAsync : std::uint8_t{0};
    made.communicator = 0;
    made.name = recorder.name("ring");
    made.sequence = sequence;
    made.amount = 80;
    made.other = TraceEvent::peer_and_prediction(0, 45'000);
    recorder.record(made);
  }
  void message(int peer, bool sends, std::uint64_t sequence, double begin, double end) {
    TraceEvent made = event(EventKind::call, begin, end);
    made.what = static_cast<std::uint8_t>(Verb::send_recv);
    made.flags = sends ? TraceEvent::kSends : std::uint8_t{0};
    made.communicator = 0;
    made.sequence = sequence;
    made.other = TraceEvent::peer_and_prediction(peer, TraceEvent::kUnknown_ns);
    recorder.record(made);
  }
  void span(const char* name, double begin, double end) {
    TraceEvent made = event(EventKind::span, begin, end);
    made.name = recorder.name(name);
    recorder.record(made);
  }

  Recorder recorder;
  std::uint64_t origin;
};

Json merged(const Folder& folder, std::vector<std::string>* sentences = nullptr) {
  const Merged result = merge(folder.path(), folder.path() + "/run.json");
  if (sentences != nullptr) *sentences = result.sentences;
  std::ifstream file(folder.path() + "/run.json");
  return Json::parse(file);
}

Json slices_of(const Json& trace, const std::string& category) {
  Json found = Json::array();
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("cat") == category) found.push_back(event);
  return found;
}

std::string refusal_of(const Folder& folder) {
  try {
    merge(folder.path(), folder.path() + "/run.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Merge, TellsOfCallsWhenAllWereIn) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0)), one(folder, facts_of(1));
    one.origin = zero.origin;  // however long it took to make the ring
    zero.call(Verb::all_reduce, 4, 0, 500);
    one.call(Verb::all_reduce, 4, 300, 500);
    zero.call(Verb::all_reduce, 5, 600, 700);
    zero.recorder.end();
    one.recorder.end();
  }
  std::vector<std::string> sentences;
  const Json trace = merged(folder, &sentences);
  EXPECT_THAT(sentences, ElementsAre());
  EXPECT_EQ(trace.at("tutti").at("format"), 1);
  EXPECT_EQ(trace.at("tutti").at("job"), "9f3c");
  EXPECT_EQ(trace.at("tutti").at("version"), "1.2.3");
  EXPECT_EQ(trace.at("tutti").at("communicators"), Json::parse(R"([{"id":"1a","ranks":[0,1]}])"));
  EXPECT_EQ(trace.at("tutti").at("schedules"),
            Json::parse(R"([{"verb":"all_reduce","algorithm":"ring","ranks":2,"calls":2}])"));
  const Json calls = slices_of(trace, "call");
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_NEAR(calls[0].at("dur"), 500, 5);
  EXPECT_EQ(calls[0].at("args").at("all_in_us"), calls[1].at("ts"));
  EXPECT_EQ(calls[0].at("args").at("predicted_us"), 45);
  EXPECT_EQ(calls[0].at("args").at("algorithm"), "ring");
  EXPECT_FALSE(calls[2].at("args").contains("all_in_us")) << "rank 1 has not made it";
}

TEST(Merge, TiesMessagesToTheirReceivers) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0)), one(folder, facts_of(1));
    zero.message(1, true, 0, 0, 10);
    zero.message(1, true, 1, 20, 30);
    one.message(0, false, 1, 400, 500);
    one.message(0, true, 0, 600, 700);  // nobody has received it
  }
  const Json trace = merged(folder);
  std::map<std::string, Json> ends;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "s" || event.at("ph") == "f") ends[event.at("ph")] = event;
  ASSERT_EQ(ends.size(), 2u);
  const Json calls = slices_of(trace, "call");
  EXPECT_EQ(ends["s"].at("ts"), calls[1].at("ts"));
  EXPECT_EQ(ends["s"].at("tid"), 0);
  EXPECT_EQ(ends["f"].at("tid"), 1);
  EXPECT_NEAR(ends["f"].at("ts"), calls[2].at("ts").get<double>() + calls[2].at("dur").get<double>(), 0.0015);
  EXPECT_EQ(calls[2].at("args").at("direction"), "receive");
}

TEST(Merge, PutsWhatWouldNotNestElsewhere) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0, 1));
    zero.span("outer", 0, 100);
    zero.span("inner", 10, 20);
    zero.span("next", 100, 150);
    TraceEvent step = zero.event(EventKind::train_step, 50, 120);
    step.sequence = 7;
    zero.recorder.record(step);
    zero.call(Verb::all_reduce, 0, 10, 60, true);
    zero.call(Verb::all_reduce, 1, 20, 70, true);
    zero.call(Verb::all_reduce, 2, 65, 90, true);
  }
  const Json trace = merged(folder);
  EXPECT_THAT(trace.at("tutti").at("rows"), ElementsAre("program", "program, besides 1", "async 1", "async 2"));
  const auto rows = [&](const std::string& category) {
    std::vector<int> found;
    for (const Json& slice : slices_of(trace, category)) found.push_back(slice.at("tid"));
    return found;
  };
  EXPECT_THAT(rows("span"), ElementsAre(0, 0, 0));
  EXPECT_THAT(rows("train"), ElementsAre(1));
  EXPECT_THAT(rows("call"), ElementsAre(2, 3, 2));
}

TEST(Merge, BringsTheClocksOfHostsTogether) {
  const Folder folder;
  RingFacts first = facts_of(0), second = facts_of(1);
  first.hosts = second.hosts = 2;
  second.host = 1;
  second.clock_offset_ns = -7'000'000'000;
  second.clock_error_ns = 12'500;
  {
    Rank zero(folder, first), one(folder, second);
    zero.span("here", 0, 10);
    one.span("there", 0, 10);
  }
  const Json trace = merged(folder);
  const Json spans = slices_of(trace, "span");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].at("name"), "there") << "seven seconds ahead by its own clock";
  EXPECT_EQ(spans[0].at("ts"), 0);
  EXPECT_NEAR(spans[1].at("ts"), 7e6, 1e6);
  EXPECT_EQ(spans[0].at("pid"), 1);
  const Json host = trace.at("tutti").at("hosts").at(1);
  EXPECT_EQ(host.at("clock_offset_us"), -7e6);
  EXPECT_GE(host.at("clock_error_us"), 12.5);
  EXPECT_THAT(host.at("ranks"), ElementsAre(1));
}

TEST(Merge, SaysWhatIsMissing) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0, 4), {.events = 4});
    for (int i = 0; i < 10; ++i) zero.span("lap", i, i + 0.5);
    zero.recorder.end();
    Rank two(folder, facts_of(2, 4));
    two.span("cut off", 0, 1);
    Rank three(folder, facts_of(3, 4));
    for (int i = 0; i < 64; ++i) three.span("lap", i, i + 0.5);
  }
  std::filesystem::resize_file(ring_path(folder.path(), 2), 100);
  std::filesystem::resize_file(ring_path(folder.path(), 3), RingPlaces({.events = 64}).others - 5 * sizeof(RingSlot));
  std::vector<std::string> sentences;
  const Json parts = merged(folder, &sentences).at("tutti").at("parts");
  EXPECT_EQ(parts, Json::parse(R"([{"rank":0,"found":true,"events":4,"lost":6,"nameless":0,"ended":true},
    {"rank":1,"found":false,"events":0,"lost":0,"nameless":0,"ended":false},
    {"rank":2,"found":false,"events":0,"lost":0,"nameless":0,"ended":false},
    {"rank":3,"found":true,"events":59,"lost":5,"nameless":0,"ended":false}])"));
  EXPECT_THAT(sentences, ElementsAre(HasSubstr("rank 0 lost 6 of 10 events"), "nothing is left of rank 1",
                                     HasSubstr("rank 2 is left out: "), HasSubstr("rank 3 lost 5 of 64"),
                                     HasSubstr("rank 3 was killed, or still runs")));
}

TEST(Merge, RefusesRingsThatDoNotBelongTogether) {
  const Folder folder;
  RingFacts other = facts_of(1);
  other.job = 0x77aa;
  { Rank zero(folder, facts_of(0)), one(folder, other); }
  EXPECT_THAT(refusal_of(folder), ::testing::AllOf(HasSubstr("rank-0.ring"), HasSubstr("rank-1.ring"),
                                                   HasSubstr("different jobs, 9f3c and 77aa")));
  { Rank one(folder, facts_of(1, 3)); }
  EXPECT_THAT(refusal_of(folder), HasSubstr("a job of 2 ranks on 1 hosts, and one of 3"));
  { Rank one(folder, facts_of(1)); }
  std::filesystem::copy(ring_path(folder.path(), 1), ring_path(folder.path(), 5));
  EXPECT_THAT(refusal_of(folder), HasSubstr("are both of rank 1"));
}

TEST(Merge, RefusesFoldersWithoutRings) {
  const Folder folder;
  EXPECT_THAT(refusal_of(folder), HasSubstr("has no rings of a job"));
  std::ofstream(ring_path(folder.path(), 0)) << "no ring";
  EXPECT_THAT(refusal_of(folder), HasSubstr("no ring in"));
  EXPECT_THROW(merge(folder.path() + "/missing", folder.path() + "/run.json"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/run.json"));
}

TEST(Merge, KeepsTheFileThatWasThereWhereItCannotWriteAnother) {
  const Folder folder;
  { Rank zero(folder, facts_of(0, 1)); }
  EXPECT_THROW(merge(folder.path(), folder.path() + "/nowhere/run.json"), Error);
}

TEST(Merge, WritesNamesThatAreNoText) {
  const Folder folder;
  { Rank(folder, facts_of(0, 1)).span("a \"quote\", a \\, a \n and \xff\xc3", 0, 1); }
  EXPECT_EQ(slices_of(merged(folder), "span").at(0).at("name"), "a \"quote\", a \\, a \n and ??");
}

TEST(Merge, SaysThatARingHadNoRoomForMoreCommunicators) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0), {.events = 64, .communicators = 1}), one(folder, facts_of(1));
    EXPECT_EQ(zero.recorder.add_communicator(0x2b, std::vector{0, 1}), TraceEvent::kNone);
    TraceEvent nameless = zero.event(EventKind::call, 0, 10);
    zero.recorder.record(nameless);
    nameless.kind = EventKind::wait;
    zero.recorder.record(nameless);
    one.recorder.end();
    zero.recorder.end();
  }
  std::vector<std::string> sentences;
  const Json trace = merged(folder, &sentences);
  EXPECT_THAT(sentences, ElementsAre(HasSubstr("rank 0 has more communicators than its ring has room for: 1 calls")));
  EXPECT_FALSE(slices_of(trace, "wait").at(0).at("args").contains("comm"));
}

TEST(Merge, SaysThatARingHadNoRoomForMoreNames) {
  const Folder folder;
  {
    Rank zero(folder, facts_of(0, 1), {.events = 64, .names = 1});
    zero.span("first", 0, 1);
    zero.span("second", 2, 3);
    zero.span("second", 4, 5);
    zero.recorder.end();
  }
  std::vector<std::string> sentences;
  const Json trace = merged(folder, &sentences);
  EXPECT_THAT(sentences, ElementsAre(HasSubstr("rank 0 has more names of algorithms and spans than its ring has room "
                                               "for: 2 times one was left out")));
  EXPECT_EQ(trace.at("tutti").at("parts").at(0).at("nameless"), 2);
}

// A group of two ranks of four is recorded: nothing of the others is missing, and its trace is whole.
TEST(Merge, KnowsWhichRanksWereRecorded) {
  const Folder folder;
  RingFacts three = facts_of(3, 4), one = facts_of(1, 4);
  three.recorded = one.recorded = 2;
  {
    Rank first(folder, three);
    first.recorder.end();
    EXPECT_FALSE(all_ended(folder.path(), three));
    Rank second(folder, one);
    EXPECT_FALSE(all_ended(folder.path(), three)) << "rank 1 still records";
    second.recorder.end();
    EXPECT_TRUE(all_ended(folder.path(), one));
  }
  std::vector<std::string> sentences;
  const Json trace = merged(folder, &sentences);
  EXPECT_THAT(sentences, ElementsAre("a group of 2 of the job's 4 ranks was recorded"));
  EXPECT_EQ(trace.at("tutti").at("parts").at(0).at("recorded"), false);
  EXPECT_FALSE(trace.at("tutti").at("parts").at(1).contains("recorded"));
  std::filesystem::remove(ring_path(folder.path(), 3));
  merged(folder, &sentences);
  EXPECT_THAT(sentences, ::testing::Contains("nothing is left of rank 3"));
}

// Of two jobs that are to go to one folder it is the first one's, until it ends.
TEST(RingFolder, IsOneJobsUntilItEnds) {
  const Folder folder;
  const std::string rings = rings_of(folder.path() + "/run.json");
  {
    const FolderClaim first(rings);
    EXPECT_TRUE(first.holds());
    EXPECT_FALSE(FolderClaim(rings).holds()) << "nobody records yet, but somebody is about to";
  }
  {
    Recorder recorder(rings, facts_of(0));
    EXPECT_TRUE(is_in_use(rings));
    EXPECT_FALSE(FolderClaim(rings).holds());
    EXPECT_TRUE(std::filesystem::exists(ring_path(rings, 0))) << "it is not touched";
    recorder.end();
    EXPECT_FALSE(is_in_use(rings));
    const FolderHold first(rings), second(rings);
    EXPECT_FALSE(FolderClaim(rings).holds()) << "it is not merged yet";
  }
  { Recorder killed(rings, facts_of(1)); }  // it has not ended, and nobody has it open
  EXPECT_TRUE(FolderClaim(rings).holds());
  EXPECT_FALSE(std::filesystem::exists(ring_path(rings, 0)));
  EXPECT_FALSE(std::filesystem::exists(ring_path(rings, 1)));
  EXPECT_TRUE(FolderClaim(folder.path() + "/nowhere/run.json.rings").holds()) << "who makes a ring there says why not";
  EXPECT_EQ(file_beside("a.b/run.json", 0x9f3c), "a.b/run.9f3c.json");
  EXPECT_EQ(file_beside("run", 0x9f3c), "run.9f3c");
}

}  // namespace
}  // namespace tutti::trace
