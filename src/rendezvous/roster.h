// Who takes part, and what follows from it: which ranks share memory, which links there are, and what cannot work.
//
// All of it is plain data and pure functions, so every rank draws the same conclusions from the same roster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/handshake.h"
#include "rendezvous/network.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::rendezvous {

// What a rank is known by.
struct Member {
  std::string host;     // name for people
  std::string host_id;  // equal for ranks that can share memory: boot id, network and process namespaces, user
  Endpoint endpoint;    // where it listens for TCP links; empty where it needs none
  Endpoint memory;      // where it listens for memory links, on its host
  int pid = 0;
  std::vector<std::uint64_t> cores = {};  // that it may run on, a bit each
  int package = -1, cache = -1;           // that hold all of them, equal for ranks of a host that share it; -1: none

  bool operator==(const Member&) const = default;
};

// The name of a setting, with its =, that differs between builds which would run different programs for a call.
inline const std::string kBuild = "build=";

// What a rank tells the lobby.
struct Join {
  int size = 1;
  TransportKind wanted = TransportKind::automatic;
  int channels = 1;
  Member member;
  // What else all ranks must have alike, each as NAME=value; the same names in the same order everywhere.
  std::vector<std::string> settings;
};

// What the lobby tells every rank once all have joined.
struct Roster {
  TransportKind wanted = TransportKind::automatic;
  int channels = 1;
  std::vector<Member> members;   // by rank
  std::optional<Token> session;  // for all links that follow, where the ranks brought no token of their own
};

// Why a meeting failed, in words that are the same on every rank.
struct Verdict {
  ErrorCode code = ErrorCode::system;
  int peer = -1;  // the rank that caused it
  std::string text;

  [[noreturn]] void raise() const { throw Error(code, text, peer); }
};

struct Link {
  Purpose purpose = Purpose::control;
  int peer = 0;
  std::uint32_t channel = 0;
  bool connects = false;  // this rank connects; otherwise the peer does
};

// Host facts as one word, and the part of it that ranks must share for loopback to lead from one to the other.
std::string make_host_id(const std::string& boot, const std::string& network, const std::string& processes, long user);
std::string network_of(const std::string& host_id);
// The id of a process that can share memory with nobody, and why; and of one that is to share it only with those who
// name their part of the host alike (TUTTI_HOSTID).
std::string alone_on_host(const std::string& host_id, int rank, const std::string& why);
std::string on_part_of_host(const std::string& host_id, const std::string& part);
// Why two processes of one machine share no memory, in words; empty where they do, or run on different machines.
std::string why_apart(const std::string& one_id, const std::string& other_id);

bool share_memory(const Roster& roster, int a, int b);
// The ranks that `rank` shares memory with, itself included, ascending.
std::vector<int> memory_ranks(const Roster& roster, int rank);
// Every link of the meeting that ends at `rank`. Control links join neighbours (overlay.h); where all ranks share
// memory there are none. Data links are made later (linker.h).
std::vector<Link> links_of(const Roster& roster, int rank);
// What makes these ranks unable to work together, if anything does.
std::optional<Verdict> judge(const std::vector<Join>& joins);

// "rank 3 (pid 17 on node7)"
std::string in_words(int rank, const Member& member);
// "60 s", "1.5 s"
std::string in_words(Time duration);

// What members and lobby say to each other.
enum class Word : std::uint8_t { greeting = 1, join, roster, ready, go, verdict };
inline constexpr std::size_t kMostFromMember = std::size_t{32} << 10;
// A roster is little more than what its ranks have said of themselves.
constexpr std::size_t most_from_lobby(int size) { return kMostFromMember * (static_cast<std::size_t>(size) + 1); }

Bytes greeting_frame(int keeper);
Bytes frame_of(const Join& join);
Bytes frame_of(const Roster& roster);
Bytes frame_of(const Verdict& verdict);
Bytes frame_of(Word word);
// Nothing where a field is missing or cannot be: sizes, numbers that stand for names, endpoints, letters. Ranks are -1
// or more; how many there are is for the reader to know.
std::optional<int> decode_greeting(const Frame& frame);
std::optional<Join> decode_join(const Frame& frame);
std::optional<Roster> decode_roster(const Frame& frame);
std::optional<Verdict> decode_verdict(const Frame& frame);

}  // namespace tutti::rendezvous
