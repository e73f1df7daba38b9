// Which rows are candidates, from what they need and what the transport offers.
#include "choice/chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "choice/pricer.h"
#include "topology/built_in.h"
#include "tutti/error.h"

namespace tutti::choice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Offers slots(std::uint32_t credits) {
  Offers offers;
  offers.inside.operands_in_slots = true;
  offers.inside.credits = credits;
  offers.inside.slot_bytes = 32 << 10;
  return offers;
}

std::vector<std::string_view> names(const Chooser& chooser, Verb verb) {
  std::vector<std::string_view> names;
  for (const schedule::Algorithm* row : chooser.candidates_of(verb)) names.push_back(row->name);
  return names;
}

TEST(Chooser, ARingIsNoCandidateWhereItWouldWaitForItsOwnCredits) {
  EXPECT_THAT(names({4, slots(1), {}, true}, Verb::all_gather), AllOf(Contains("bruck"), Not(Contains("ring"))));
  EXPECT_THAT(names({4, slots(2), {}, true}, Verb::all_gather), Contains("ring"));
  EXPECT_THAT(names({4, Offers{}, {}, true}, Verb::all_gather), Contains("ring"))
      << "a stream takes more than it holds";
  try {
    Chooser(4, slots(1), forced_algorithms("all_gather=ring", true), true);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("all_gather by 'ring' needs 2 messages under way on each edge"));
  }
}

TEST(Chooser, WhatNeedsWindowsOrSingleCopyIsACandidateOnlyWhereTheyAre) {
  Offers memory = slots(4);
  const auto found = [&] { return names({4, memory, {}, true}, Verb::all_gather); };
  EXPECT_THAT(found(), AllOf(Not(Contains("staged")), Not(Contains("single_copy")), Not(Contains("direct"))));
  memory.inside.windows_to_scratch = true;
  EXPECT_THAT(found(), AllOf(Contains("staged"), Not(Contains("single_copy")), Not(Contains("direct"))));
  memory.inside.single_copy = true;
  EXPECT_THAT(found(), AllOf(Contains("single_copy"), Not(Contains("direct"))));
  memory.inside.windows_to_user = true;
  EXPECT_THAT(found(), Contains("direct"));
}

Offers over_hosts(const Hosts& hosts) {
  Offers offers = slots(4);
  offers.inside.windows_to_scratch = offers.inside.single_copy = true;
  offers.across.slot_bytes = 256 << 10;
  offers.scratch_bytes = 1 << 20;
  offers.hosts = hosts;
  return offers;
}

const std::vector<int> kTwoHosts{0, 0, 1, 1};

TEST(Chooser, OverHostsRunsWhatNeedsNoMemoryOfAllRanks) {
  const Chooser chooser(4, over_hosts(Hosts(kTwoHosts)), {}, true);
  EXPECT_THAT(names(chooser, Verb::all_gather),
              AllOf(Contains("ring"), Contains("single_copy"), Not(Contains("staged")), Not(Contains("direct"))));
  EXPECT_THAT(names(chooser, Verb::barrier), AllOf(Contains("dissemination"), Not(Contains("flags"))));
}

TEST(Chooser, MessagesAreChosenByTheirEdge) {
  Chooser chooser(4, over_hosts(Hosts(kTwoHosts)), {}, true);
  AgreedCosts costs = agreed_costs(topology::usual_costs(4), 4, 1, false);
  costs.memory.rates.inside.call = costs.memory.rates.inside.stream = 0;  // so that a single copy costs nothing
  chooser.set_costs(costs);
  Question message{.verb = Verb::send_recv, .bytes = 1 << 20};
  EXPECT_EQ(chooser.choose(message)->name, "single_copy");
  message.across = true;
  EXPECT_EQ(chooser.choose(message)->name, "message");
  const schedule::Algorithm& row = *schedule::find_algorithm(Verb::send_recv, "message");
  EXPECT_LT(chooser.price_of_message(row, 8, false), chooser.price_of_message(row, 8, true));
}

