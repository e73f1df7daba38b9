// What a transport offers it offers on every edge, and on each what that edge has: checked pair by pair.
#include <gtest/gtest.h>

#include <cstring>

#include "transport/conformance.h"
#include "transport/talk.h"

namespace tutti::transport {
namespace {

using testing::await;
using testing::Kind;
using testing::require;
using testing::Talk;
using testing::text_of;

constexpr int kRanks = 4;

class Edges : public testing::Conformance {};

std::string words_of(int from, int to) { return " from " + std::to_string(from) + " to " + std::to_string(to); }

// Everybody is here, and knows it.
void meet(Transport& transport, Talk& talk) {
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != transport.rank()) talk.send(peer, "here");
  }
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != transport.rank()) require(talk.receive(peer, 4) == "here", "met");
  }
  talk.flush();
}

TEST_P(Edges, AreTheSameOnAllRanks) {
  run(kRanks, [](Transport& transport) {
    Talk talk(transport, 1);
    std::string mine;
    for (int to = 0; to < kRanks; ++to) {
      for (int from = 0; from < kRanks; ++from) {
        const EdgeOffers& edge = transport.offers().of(from, to);
        require(edge == transport.offers().of(to, from), "both ways alike");
        mine += std::to_string(edge.operands_in_slots * 4 + edge.windows_to_scratch * 2 + edge.single_copy) + " " +
                std::to_string(edge.slot_bytes) + "/" + std::to_string(edge.credits) + ";";
      }
    }
    mine.resize(512, ' ');
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != transport.rank()) talk.send(peer, mine);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != transport.rank()) require(talk.receive(peer, 512) == mine, "rank " + std::to_string(peer));
    }
    talk.flush();
  });
}

TEST_P(Edges, InsideAHostHaveWhatItsMemoryOffers) {
  run(kRanks, [](Transport& transport) {
    const bool memory = testing::facts_of(GetParam()).sharers == testing::Sharers::all;
    const bool mixed = testing::facts_of(GetParam()).sharers == testing::Sharers::of_two_hosts;
    for (int to = 0; to < kRanks; ++to) {
      const bool near = memory || (mixed && to % 2 == transport.rank() % 2);
      const EdgeOffers& edge = transport.offers().of(transport.rank(), to);
      require(edge.operands_in_slots == near && edge.windows_to_scratch == near && edge.single_copy == near,
              words_of(transport.rank(), to));
      require(edge.windows_to_user == memory, "symmetric memory is everybody's or nobody's");
    }
  });
}

// All send as much as may be sent ahead, of the largest messages, and only then begin to receive.
TEST_P(Edges, HaveAsManyCreditsAsOffered) {
  run(kRanks, [](Transport& transport) {
    Talk talk(transport, 0), orders(transport, 1);
    const int rank = transport.rank();
    for (int round = 0; round < 10; ++round) {
      for (int peer = 0; peer < kRanks; ++peer) {
        const EdgeOffers& edge = transport.offers().of(rank, peer);
        for (int m = 0; peer != rank && m < static_cast<int>(edge.credits); ++m) {
          require(transport.sender(0, peer).has_credit(), "credit" + words_of(rank, peer));
          require(talk.try_send(peer, text_of(edge.slot_bytes, m)), "a message is taken" + words_of(rank, peer));
        }
      }
      for (int peer = 0; peer < kRanks; ++peer) {
        const EdgeOffers& edge = transport.offers().of(peer, rank);
        for (int m = 0; peer != rank && m < static_cast<int>(edge.credits); ++m)
          require(talk.receive(peer, edge.slot_bytes) == text_of(edge.slot_bytes, m), "ahead" + words_of(peer, rank));
      }
      meet(transport, orders);  // who is told so has all its credits back
    }
    talk.flush();
  });
}

TEST_P(Edges, WithSlotsLetBothEndsWorkInTheMessage) {
  run(kRanks, [](Transport& transport) {
    const int rank = transport.rank();
    for (int peer = 0; peer < kRanks; ++peer) {
      const EdgeOffers& edge = transport.offers().of(rank, peer);
      if (peer == rank || !edge.operands_in_slots) continue;
      std::byte* slot = nullptr;
      await(transport, [&] { return (slot = transport.sender(0, peer).try_begin(edge.slot_bytes)) != nullptr; });
      std::memset(slot, rank + 1, edge.slot_bytes);
      transport.sender(0, peer).end(77);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      const EdgeOffers& edge = transport.offers().of(peer, rank);
      if (peer == rank || !edge.operands_in_slots) continue;
      const std::byte* slot = nullptr;
      std::uint64_t fingerprint = 0;
      await(transport,
            [&] { return (slot = transport.receiver(0, peer).try_begin(edge.slot_bytes, &fingerprint)) != nullptr; });
      require(fingerprint == 77 && slot[0] == std::byte(peer + 1) && slot[edge.slot_bytes - 1] == slot[0],
              "in the slot" + words_of(peer, rank));
      transport.receiver(0, peer).end();
    }
  });
}

// Larger than any slot; where it is not offered an exposed message is a message like others.
TEST_P(Edges, WithSingleCopyTakeMessagesOfAnySize) {
  run(kRanks, [](Transport& transport) {
    const int rank = transport.rank();
    const auto bytes_of = [&](int peer) {
      const EdgeOffers& edge = transport.offers().of(rank, peer);
      return edge.single_copy ? std::size_t{1} << 20 : edge.slot_bytes;
    };
    std::vector<std::string> sent(kRanks), received(kRanks);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      std::string& text = sent[static_cast<std::size_t>(peer)];
      text = text_of(bytes_of(peer), rank * kRanks + peer);
      await(transport,
            [&] { return transport.sender(0, peer).try_expose(testing::one_piece(text), text.size(), 5, {}); });
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      std::string& text = received[static_cast<std::size_t>(peer)];
      text.resize(bytes_of(peer));
      await(transport, [&] {
        return transport.receiver(0, peer).try_pull(testing::one_piece(text), text.size(), 5) == Arrival::whole;
      });
      require(text == text_of(text.size(), peer * kRanks + rank), "pulled" + words_of(peer, rank));
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) await(transport, [&] { return transport.sender(0, peer).try_flush(); });
    }
  });
}

TEST_P(Edges, OfMemoryShowFlagsAndScratchAndOthersNeither) {
  run(kRanks, [](Transport& transport) {
    Talk talk(transport, 0);
    const int rank = transport.rank();
    const auto word_of = [](int of) { return std::uint64_t{1} << 32 | static_cast<std::uint64_t>(of + 1); };
    transport.scratch(1, rank)[100] = std::byte(rank + 1);
    transport.flags(1, rank)->lanes[2].store(word_of(rank), std::memory_order_release);
    transport.notify_all();
    for (int peer = 0; peer < kRanks; ++peer) {
      const EdgeOffers& edge = transport.offers().of(rank, peer);
      const std::atomic<std::uint64_t>& lane = transport.flags(1, peer)->lanes[2];
      if (peer == rank || edge.operands_in_slots) {
        await(transport, [&] { return lane.load(std::memory_order_acquire) == word_of(peer); });
      } else {
        require(lane.load() == 0, "a lane of a rank elsewhere");
      }
      const std::byte* scratch = transport.scratch(1, peer);
      require((scratch != nullptr) == (peer == rank || edge.windows_to_scratch), "scratch" + words_of(rank, peer));
      if (scratch != nullptr) require(scratch[100] == std::byte(peer + 1), "what lies" + words_of(peer, rank));
    }
    meet(transport, talk);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Edges, testing::every_kind(), testing::kind_name);

}  // namespace
}  // namespace tutti::transport
