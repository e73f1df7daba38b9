// What only transports over memory offer: work in the slots, flags, windows and memory that all ranks see.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "check.h"
#include "transport/conformance.h"
#include "transport/memory/arena.h"
#include "transport/talk.h"

namespace tutti::transport {
namespace {

using testing::await;
using testing::Kind;
using testing::require;
using testing::run_transport;
using testing::soon;
using testing::text_of;

class MemoryConformance : public testing::Conformance {};

void send(Transport& transport, int channel, int peer, const std::string& text, std::uint64_t fingerprint) {
  std::byte* memory = nullptr;
  await(transport, [&] { return (memory = transport.sender(channel, peer).try_begin(text.size())) != nullptr; });
  std::memcpy(memory, text.data(), text.size());
  transport.sender(channel, peer).end(fingerprint);
}

std::string receive(Transport& transport, int channel, int peer, std::size_t bytes, std::uint64_t* fingerprint) {
  const std::byte* memory = nullptr;
  await(transport,
        [&] { return (memory = transport.receiver(channel, peer).try_begin(bytes, fingerprint)) != nullptr; });
  std::string text(reinterpret_cast<const char*>(memory), bytes);
  transport.receiver(channel, peer).end();
  return text;
}

TEST_P(MemoryConformance, SlotsArriveInOrderWhateverTheirSize) {
  run(3, [](Transport& transport) {
    const int right = (transport.rank() + 1) % 3, left = (transport.rank() + 2) % 3;
    const std::size_t sizes[] = {0, 1, 47, 64, 103, 104, 105, 1000, transport.offers().slot_bytes()};
    for (int round = 0; round < 200; ++round) {
      for (const std::size_t bytes : sizes) {
        send(transport, 0, right, text_of(bytes, round), static_cast<std::uint64_t>(round));
        std::uint64_t fingerprint = 0;
        require(receive(transport, 0, left, bytes, &fingerprint) == text_of(bytes, round),
                "payload of " + std::to_string(bytes));
        require(fingerprint == static_cast<std::uint64_t>(round), "fingerprint");
      }
    }
  });
}

// The largest messages as many as there are credits, the smallest many more; then the sender waits for its receiver.
TEST_P(MemoryConformance, ASenderRunsAheadAsFarAsThereIsRoom) {
  run(2, [](Transport& transport) {
    const std::size_t large = transport.offers().slot_bytes();
    for (const std::size_t bytes : {std::size_t{8}, large}) {
      std::uint64_t fingerprint = 0;
      const std::uint32_t least = bytes == 8 ? kHeaders : transport.offers().inside.credits;
      if (transport.rank() == 0) {
        std::uint32_t sent = 0;
        for (; transport.sender(0, 1).try_begin(bytes) != nullptr; ++sent) transport.sender(0, 1).end(sent);
        require(sent >= least && sent <= least + 1, std::to_string(sent) + " messages ahead");
        require(!transport.sender(0, 1).has_credit(), "and then none");
        send(transport, 1, 1, std::to_string(1000 + sent), 0);
        await(transport, [&] { return transport.sender(0, 1).try_begin(bytes) != nullptr; });
        receive(transport, 1, 1, 4, &fingerprint);
      } else {
        const int sent = std::stoi(receive(transport, 1, 0, 4, &fingerprint)) - 1000;
        for (int m = 0; m < sent; ++m) {
          receive(transport, 0, 0, bytes, &fingerprint);
          require(fingerprint == static_cast<std::uint64_t>(m), "in order");
        }
        send(transport, 1, 0, "done", 0);
      }
    }
  });
}

// Payloads of every length go around the end of the ring in one piece.
TEST_P(MemoryConformance, PayloadsGoAroundTheEndOfTheRing) {
  run(2, [](Transport& transport) {
    const std::size_t large = transport.offers().slot_bytes();
    std::uint64_t fingerprint = 0;
    for (std::size_t m = 0; m < 3000; ++m) {
      const std::size_t bytes = (m * 7919) % large + 1;
      const std::string text(bytes, static_cast<char>('a' + m % 26));
      if (transport.rank() == 0) {
        send(transport, 0, 1, text, m);
      } else {
        require(receive(transport, 0, 0, bytes, &fingerprint) == text && fingerprint == m,
                "message " + std::to_string(m));
      }
    }
  });
}

TEST_P(MemoryConformance, WhatIsExposedStaysUntilItWasCopied) {
  run(2, [](Transport& transport) {
    require(transport.offers().inside.single_copy, "ranks of one user on one host can read each other");
    constexpr std::size_t kBytes = 300'000;
    std::string text(kBytes, '-');
    std::vector<Piece> pieces;  // of uneven lengths
    for (std::size_t at = 0, bytes = 1000; at < kBytes; at += bytes, bytes = std::min(bytes * 7, kBytes - at))
      pieces.push_back({reinterpret_cast<std::byte*>(text.data()) + at, std::min(bytes, kBytes - at)});
    std::uint64_t fingerprint = 0;
    if (transport.rank() == 0) {
      for (std::size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>('a' + i % 23);
      require(transport.sender(0, 1).try_expose(pieces, kBytes, 7, {}), "exposed");
      require(!transport.sender(0, 1).try_flush(), "and not copied yet");
      send(transport, 1, 1, "go", 0);
      await(transport, [&] { return transport.sender(0, 1).try_flush(); });
      receive(transport, 1, 1, 4, &fingerprint);
    } else {
      receive(transport, 1, 0, 2, &fingerprint);
      const Piece whole{reinterpret_cast<std::byte*>(text.data()), kBytes};
      require(transport.receiver(0, 0).try_pull({&whole, 1}, kBytes, 8) == Arrival::other, "another call's");
      require(text == std::string(kBytes, '-'), "nothing has landed");
      require(transport.receiver(0, 0).try_pull({&whole, 1}, kBytes, 7) == Arrival::whole, "it is there");
      for (std::size_t i = 0; i < kBytes; ++i) require(text[i] == static_cast<char>('a' + i % 23), "byte");
      send(transport, 1, 0, "done", 0);
    }
  });
}

// Whoever gives up may free what it has exposed: others are to hear that it gave up, not that its memory is gone.
TEST_P(MemoryConformance, WhatARankHasExposedMayGoWhenItGivesUp) {
  run(2, [](Transport& transport) {
    std::uint64_t fingerprint = 0;
    auto* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
    const Piece gone{nowhere, 100'000};
    if (transport.rank() == 0) {
      require(transport.sender(0, 1).try_expose({&gone, 1}, gone.bytes, 7, {}), "exposed");
      transport.abort(-1, ErrorCode::timeout);
      send(transport, 1, 1, "go", 0);
      receive(transport, 1, 1, 4, &fingerprint);
    } else {
      receive(transport, 1, 0, 2, &fingerprint);
      std::string text(gone.bytes, '-');
      const Piece whole{reinterpret_cast<std::byte*>(text.data()), text.size()};
      require(transport.receiver(0, 0).try_pull({&whole, 1}, text.size(), 7) == Arrival::none, "nothing comes of it");
      send(transport, 1, 0, "done", 0);
    }
  });
}

TEST_P(MemoryConformance, WhatIsExposedOutOfSymmetricMemoryIsReadThroughAWindow) {
  run(2, [](Transport& transport) {
    constexpr std::size_t kBytes = 300'000, kBegin = 777;
    const auto memory = std::static_pointer_cast<std::byte>(transport.allocate(kBytes + kBegin, soon()));
    std::byte* const begin = memory.get() + kBegin;
    std::uint64_t fingerprint = 0;
    if (transport.rank() == 0) {
      for (std::size_t i = 0; i < kBytes; ++i) begin[i] = static_cast<std::byte>(i % 251);
      // No memory is at these addresses: only the reference says where the message lies.
      auto* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{4096});
      const std::vector<Piece> pieces{{nowhere, 1000}, {nowhere + 2000, kBytes - 2000}};
      const Located within{nowhere, transport.locate(begin, kBytes)};
      require(within.ref != 0, "it is symmetric");
      require(transport.sender(0, 1).try_expose(pieces, kBytes - 1000, 7, within), "exposed");
      await(transport, [&] { return transport.sender(0, 1).try_flush(); });
      receive(transport, 1, 1, 4, &fingerprint);
    } else {
      std::string text(kBytes - 1000, '-');
      const Piece whole{reinterpret_cast<std::byte*>(text.data()), text.size()};
      Receiver& receiver = transport.receiver(0, 0);
      await(transport, [&] { return receiver.try_pull({&whole, 1}, text.size(), 7) == Arrival::whole; });
      for (std::size_t i = 0; i < text.size(); ++i) {
        const std::size_t from = i < 1000 ? i : i + 1000;
        require(static_cast<unsigned char>(text[i]) == from % 251, "byte");
      }
      send(transport, 1, 0, "done", 0);
    }
  });
}

TEST_P(MemoryConformance, ChannelsDoNotDisturbEachOther) {
  run(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    std::uint64_t fingerprint = 0;
    // Channel 0 is full both ways; channel 1 still carries.
    while (transport.sender(0, peer).try_begin(8) != nullptr) transport.sender(0, peer).end(0);
    for (int round = 0; round < 50; ++round) {
      send(transport, 1, peer, "hello", 0);
      require(receive(transport, 1, peer, 5, &fingerprint) == "hello", "channel 1");
    }
  });
}

TEST_P(MemoryConformance, ASleeperMissesNoFlag) {
  // Each rank shows a number and sleeps until it has seen everybody's: a lost wake-up costs a whole sleep each round.
  run(4, [](Transport& transport) {
    for (std::uint64_t round = 1; round <= 500; ++round) {
      transport.flags(0, transport.rank())->entered.store(round, std::memory_order_release);
      transport.notify_all();
      for (int peer = 0; peer < transport.size(); ++peer) {
        await(transport, [&] { return transport.flags(0, peer)->entered.load(std::memory_order_acquire) >= round; });
      }
    }
  });
}

TEST_P(MemoryConformance, TwoSleepingThreadsOfARankWakeEachForItsOwn) {
  // Per rank one thread waits on channel 0 and another on channel 1, both on the same bell.
  run(2, [](Transport& transport) {
    std::string words[2];
    std::vector<std::thread> threads;
    for (int channel = 0; channel < 2; ++channel) {
      threads.emplace_back([&, channel] {
        try {
          std::uint64_t fingerprint = 0;
          for (int round = 0; round < 2000; ++round) {
            send(transport, channel, 1 - transport.rank(), "ping", 0);
            receive(transport, channel, 1 - transport.rank(), 4, &fingerprint);
          }
        } catch (const std::exception& error) {
          words[channel] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& word : words) require(word.empty(), word);
  });
}

TEST_P(MemoryConformance, ScratchIsSeenByAll) {
  run(3, [](Transport& transport) {
    const std::size_t bytes = transport.offers().scratch_bytes;
    std::memset(transport.scratch(0, transport.rank()), 'A' + transport.rank(), bytes);
    transport.flags(0, transport.rank())->entered.store(1, std::memory_order_release);
    transport.notify_all();
    for (int peer = 0; peer < 3; ++peer) {
      await(transport, [&] { return transport.flags(0, peer)->entered.load(std::memory_order_acquire) == 1; });
      const auto* seen = reinterpret_cast<const char*>(transport.scratch(0, peer));
      require(seen[0] == 'A' + peer && seen[bytes - 1] == 'A' + peer, "scratch of rank " + std::to_string(peer));
    }
  });
}

TEST_P(MemoryConformance, SymmetricMemoryIsKnownByAddressAndReached) {
  run(3, [](Transport& transport) {
    require(!transport.has_allocations(), "nothing allocated yet");
    int ordinary = 0;
    const auto first = transport.allocate(1000, soon());
    const auto second = transport.allocate(64, soon());
    require(transport.locate(&ordinary, 4) == 0, "ordinary memory");
    auto* mine = static_cast<char*>(second.get());
    require(transport.locate(mine + 60, 4) != 0 && transport.locate(mine + 60, 5) == 0, "the end of an allocation");
    mine[5] = static_cast<char>('A' + transport.rank());
    const MemoryRef place = transport.locate(mine + 5, 1);
    transport.flags(0, transport.rank())->input.store(place, std::memory_order_relaxed);
    transport.flags(0, transport.rank())->entered.store(1, std::memory_order_release);
    transport.notify_all();
    for (int peer = 0; peer < 3; ++peer) {
      await(transport, [&] { return transport.flags(0, peer)->entered.load(std::memory_order_acquire) == 1; });
      const MemoryRef theirs = transport.flags(0, peer)->input.load(std::memory_order_relaxed);
      require(*reinterpret_cast<char*>(transport.window(peer, theirs)) == 'A' + peer,
              "window onto rank " + std::to_string(peer));
    }
  });
}

TEST_P(MemoryConformance, DroppedSymmetricMemoryIsGivenBack) {
  run(2, [](Transport& transport) {
    for (int round = 0; round < 300; ++round) {
      const auto memory = transport.allocate(1 << 20, soon());
      std::memset(memory.get(), round, 1 << 20);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, MemoryConformance, ::testing::Values(Kind::threads, Kind::shm),
                         testing::kind_name);

// A child that a rank forks has copies of its handles; the rank's own are as they were.
TEST(ShmTransport, AForkedChildDropsNoSymmetricMemory) {
  const auto words = run_transport(Kind::shm, 2, [](Transport& transport) {
    std::shared_ptr<void> memory = transport.allocate(1000, soon());
    if (transport.rank() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        memory.reset();
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    } else {
      memory.reset();
    }
    const auto swept = transport.allocate(8, soon());  // what all ranks have dropped is known no more
    if (transport.rank() == 0) require(transport.locate(memory.get(), 1000) != 0, "this rank has dropped nothing");
  });
  for (const auto& word : words) EXPECT_EQ(word, "");
}

TEST(ShmTransport, AnEndedPeerIsNoticedUnlessItLeftInGoodOrder) {
  const auto words = run_transport(Kind::shm, 3, [](Transport& transport) {
    if (transport.rank() == 1) ::_exit(0);  // ends without leaving the group
    if (transport.rank() == 2) return;      // leaves in good order
    std::optional<Failure> failure;
    // Nobody rings for the dead: whoever waits looks again now and then.
    for (const Deadline deadline = soon(); !(failure = transport.failure()) && !deadline.passed();) {
      transport.sleep(transport.prepare_sleep(), std::chrono::milliseconds(20));
    }
    require(failure.has_value(), "the end of rank 1 was never noticed");
    require(failure->rank == 1 && failure->died, "rank 1 is the one that died");
  });
  EXPECT_EQ(words[0], "");
}

// Every mapping of ours, as the kernel knows it: owner's eyes only, and it can neither shrink nor grow.
TEST(ShmTransport, SharedMemoryIsSealedAndPrivateToTheUser) {
  const auto words = run_transport(Kind::shm, 2, [](Transport& transport) {
    const auto memory = transport.allocate(10'000, soon());
    std::ifstream maps("/proc/self/maps");
    int seen = 0;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:tutti") == std::string::npos) continue;
      const std::string range = line.substr(0, line.find(' '));
      const FileDescriptor file(::open(("/proc/self/map_files/" + range).c_str(), O_RDWR));
      if (!file.valid()) return;  // only a privileged user may look
      struct stat facts {};
      require(::fstat(file.get(), &facts) == 0 && (facts.st_mode & 0777) == 0600, "mode 0600");
      const int seals = ::fcntl(file.get(), F_GET_SEALS);
      require((seals & F_SEAL_SHRINK) != 0 && (seals & F_SEAL_GROW) != 0 && (seals & F_SEAL_SEAL) != 0, "sealed");
      require(::ftruncate(file.get(), 4096) != 0, "a peer cannot shrink it");
      ++seen;
    }
    require(seen == 3, "the head, the arena and the allocation, not " + std::to_string(seen));
  });
  EXPECT_EQ(words, (std::vector<std::string>{"", ""}));
}

TEST(ShmTransport, RanksThatAskForDifferentMemoryAreTold) {
  const auto words = run_transport(Kind::shm, 2, [](Transport& transport) {
    try {
      transport.allocate(transport.rank() == 0 ? 100'000 : 200'000, soon());
      require(transport.rank() == 0, "rank 1 got memory of another size");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::mismatch && error.peer() == 0, error.what());
    }
  });
  EXPECT_EQ(words, (std::vector<std::string>{"", ""}));
}

}  // namespace
}  // namespace tutti::transport