// A survey was made before a row came: the row counts for worse than all of its kind, and those of other kinds do not.
TEST(Chooser, ARowThatNobodyHasTimedIsTakenToBeFurtherOffThanTheWorstOfItsKind) {
  topology::CostTable table;
  topology::Survey survey;
  survey.ranks = 4;
  survey.factors["all_reduce/ring"].fill(2.0);
  survey.factors["all_reduce/recursive_doubling"].fill(1.25);
  table.surveys.push_back(survey);
  const Prices prices = agreed_costs(table, 4, 1, true).memory;
  const auto factor = [&](const char* name) {
    return prices.factor(*schedule::find_algorithm(Verb::all_reduce, name), 3);
  };
  EXPECT_EQ(factor("recursive_doubling"), 1.25);
  EXPECT_EQ(factor("recursive_multiplying"), 4.0);
  EXPECT_EQ(factor("torus"), 16.0);
  EXPECT_EQ(factor("staged"), 1.0);
}

// What a survey of one host says about algorithms is not taken to another's wires; what one of several hosts says is.
TEST(Chooser, OverHostsOnlySurveysOfSeveralHostsCount) {
  topology::CostTable table = topology::usual_costs(8);
  const schedule::Algorithm& row = *schedule::find_algorithm(Verb::all_reduce, "recursive_doubling");
  const auto factor = [&](int hosts) { return agreed_costs(table, 4, hosts, true).streams.factor(row, 3); };
  for (const int hosts : {1, 2}) {
    topology::Survey survey{false, 4, hosts, table.streams};
    survey.factors["all_reduce/recursive_doubling"].fill(1.0 + hosts);
    EXPECT_EQ(factor(2), 1.0);
    table.surveys.push_back(survey);
  }
  EXPECT_EQ(factor(1), 2.0);
  EXPECT_EQ(factor(2), 3.0);
}

// Until somebody has timed them there.
TEST(Chooser, OverHostsSomeCallsTakeLongerThanTheRatesSay) {
  topology::CostTable table = topology::usual_costs(8);
  table.surveys.push_back({false, 4, 1, table.streams});
  const schedule::Algorithm& row = *schedule::find_algorithm(Verb::all_gather, "hierarchical");
  const auto factor = [&](std::size_t size) { return agreed_costs(table, 4, 2, true).streams.factor(row, size); };
  EXPECT_GT(factor(3), 1.5);                           // 4 KB
  EXPECT_EQ(factor(topology::kSurveySizes - 1), 1.0);  // 16 MB
  table.surveys.push_back({false, 4, 2, table.streams});
  table.surveys.back().factors["all_gather/hierarchical"].fill(1.1);
  EXPECT_NEAR(factor(3), 1.1, 1e-6);
}

// Two ranks to each of four hosts on 1 Gbit/s: all messages at once wait for each other there.
TEST(Chooser, LongChunksToAllGoByFewMessagesAtATime) {
  Offers offers = over_hosts(Hosts(std::vector{0, 0, 1, 1, 2, 2, 3, 3}));
  offers.channels = 2;
  Chooser chooser(8, offers, {}, true);
  AgreedCosts costs = agreed_costs(topology::built_in_costs(16, {}), 8, 4, false);
  put_wire(costs, {.seconds_per_byte = 8e-9, .message = 6e-6});
  chooser.set_costs(costs);
  for (const std::uint64_t bytes : {4 << 20, 64 << 20}) {
    const std::string_view name = chooser.choose({.verb = Verb::all_to_all, .bytes = bytes})->name;
    EXPECT_TRUE(name == "linear" || name == "hierarchical") << name;
  }
}

TEST(Chooser, AWireCountsAsMeasuredBySurveysOfSeveralHostsOnly) {
  topology::CostTable table = topology::usual_costs(8);
  EXPECT_FALSE(agreed_costs(table, 4, 2, false).wired);
  table.surveys.push_back({false, 4, 1, table.streams});
  EXPECT_FALSE(agreed_costs(table, 4, 2, true).wired);
  table.surveys.push_back({false, 4, 2, table.streams});
  EXPECT_TRUE(agreed_costs(table, 4, 2, true).wired);
}

// A stream that its own ranks hold up tells only that the wire is no slower.
TEST(Chooser, AWireIsWhatWasMeasuredWhereItHoldsStreamsUp) {
  const AgreedCosts before = agreed_costs(topology::usual_costs(8), 4, 2, false);
  const double stream = before.streams.rates.across.stream, usual = before.streams.rates.across.wire;
  const auto wire = [&](double measured) {
    AgreedCosts costs = before;
    put_wire(costs, {.seconds_per_byte = measured});
    EXPECT_TRUE(costs.wired);
    return costs.streams.rates.across.wire;
  };
  ASSERT_LT(8 * stream, usual * 2);
  EXPECT_EQ(wire(20 * usual), 20 * usual);
  EXPECT_EQ(wire(8 * stream), 8 * stream);
  EXPECT_EQ(wire(2 * stream), 2 * stream);
  AgreedCosts slow = before;
  slow.streams.rates.across.stream = 10 * usual;
  put_wire(slow, {.seconds_per_byte = 12 * usual});
  EXPECT_EQ(slow.streams.rates.across.wire, usual);
}

