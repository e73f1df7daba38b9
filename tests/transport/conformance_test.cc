// The transport contract, checked on every transport: messages, sleeping, and what ranks say of themselves.
#include "transport/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"
#include "effort.h"
#include "transport/talk.h"

namespace tutti::transport {
namespace {

using testing::await;
using testing::Conformance;
using testing::cut;
using testing::require;
using testing::soon;
using testing::Talk;
using testing::text_of;
using tutti::testing::tries;

TEST_P(Conformance, MessagesArriveInOrderWhateverTheirSize) {
  run(3, [](Transport& transport) {
    Talk talk(transport, 0);
    const int right = (transport.rank() + 1) % 3, left = (transport.rank() + 2) % 3;
    // Around what is special to someone: the payload inside a slot's line, a frame, a buffer read ahead with it.
    std::vector<std::size_t> sizes{0, 1, 15, 16, 17, 47, 48, 49, 64, 1000, 4096};
    for (const std::size_t bytes : {(16 << 10) - 17, (16 << 10) - 16, 16 << 10, (16 << 10) + 1}) sizes.push_back(bytes);
    sizes.push_back(transport.offers().slot_bytes() - 1);
    sizes.push_back(transport.offers().slot_bytes());
    for (int round = 0; round < static_cast<int>(tries(40)); ++round) {
      for (const std::size_t bytes : sizes) {
        if (bytes > transport.offers().slot_bytes()) continue;
        const auto fingerprint = static_cast<std::uint64_t>(round);
        talk.send(right, text_of(bytes, round), fingerprint);
        require(talk.receive(left, bytes, fingerprint) == text_of(bytes, round), "payload of " + std::to_string(bytes));
      }
    }
    talk.flush();
  });
}

TEST_P(Conformance, ManyMegabytesGoInMessages) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    const std::size_t bytes = transport.offers().slot_bytes();
    const int messages = static_cast<int>((tries(24) << 20) / bytes);
    for (int m = 0; m < messages; ++m) {
      if (transport.rank() == 0) talk.send(1, text_of(bytes, m), static_cast<std::uint64_t>(m));
      if (transport.rank() == 1) {
        require(talk.receive(0, bytes, static_cast<std::uint64_t>(m)) == text_of(bytes, m),
                "message " + std::to_string(m));
      }
    }
    talk.flush();
  });
}

TEST_P(Conformance, MessagesAreGatheredAndScattered) {
  run(2, [](Transport& transport) {
    const std::size_t largest = transport.offers().slot_bytes();
    const std::vector<std::vector<std::size_t>> cuts{
        {1000000}, {1, 0, 3}, {7, 64, 4096}, {largest / 200, 0, 1}, {5000}};
    std::uint64_t number = 0;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{500}, std::size_t{20'000}, largest}) {
      for (const auto& sent : cuts) {
        for (const auto& landed : cuts) {
          if (bytes == largest && (sent[0] == 1 || landed[0] == 1)) continue;  // so many pieces take their time
          ++number;
          if (transport.rank() == 0) {
            std::string text = text_of(bytes, static_cast<int>(number));
            await(transport, [&] { return transport.sender(0, 1).try_send(cut(text, sent), bytes, number); });
            await(transport, [&] { return transport.sender(0, 1).try_flush(); });
          } else {
            std::string text(bytes, '-');
            const auto pieces = cut(text, landed);
            await(transport,
                  [&] { return transport.receiver(0, 0).try_receive(pieces, bytes, number) == Arrival::whole; });
            require(text == text_of(bytes, static_cast<int>(number)), "message " + std::to_string(number));
          }
        }
      }
    }
  });
}

// A label is seen, as often as one likes, before its payload goes anywhere; then comes the next message.
TEST_P(Conformance, LabelsAreSeenBeforeTheirPayload) {
  run(2, [](Transport& transport) {
    const std::size_t largest = transport.offers().slot_bytes() - kLabelBytes;
    std::vector<std::size_t> sizes{0, 1, 71, 72, 73, 500, 5000, (64 << 10) - 48, (64 << 10) + 100, largest};
    std::erase_if(sizes, [&](std::size_t bytes) { return bytes > largest; });
    constexpr std::uint64_t kMark = 77;
    for (int round = 0; round < 10; ++round) {
      for (const std::size_t bytes : sizes) {
        Label label{};
        std::memcpy(label.data(), &bytes, sizeof bytes);
        std::string text = transport.rank() == 0 ? text_of(bytes, round) : std::string(bytes, '-');
        const Piece payload{reinterpret_cast<std::byte*>(text.data()), bytes};
        if (transport.rank() == 0) {
          await(transport, [&] { return transport.sender(0, 1).try_send_labelled(label, payload, kMark); });
          await(transport, [&] { return transport.sender(0, 1).try_flush(); });
          continue;
        }
        Receiver& receiver = transport.receiver(0, 0);
        Label seen;
        await(transport, [&] { return receiver.try_label(seen, kMark) == Arrival::whole; });
        require(receiver.try_label(seen, kMark + 1) == Arrival::other, "another call's label");
        require(receiver.try_label(seen, kMark) == Arrival::whole && seen == label, "the label, again");
        require(text == std::string(bytes, '-'), "nothing has landed");
        await(transport, [&] { return receiver.try_receive_labelled(payload) == Arrival::whole; });
        require(text == text_of(bytes, round), "payload of " + std::to_string(bytes));
      }
    }
  });
}

