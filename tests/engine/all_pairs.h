// Messages between all pairs of ranks at once, both ways: each arrives whole, where it belongs and in order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "check.h"

namespace tutti::testing {

inline void exchange_between_all_pairs(Communicator& comm, std::span<const std::size_t> counts) {
  std::vector<std::vector<int>> sent, received;
  std::vector<Work> works;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    for (const std::size_t count : counts) {
      sent.emplace_back(count, comm.rank() * 1000 + peer);
      received.emplace_back(count, -1);
      works.push_back(comm.send_async(std::span(sent.back()).first(count), peer));
      works.push_back(comm.recv_async(std::span(received.back()).first(count), peer));
    }
  }
  for (Work& work : works) work.wait();
  std::size_t next = 0;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    for (const std::size_t count : counts) {
      require(received[next] == std::vector<int>(count, peer * 1000 + comm.rank()),
              "message from " + std::to_string(peer));
      ++next;
    }
  }
}

}  // namespace tutti::testing