// Four hosts of two ranks: a program that sends a byte twice over a narrow wire loses to one that does not.
TEST(Chooser, ANarrowWireDecides) {
  const Question all_gather{.verb = Verb::all_gather, .bytes = 4096};
  const std::vector<int> hosts{0, 0, 1, 1, 2, 2, 3, 3};
  const auto chosen = [&](double wire) {
    Chooser chooser(8, over_hosts(Hosts(hosts)), {}, true);
    AgreedCosts costs = agreed_costs(topology::usual_costs(8), 8, 4, false);
    put_wire(costs, {.seconds_per_byte = wire});
    chooser.set_costs(costs);
    return std::string(chooser.choose(all_gather)->name);
  };
  EXPECT_NE(chosen(8e-9), chosen(0.08e-9));
}

// Two ranks to each of four hosts on 1 Gbit/s, a short message there in 6 us.
TEST(Chooser, ShortChunksGoByLeaders) {
  const std::vector<int> host_after_host{0, 0, 1, 1, 2, 2, 3, 3};
  Offers offers = over_hosts(Hosts(host_after_host));
  offers.channels = 2;
  Chooser chooser(8, offers, {}, true);
  AgreedCosts costs = agreed_costs(topology::built_in_costs(16, {}), 8, 4, false);
  put_wire(costs, {.seconds_per_byte = 8e-9, .message = 6e-6});
  chooser.set_costs(costs);
  const auto chosen = [&](std::uint64_t bytes) {
    return std::string(chooser.choose({.verb = Verb::all_gather, .bytes = bytes})->name);
  };
  EXPECT_EQ(chosen(4 << 10), "leaders");
  EXPECT_NE(chosen(4 << 20), "leaders");
}

// Two ranks to each of four hosts: the longer the way, the more it is worth to have few messages one after the other.
TEST(Chooser, ALongWayDecides) {
  const Question all_reduce{.verb = Verb::all_reduce, .bytes = 4096};
  const auto chosen = [&](double message) {
    Offers offers = over_hosts(Hosts(std::vector{0, 1, 2, 3, 0, 1, 2, 3}));
    offers.channels = 2;
    Chooser chooser(8, offers, {}, true);
    AgreedCosts costs = agreed_costs(topology::usual_costs(8), 8, 4, false);
    put_wire(costs, {.seconds_per_byte = 8e-9, .message = message});
    chooser.set_costs(costs);
    return std::string(chooser.choose(all_reduce)->name);
  };
  EXPECT_EQ(chosen(0), "hierarchical");
  EXPECT_EQ(chosen(500e-6), "leaders");
}

TEST(Chooser, AnotherHostIsNoNearerThanThisOne) {
  AgreedCosts costs = agreed_costs(topology::usual_costs(8), 4, 2, false);
  const topology::Rates before = costs.streams.rates.across;
  put_wire(costs, {.seconds_per_byte = 8e-9, .message = 1e-9});
  EXPECT_EQ(costs.streams.rates.across.message, before.message);
  put_wire(costs, {.seconds_per_byte = 8e-9, .message = 50e-6});
  EXPECT_DOUBLE_EQ(costs.streams.rates.across.message, 50e-6 - 2 * (before.step + before.call));
}

// A survey may name a row that there is no more: it was found on another version, and the rest of it still holds.
TEST(Chooser, RowsOfASurveyThatThereAreNoMoreAreLeftAside) {
  topology::Survey survey;
  survey.ranks = 4;
  survey.factors["all_to_all/bruck"].fill(1.5);
  const auto prices_of_survey = [&] {
    topology::CostTable table;
    table.surveys.push_back(survey);
    return agreed_costs(table, 4, 1, true).memory;
  };
  const Prices before = prices_of_survey();
  survey.factors["all_to_all/pairwise"].fill(7.0);
  survey.factors["nothing/at all"].fill(9.0);
  const Prices after = prices_of_survey();
  for (const schedule::Algorithm& row : schedule::algorithms()) EXPECT_EQ(after.factor(row, 3), before.factor(row, 3));
  EXPECT_EQ(after.factor(*schedule::find_algorithm(Verb::all_to_all, "spread_out"), 3), 3.0);
}

