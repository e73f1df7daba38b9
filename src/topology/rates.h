// Rates: what a machine takes for the parts of a schedule, in seconds or seconds per byte. A value with a text form.
//
// `tutti tune` measures them; a communicator takes rank 0's, so that all ranks choose alike; schedule/readers/cost.h
// prices schedules with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/device_rates.h"
#include "topology/measured_steps.h"

namespace tutti::topology {

// X(member, meaning)
#define TUTTI_RATES(X)                                                                    \
  X(step, "to run a step, whatever its size")                                             \
  X(line, "a message of shared memory, at each end: twice where it is long")              \
  X(message, "alpha: from the end of a send until the receiver sees the message")         \
  X(progress, "alpha: from the end of a published step until a peer sees it")             \
  X(enter, "to tell all ranks where one's buffers lie, and to learn theirs")              \
  X(call, "a system call: at each end of a stream, or to copy out of a peer's memory")    \
  X(copy, "beta: one byte from memory to memory")                                         \
  X(peer, "beta: more of it where the byte comes from a peer's memory or message")        \
  X(push, "beta: more of it where the byte goes into a message, or where peers look")     \
  X(stream, "beta: one byte through that call")                                           \
  X(wire, "beta: one byte through the adapter by which all ranks of a host reach others") \
  X(store, "beta: every further destination of a byte")                                   \
  X(reduce, "gamma: every further source of a byte")                                      \
  X(far, "how many times as much a byte costs once a call outgrows the caches")           \
  X(crowd, "how much more a byte costs for every other rank of the host that is at work") \
  X(turn, "to hand a core from one rank to another, where ranks outnumber cores")

struct Rates {
#define X(member, meaning) double member = 0;
  TUTTI_RATES(X)
#undef X
  double cache_bytes = 0;  // calls that touch more than this per rank have outgrown the caches
  int cores = 1;           // that the ranks of a host share

  bool operator==(const Rates&) const = default;
};

// What the parts of a schedule take in a group over several hosts: the rates of links inside a host, which are those of
// its memory and cores as well, and of links across, of which only what concerns messages counts.
struct LinkRates {
  LinkRates(const Rates& alike) : inside(alike), across(alike) {}  // NOLINT: of a group whose links are all alike
  LinkRates(const Rates& within, const Rates& between) : inside(within), across(between) {}

  Rates inside, across;
};

// The sizes at which a survey times every algorithm: closer together where one algorithm overtakes the other.
inline constexpr std::size_t kSurveySizes = 10;
inline constexpr std::uint64_t kSurveyBytes[kSurveySizes] = {8,        64,        512,     4 << 10, 16 << 10,
                                                             64 << 10, 256 << 10, 1 << 20, 2 << 20, 16 << 20};

// A group of so many ranks that was timed: the rates that explain its times best, and, by algorithm and size, how many
// times as long a call takes as these say.
struct Survey {
  bool memory = true;  // between ranks that share memory, or over streams
  int ranks = 0;
  int hosts = 1;
  Rates rates = {};
  std::map<std::string, std::array<double, kSurveySizes>> factors = {};
  std::optional<DeviceRates> device = {};  // where its ranks had one
  std::vector<MeasuredStep> steps = {};    // of strategies, where ranks share memory

  bool operator==(const Survey&) const = default;
};

// What is measured of a machine in a moment, in seconds or seconds per byte: its rates in outline. X(member, meaning)
#define TUTTI_SPEEDS(X)                                            \
  X(work, "a fixed piece of arithmetic, one step after the other") \
  X(line, "a line of the caches from one core to another")         \
  X(fetch, "a byte copied out of another core's cache")            \
  X(copy, "a byte copied within the caches")                       \
  X(far_copy, "a byte copied beyond them")                         \
  X(call, "a system call that copies a byte out of a process")     \
  X(reach, "every further byte of it")                             \
  X(send, "a byte by TCP from this host to itself")                \
  X(stream, "every further byte of it")                            \
  X(turn, "to hand a core from one thread to another")

struct Speeds {
#define X(member, meaning) double member = 0;  // 0 = not known
  TUTTI_SPEEDS(X)
#undef X

  bool operator==(const Speeds&) const = default;
};

// Between ranks that share memory, and between ranks that have streams only; and groups that were timed.
struct CostTable {
  Rates memory, streams;
  std::vector<Survey> surveys;
  Speeds speeds;  // of the machine on which all this was found

  bool operator==(const CostTable&) const = default;
};

// The survey of that kind whose group is the most like one of `ranks` on so many hosts: in whether these are several,
// in how many ranks share a core, and then in size. Of equals the first; nullptr where there is none.
const Survey* nearest_survey(const CostTable& table, bool memory, int ranks, int hosts = 1);
// What holds for such a group: that survey, or where the group's size lies between it and another one of the same
// machine, with as many ranks to a core, what lies between the two. Nothing where there is none.
std::optional<Survey> survey_for(const CostTable& table, bool memory, int ranks, int hosts = 1);
// What calls of such a group on device memory take: as survey_for(), among the surveys of groups that had a device.
std::optional<DeviceRates> device_rates_for(const CostTable& table, bool memory, int ranks, int hosts = 1);
// Steps of strategies of ranks that share memory, likewise, in a survey whose `ranks` say of how many: where so many
// were not measured, nor more and fewer of them, those of the group that is the most like.
std::optional<Survey> survey_of_steps_for(const CostTable& table, int ranks);
// Takes the place of the survey of the same kind, size and hosts, if there is one; groups that were never timed go by
// its rates.
void put_survey(CostTable& table, Survey survey);

// Where fitting begins: a machine of our time, neither fast nor slow.
CostTable usual_costs(int cores);

// JSON, one object per kind, keys as above. Throws Error(invalid_argument) that says what is wrong with the text.
std::string to_text(const CostTable& costs);
CostTable costs_from_text(const std::string& text);

// The same of speeds alone.
std::string to_text(const Speeds& speeds);
Speeds speeds_from_text(const std::string& text);

}  // namespace tutti::topology