TEST_P(Conformance, SentMemoryIsFreeAtOnce) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    const std::size_t bytes = transport.offers().slot_bytes();
    for (int m = 0; m < 20; ++m) {
      if (transport.rank() == 0) {
        std::string text = text_of(bytes, m);
        const std::vector<Piece> pieces = testing::one_piece(text);
        await(transport, [&] { return transport.sender(0, 1).try_send(pieces, bytes, 0); });
        std::ranges::fill(text, '!');
        await(transport, [&] { return transport.sender(0, 1).try_flush(); });
      } else {
        require(talk.receive(0, bytes) == text_of(bytes, m), "message " + std::to_string(m));
      }
    }
  });
}

TEST_P(Conformance, AMessageOfAnotherCallLandsNowhereAndStays) {
  run(2, [](Transport& transport) {
    Talk talk(transport, 0);
    const std::size_t bytes = transport.offers().slot_bytes();
    if (transport.rank() == 0) {
      talk.send(1, text_of(bytes, 1), 1);
      talk.send(1, "next", 3);
      talk.flush();
      return;
    }
    Receiver& receiver = transport.receiver(0, 0);
    std::string text(bytes, '-');
    await(transport, [&] { return receiver.ready(); });
    for (int look = 0; look < 3; ++look) require(talk.try_receive(0, text, 2) == Arrival::other, "another fingerprint");
    if (!transport.offers().of(0, 1).operands_in_slots) {  // slots hold no size: there the fingerprint speaks for it
      std::string shorter(bytes - 1, '-');
      require(talk.try_receive(0, shorter, 1) == Arrival::other, "another size");
      require(shorter == std::string(bytes - 1, '-'), "nothing has landed");
    }
    require(text == std::string(bytes, '-'), "nothing has landed");
    require(talk.receive(0, bytes, 1) == text_of(bytes, 1), "the message is still there");
    require(talk.receive(0, 4, 3) == "next", "and so is the next");
  });
}