// By the built-in surveys rows that are newer change nothing, but for hosts and sizes that nobody has been at.
TEST(Chooser, RowsThatTheSurveyLacksAreNotChosenOnOneHost) {
  for (const bool memory : {true, false}) {
    Offers offers = slots(4);
    if (!memory) offers.inside.operands_in_slots = false;
    offers.inside.windows_to_scratch = offers.inside.single_copy = memory;
    for (const int cores : {2, 4, 16}) {
      for (const int ranks : {2, 4, 6, 7, 8, 16}) {
        for (const bool deterministic : {true, false}) {
          Chooser chooser(ranks, offers, {}, deterministic);
          const topology::CostTable costs = topology::built_in_costs(cores, {});
          const topology::Survey survey = topology::survey_for(costs, memory, ranks).value();
          chooser.set_costs(agreed_costs(costs, ranks, 1, false));
          for (const Verb verb :
               {Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter, Verb::gather, Verb::scatter}) {
            for (int power = 0; power < 28; power += 3) {
              const schedule::Algorithm* row = chooser.choose({.verb = verb, .bytes = std::uint64_t{1} << power});
              EXPECT_TRUE(!row->untimed || survey.factors.contains(survey_name(*row)))
                  << name_of(verb) << " by " << row->name << ", " << ranks << " ranks on " << cores << " cores, 2^"
                  << power << " B, " << (memory ? "memory" : "streams");
            }
          }
        }
      }
    }
  }
}

// Inside a host at the rates of memory, across at those of streams; groups of one kind are what they always were.
TEST(Chooser, LinksArePricedByTheirKind) {
  const AgreedCosts costs = agreed_costs(topology::usual_costs(24), 4, 1, false);
  const schedule::Algorithm& row = *schedule::find_algorithm(Verb::all_reduce, "recursive_doubling");
  const auto price = [&](const Offers& offers, int ranks) {
    Chooser chooser(ranks, offers, {}, true);
    chooser.set_costs(costs);
    return chooser.price_of(row, 1024);
  };
  Offers memory = over_hosts({}).pair(true), streams = memory;
  streams.inside = over_hosts({}).across;
  memory.segment_bytes = streams.segment_bytes = kSegmentBytes;
  EXPECT_EQ(price(memory, 4), Pricer(row, 4, memory).at(1024, costs.memory));
  EXPECT_EQ(price(streams, 4), Pricer(row, 4, streams).at(1024, costs.streams));
  const auto apart = [](int ranks) {
    std::vector<int> hosts(static_cast<std::size_t>(ranks));
    std::iota(hosts.begin(), hosts.end(), 0);
    return over_hosts(Hosts(hosts));
  };
  EXPECT_LT(price(streams, 4), price(apart(4), 4)) << "of a wire";
  EXPECT_LT(price(memory, 4), price(over_hosts(Hosts(kTwoHosts)), 4));
  EXPECT_LT(price(over_hosts(Hosts(kTwoHosts)), 4), price(apart(4), 4));
  // Larger groups are played by fewer ranks, of which some share a host and some do not.
  std::vector<int> many(24);
  for (std::size_t rank = 0; rank < many.size(); ++rank) many[rank] = static_cast<int>(rank) / 4;
  EXPECT_LT(price(memory, 24), price(over_hosts(Hosts(many)), 24));
}

TEST(Chooser, OrdersThatAreNotCanonicalRunOnlyWhereBitsMayDiffer) {
  EXPECT_THAT(names({4, slots(4), {}, true}, Verb::all_reduce), Not(Contains("ring")));
  EXPECT_THAT(names({4, slots(4), {}, false}, Verb::all_reduce), Contains("ring"));
}

TEST(Chooser, RowsForGridsRunWhereThereIsOne) {
  EXPECT_THAT(names({6, slots(4), {}, true}, Verb::all_gather), Contains("torus"));
  EXPECT_THAT(names({7, slots(4), {}, true}, Verb::all_gather), Not(Contains("torus")));
  EXPECT_THAT(names({4, slots(4), {}, false}, Verb::all_reduce), Not(Contains("torus"))) << "no second channel";
  EXPECT_THROW(Chooser(7, slots(4), forced_algorithms("all_gather=torus", true), true), Error);
  // Of 3 rows of 4 a price is found by 2 rows of 2, which would take a channel more.
  Chooser chooser(12, slots(4), {}, false);
  chooser.set_costs(agreed_costs(topology::usual_costs(8), 12, 1, false));
  EXPECT_THAT(names(chooser, Verb::all_reduce), Contains("torus"));
  EXPECT_GT(chooser.price_of(*schedule::find_algorithm(Verb::all_reduce, "torus"), 1 << 20), 0);
  EXPECT_NE(chooser.choose({.verb = Verb::all_reduce, .bytes = 1 << 20}), nullptr);
}

