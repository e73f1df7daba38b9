// Ranks as forked processes that meet over real sockets; their checks throw, and the words come back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rendezvous/forked_group.h"
#include "rendezvous/meeting.h"

namespace tutti::rendezvous {

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// An abstract name of its own for every test and process.
Endpoint fresh_unix_endpoint();
// A port of the given host ("127.0.0.1", "::1") on which nobody listens now.
Endpoint fresh_tcp_endpoint(const std::string& host);

MeetingOptions options_for(int rank, int size, const Endpoint& lobby);

// Forks `size` ranks; each calls `change` on its options, meets (rank 0 keeps the lobby) and calls `then`.
std::vector<ChildEnd> meet_forked(int size, const Endpoint& lobby, const std::function<void(MeetingOptions&)>& change,
                                  const std::function<void(Met&)>& then);

void expect_all_ok(const std::vector<ChildEnd>& ends);
struct DataLink {
  FileDescriptor socket;
  std::vector<std::byte> first = {};  // what has come on it already
};
// With all ranks that share no memory with this one, [rank][channel]; returns when all of them stand.
std::vector<std::vector<DataLink>> link_everywhere(Met& met, int channels);
// Writes through every data and memory link to its other end and reads what that wrote.
void exchange_everywhere(Met& met, int channels = 1);
void exchange_everywhere(Met& met, const std::vector<std::vector<DataLink>>& links);

}  // namespace tutti::rendezvous
