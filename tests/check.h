// Checks that work inside a rank, be it a thread or a forked process: they throw, and the rank's end carries the words.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/init.h"
#include "tutti/local.h"

namespace tutti::testing {

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// What the call throws.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("the call succeeded");
}

inline void expect_all_ok(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].ok()) << "rank " << rank << ": exit " << ends[rank].exit_code << ", signal "
                                 << ends[rank].signal << ", " << ends[rank].message;
  }
}

// One was killed, whichever, and all others are well.
inline void expect_one_killed(const std::vector<RankEnd>& ends) {
  int killed = 0;
  for (const RankEnd& end : ends) {
    if (end.signal == SIGKILL) {
      ++killed;
    } else {
      EXPECT_TRUE(end.ok()) << end.message;
    }
  }
  EXPECT_EQ(killed, 1);
}

// Why ranks of this machine cannot have it, in words; empty where they can.
inline std::string why_missing(TransportKind kind) {
  Options options;
  options.transport = kind;
  try {
    static_cast<void>(run_threads(
        1, [](Communicator&) {}, options));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// All that a user can ask for.
inline std::vector<TransportKind> every_transport() {
  std::vector<TransportKind> kinds;
  for (std::size_t kind = 0; kind < kTransportKinds; ++kind) kinds.push_back(static_cast<TransportKind>(kind));
  return kinds;
}

// A reduction of vectors whose type is known at run time.
inline Request all_reduce_of(const void* input, void* output, std::size_t count, DType type, Op op = ReduceOp::sum) {
  return {.verb = Verb::all_reduce,
          .input = input,
          .output = output,
          .input_count = count,
          .output_count = count,
          .element = type,
          .op = std::move(op)};
}

// Threads and processes that share memory, and processes that only have TCP between them.
enum class Ranks { threads, processes, tcp, mixed };
inline constexpr Ranks kAllRanks[] = {Ranks::threads, Ranks::processes, Ranks::tcp};
inline constexpr Ranks kAlsoMixed[] = {Ranks::threads, Ranks::processes, Ranks::tcp, Ranks::mixed};

// Ranks as if on two hosts: they share memory there and have TCP across. By default 0, 1, 3, 4, 6 ... are on one.
inline std::vector<RankEnd> run_mixed(
    int ranks, const RankFunction& function, const Options& options,
    const std::function<bool(int rank)>& is_on_second = [](int rank) { return rank % 3 == 2; }) {
  static int groups = 0;
  const std::string place = "unix:@tutti-mixed-" + std::to_string(::getpid()) + "-" + std::to_string(groups++);
  return run_processes(ranks, [&](Communicator& outer) {
    const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
    set("TUTTI_RANK", std::to_string(outer.rank()));
    set("TUTTI_SIZE", std::to_string(outer.size()));
    set("TUTTI_RENDEZVOUS", place);
    set("TUTTI_JOB", place);
    set("TUTTI_HOSTID", is_on_second(outer.rank()) ? "two" : "one");
    set("TUTTI_LOG", "off");
    Communicator comm = init(options);
    function(comm);
  });
}

inline std::vector<RankEnd> run_ranks(Ranks kind, int ranks, const RankFunction& function, Options options = {}) {
  if (kind == Ranks::mixed) return run_mixed(ranks, function, options);
  if (kind == Ranks::tcp) options.transport = TransportKind::tcp;
  return kind == Ranks::threads ? run_threads(ranks, function, options) : run_processes(ranks, function, options);
}

// Ranks that meet with all patience; only the calls that follow have a short timeout.
struct Impatient {
  std::chrono::milliseconds timeout;
};
inline Impatient impatient(int ms) { return {std::chrono::milliseconds(ms)}; }
inline std::vector<RankEnd> run_ranks(Ranks kind, int ranks, const RankFunction& function, Impatient impatient) {
  return run_ranks(kind, ranks, [&](Communicator& comm) {
    comm.barrier();
    comm.set_timeout(impatient.timeout);
    function(comm);
  });
}

inline std::string name_of(Ranks kind) {
  constexpr const char* kNames[] = {"threads", "processes", "tcp", "mixed"};
  return kNames[static_cast<std::size_t>(kind)];
}
inline void PrintTo(Ranks kind, std::ostream* out) { *out << name_of(kind); }

// Tests of what all ranks bring to a good end.
class OverAllRanks : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(int ranks, const RankFunction& body) {
    Options options;
    options.timeout = std::chrono::milliseconds(20'000);
    expect_all_ok(run_ranks(GetParam(), ranks, body, options));
  }
};

}  // namespace tutti::testing