// Ranks dealt out over hosts in turn: sums of hosts come first, but an operator that is not commutative has the order
// of the ranks.
TEST(Chooser, OverHostsBitsAreThoseOfHostsFirst) {
  Offers offers = over_hosts(Hosts(std::vector{0, 1, 0, 1, 0, 1}));
  offers.channels = 2;
  EXPECT_THAT(names({6, offers, {}, true}, Verb::all_reduce),
              AllOf(Contains("hierarchical"), Contains("exchange"), Not(Contains("recursive_doubling"))));
  EXPECT_THAT(names({6, offers, {}, false}, Verb::all_reduce), Contains("recursive_doubling"));
  EXPECT_THAT(names({4, over_hosts(Hosts(std::vector{0, 0, 1, 1})), {}, true}, Verb::all_reduce),
              AllOf(Contains("recursive_doubling"), Not(Contains("hierarchical"))))
      << "one order, and no second channel";
  Chooser chooser(6, offers, {}, true);
  chooser.set_costs(agreed_costs(topology::usual_costs(8), 6, 1, false));
  for (const std::uint64_t bytes : {8u, 1u << 20}) {
    EXPECT_EQ(chooser.choose({.verb = Verb::all_reduce, .bytes = bytes})->order, schedule::Order::hosts);
    EXPECT_EQ(chooser.choose({.verb = Verb::all_reduce, .bytes = bytes, .keep_order = true})->order,
              schedule::Order::ranks);
  }
  try {
    Chooser(6, offers, forced_algorithms("all_reduce=recursive_doubling", true), true);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not add up hosts first"));
  }
}

TEST(Chooser, TellsOfAVerbOnceWhenItIsFirstCalled) {
  Chooser chooser(4, slots(4), {}, true);
  std::vector<Verb> told;
  chooser.on_priced([&](Verb verb, bool across) {
    EXPECT_FALSE(across);
    told.push_back(verb);
  });
  Question call;
  call.bytes = 1000;
  static_cast<void>(chooser.choose(call));
  static_cast<void>(chooser.choose(call));
  EXPECT_THAT(told, ::testing::ElementsAre(Verb::all_reduce));
  call.verb = Verb::all_gather;
  static_cast<void>(chooser.choose(call));
  EXPECT_THAT(told, ::testing::ElementsAre(Verb::all_reduce, Verb::all_gather));
}

TEST(Chooser, SaysWhatItChoseAndByHowMuch) {
  Offers memory = slots(4);
  memory.inside.windows_to_scratch = true;
  Chooser chooser(2, memory, {}, true);
  chooser.set_costs(agreed_costs(topology::built_in_costs(2, {}), 2, 1, false));
  const std::vector<Choice> choices = chooser.choices_of(Verb::all_reduce);
  ASSERT_GT(choices.size(), 1u);
  EXPECT_EQ(choices.back().bytes, kAnyBytes);
  std::uint64_t above = 0;
  for (const Choice& choice : choices) {
    EXPECT_GT(choice.at_bytes, above);
    EXPECT_LE(choice.at_bytes, choice.bytes);
    EXPECT_GT(choice.seconds, 0);
    EXPECT_GE(choice.next_seconds, choice.seconds * 0.999) << choice.words();
    EXPECT_NE(choice.next, choice.algorithm);
    Question call;
    call.bytes = choice.at_bytes;
    EXPECT_EQ(chooser.choose(call)->name, choice.algorithm);
    above = choice.bytes;
  }
}

TEST(Chooser, SaysItInASentence) {
  Choice choice{Verb::all_reduce, false, 384, "recursive_doubling", "fewest rounds", 64, 1.2e-6, "one_shot", 1.4e-6};
  EXPECT_EQ(choice.words(),
            "all_reduce up to 384 bytes: recursive_doubling (fewest rounds; 64 bytes in 1.2 us, by one_shot 1.4 us)");
  choice = {Verb::send_recv, true, kAnyBytes, "message", "asked for by name"};
  EXPECT_EQ(choice.words(), "send_recv across hosts: message (asked for by name)");
}

}  // namespace
}  // namespace tutti::choice