TEST_P(Conformance, ASenderWithoutCreditGoesOnWhenThePeerReads) {
  run(2, [](Transport& transport) {
    Talk data(transport, 0), orders(transport, 1);
    const std::size_t bytes = transport.offers().of(0, 1).slot_bytes;
    if (transport.rank() == 0) {
      int sent = 0;
      while (data.try_send(1, text_of(bytes, sent))) ++sent;
      require(!transport.sender(0, 1).has_credit(), "no credit after " + std::to_string(sent));
      require(transport.offers().of(0, 1).operands_in_slots || !transport.sender(0, 1).try_flush(),
              "something is left");
      orders.send(1, std::to_string(100'000 + sent));
      data.send(1, text_of(bytes, sent));  // waits until the peer has read something
      data.flush();
      require(orders.receive(1, 4) == "done", "all arrived");
    } else {
      const int sent = std::stoi(orders.receive(0, 6)) - 100'000;
      for (int m = 0; m <= sent; ++m)
        require(data.receive(0, bytes) == text_of(bytes, m), "message " + std::to_string(m));
      orders.send(0, "done");
      orders.flush();
    }
  });
}

TEST_P(Conformance, ChannelsDoNotDisturbEachOther) {
  run(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    const std::size_t bytes = transport.offers().slot_bytes();
    Talk full(transport, 0), talk(transport, 1);
    // Channel 0 is full both ways; channel 1 still carries.
    while (full.try_send(peer, text_of(bytes, 0))) {
    }
    for (int round = 0; round < static_cast<int>(tries(50)); ++round) {
      talk.send(peer, text_of(bytes, round));
      require(talk.receive(peer, bytes) == text_of(bytes, round), "channel 1");
    }
    talk.flush();
  });
}

TEST_P(Conformance, ASleeperMissesNoMessage) {
  // Everybody tells everybody a number and sleeps until it has heard all: a lost wake-up costs a whole sleep.
  run(4, [](Transport& transport) {
    Talk talk(transport, 0);
    for (std::uint64_t round = 1; round <= 300; ++round) {
      for (int peer = 0; peer < 4; ++peer) {
        if (peer != transport.rank()) talk.send(peer, "tick", round);
      }
      for (int peer = 0; peer < 4; ++peer) {
        if (peer != transport.rank()) talk.receive(peer, 4, round);
      }
    }
    talk.flush();
  });
}

TEST_P(Conformance, TwoSleepingThreadsOfARankWakeEachForItsOwn) {
  // Per rank one thread waits on channel 0 and another on channel 1, both where this rank sleeps.
  run(2, [](Transport& transport) {
    std::string words[2];
    std::vector<std::thread> threads;
    for (int channel = 0; channel < 2; ++channel) {
      threads.emplace_back([&, channel] {
        try {
          Talk talk(transport, channel);
          for (int round = 0; round < 2000; ++round) {
            talk.send(1 - transport.rank(), "ping");
            talk.receive(1 - transport.rank(), 4);
          }
          talk.flush();
        } catch (const std::exception& error) {
          words[channel] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& word : words) require(word.empty(), word);
  });
}

TEST_P(Conformance, ASleeperIsWokenByItsOwnRank) {
  run(2, [](Transport& transport) {
    std::atomic<int> posted{0}, seen{0};
    std::string complaint;
    std::thread sleeper([&] {
      try {
        for (int round = 1; round <= 300; ++round) {
          await(transport, [&] { return posted.load() >= round; });
          seen.store(round);
          transport.notify_self();
        }
      } catch (const std::exception& error) {
        complaint = error.what();
      }
    });
    std::string words;
    try {
      for (int round = 1; round <= 300; ++round) {
        posted.store(round);
        transport.notify_self();
        await(transport, [&] { return seen.load() >= round; });
      }
    } catch (const std::exception& error) {
      words = error.what();
      posted.store(300);
      transport.notify_self();
    }
    sleeper.join();
    require(words.empty() && complaint.empty(), words + complaint);
  });
}

TEST_P(Conformance, MessagesThatNobodyReadsLetSleepersSleep) {
  run(2, [](Transport& transport) {
    Talk unread(transport, 0), talk(transport, 1);
    if (transport.rank() == 0) {
      unread.send(1, "unread");
      unread.flush();
      talk.send(1, "go");
      talk.flush();
      talk.receive(1, 4);
      return;
    }
    talk.receive(0, 2);
    await(transport, [&] { return transport.receiver(0, 0).ready(); });
    int woken = 0;
    for (const Deadline deadline = Deadline::after(std::chrono::milliseconds(200)); !deadline.passed(); ++woken) {
      transport.sleep(transport.prepare_sleep(), deadline.left());
    }
    require(woken < 20, "woken " + std::to_string(woken) + " times for nothing new");
    talk.send(0, "done");
    talk.flush();
  });
}

TEST_P(Conformance, PeersSeeWhatARankSaysOfItsCall) {
  run(3, [](Transport& transport) {
    for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
      const auto statement_of = [&](int rank) {
        return Statement{sequence, static_cast<std::uint64_t>(rank) + 7, sequence * 1000};
      };
      for (int channel = 0; channel < 2; ++channel) {
        state(*transport.flags(channel, transport.rank()), statement_of(transport.rank()));
        transport.notify_all();
        transport.announce(channel);
        for (int peer = 0; peer < 3; ++peer) {
          Flags* flags = transport.flags(channel, peer);
          await(transport, [&] { return stated(*flags).sequence >= sequence; });
          const Statement seen = stated(*flags);
          require(seen.sequence != sequence || seen == statement_of(peer),
                  "what rank " + std::to_string(peer) + " says");
        }
      }
    }
  });
}

TEST_P(Conformance, MemoryOfOnesOwnIsZeroedAndAligned) {
  run(2, [](Transport& transport) {
    const std::size_t scratch_bytes = transport.offers().scratch_bytes;
    for (int channel = 0; channel < 2; ++channel) {
      std::byte* scratch = transport.scratch(channel, transport.rank());
      require(reinterpret_cast<std::uintptr_t>(scratch) % 64 == 0, "scratch is aligned");
      std::memset(scratch, channel + 1, scratch_bytes);
    }
    require(transport.scratch(0, transport.rank())[scratch_bytes - 1] == std::byte{1}, "each channel has its own");
    const std::shared_ptr<void> memory = transport.allocate(1000, soon());
    const auto* bytes = static_cast<const std::byte*>(memory.get());
    require(reinterpret_cast<std::uintptr_t>(bytes) % 64 == 0, "memory is aligned");
    require(std::all_of(bytes, bytes + 1000, [](std::byte b) { return b == std::byte{0}; }), "memory is zeroed");
    const bool shared = transport.offers().of(0, 1).windows_to_user;
    require(transport.has_allocations() == shared && (transport.locate(bytes, 8) != 0) == shared, "known to peers");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, testing::every_kind(), testing::kind_name);

}  // namespace
}  // namespace tutti::transport
