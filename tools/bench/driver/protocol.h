// What `tutti bench` and the ranks that it measures say to each other: lines of words over a UNIX socket.
//
//   a rank                                  the bench
//   hello 1 Open MPI 4.1.4             -->
//                                      <--  prepare 0 all_reduce float32 sum 0 1024 apart ordinary 1 -
//   ready | cannot REASON              -->
//                                      <--  check 0
//   checked WRONG_ELEMENTS ALGORITHM   -->  and a third word from who expects a call to take so many microseconds
//                                      <--  time 0 CALLS WARM_UP_CALLS
//   took SECONDS_PER_CALL              -->
//   failed REASON                      -->  instead of any answer; the rank ends
//
// The number behind the command is a slot: a rank holds several cells prepared, each with buffers of its own, and is
// told to run now one, now another.
//
// A rank sleeps in a read until it is told something, so that ranks which are not measured use no core. It ends when
// the other side hangs up. Needs nothing of Tutti's but this header and tutti/types.h: drivers of other libraries
// include it, too.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.h"

namespace tutti::bench {

// Variables that the ranks are started with.
inline constexpr const char* kSocketVariable = "TUTTI_BENCH_SOCKET";  // where the bench listens
inline constexpr const char* kRankVariable = "TUTTI_BENCH_RANK";      // unless the library's launcher gives ranks
inline constexpr const char* kRanksVariable = "TUTTI_BENCH_RANKS";    //
inline constexpr const char* kCoresVariable = "TUTTI_BENCH_CORES";    // rank r runs on the r-th (mod their number)
inline constexpr const char* kBytesVariable = "TUTTI_BENCH_BYTES";    // the most memory that a rank will use
inline constexpr const char* kInterfaceVariable = "TUTTI_BENCH_INTERFACE";  // over which ranks reach each other
inline constexpr const char* kMemoryVariable = "TUTTI_BENCH_MEMORY";  // where buffers lie: host, device or devices
inline constexpr const char* kDirectoryVariable = "TUTTI_BENCH_DIRECTORY";  // for files by which ranks meet

// One thing to measure.
struct Cell {
  Verb verb = Verb::all_reduce;
  DType type = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::uint64_t count = 0;  // elements of the vector, or of one chunk
  bool in_place = false;
  bool symmetric = false;    // memory that all ranks reach
  std::uint32_t copies = 1;  // of the buffers, used in turn
  std::string algorithm;     // empty = chosen by the library
  bool operator==(const Cell&) const = default;
};

template <class Enum, std::size_t kNumber>
std::optional<Enum> enum_named(std::string_view name) {
  for (std::size_t i = 0; i < kNumber; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}
inline std::optional<Verb> verb_named(std::string_view name) { return enum_named<Verb, kVerbs>(name); }
inline std::optional<DType> type_named(std::string_view name) { return enum_named<DType, kDTypes>(name); }
inline std::optional<ReduceOp> op_named(std::string_view name) { return enum_named<ReduceOp, kReduceOps>(name); }

inline std::string text_of(const Cell& cell) {
  std::ostringstream text;
  text << name_of(cell.verb) << ' ' << name_of(cell.type) << ' ' << name_of(cell.op) << ' ' << cell.root << ' '
       << cell.count << ' ' << (cell.in_place ? "in_place" : "apart") << ' '
       << (cell.symmetric ? "symmetric" : "ordinary") << ' ' << cell.copies << ' '
       << (cell.algorithm.empty() ? "-" : cell.algorithm);
  return text.str();
}

inline Cell cell_of(const std::string& text) {
  std::istringstream words(text);
  std::string verb, type, op, place, memory;
  Cell cell;
  words >> verb >> type >> op >> cell.root >> cell.count >> place >> memory >> cell.copies >> cell.algorithm;
  const auto found_verb = verb_named(verb);
  const auto found_type = type_named(type);
  const auto found_op = op_named(op);
  if (!words || !found_verb || !found_type || !found_op || cell.copies == 0) {
    throw std::runtime_error("not a cell: " + text);
  }
  cell.verb = *found_verb;
  cell.type = *found_type;
  cell.op = *found_op;
  cell.in_place = place == "in_place";
  cell.symmetric = memory == "symmetric";
  if (cell.algorithm == "-") cell.algorithm.clear();
  return cell;
}

// A rank's end of the socket. Not copied.
class Lines {
 public:
  explicit Lines(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw std::runtime_error("the path of the bench's socket is too long");
    std::memcpy(address.sun_path, path.data(), path.size());
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot reach the bench at " + path + ": " + std::strerror(errno));
    }
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() { ::close(descriptor_); }

  // False when the other side has hung up.
  bool read(std::string& line) {
    for (;;) {
      if (const std::size_t end = inbox_.find('\n'); end != std::string::npos) {
        line = inbox_.substr(0, end);
        inbox_.erase(0, end + 1);
        return true;
      }
      char piece[512];
      const ssize_t got = ::read(descriptor_, piece, sizeof piece);
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      if (got > 0) inbox_.append(piece, static_cast<std::size_t>(got));
    }
  }

  void write(std::string line) {
    for (char& letter : line) letter = letter == '\n' ? ' ' : letter;
    line += '\n';
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t sent = ::send(descriptor_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;  // it has hung up, and the next read will say so
      if (sent > 0) done += static_cast<std::size_t>(sent);
    }
  }

 private:
  int descriptor_;
  std::string inbox_;
};

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

inline int number_in(const char* name) {
  const std::string text = variable(name);
  if (text.empty()) throw std::runtime_error(std::string(name) + " is not set; this program is started by tutti bench");
  return std::stoi(text);
}

// To be called first of all: pins the rank (so that threads of its library inherit it), and lets it end with whoever
// has started it.
inline void take_place(int rank) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<int> cores;
  std::istringstream words(variable(kCoresVariable));
  for (std::string word; std::getline(words, word, ',');) cores.push_back(std::stoi(word));
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[static_cast<std::size_t>(rank) % cores.size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

}  // namespace tutti::bench
