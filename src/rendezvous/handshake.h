// How two ends of a connection prove to each other that they hold the same token, without sending it.
//
//   client: Hello     what the connection is for, and a random number
//   server: Challenge its own random number, and a MAC over ("server", hello, number)
//   client: Proof     a MAC over ("client", hello, number)
//   server: Welcome
//
// Instead of Challenge or Welcome the server may send a Refusal, which says why. All frames have fixed sizes. Each MAC
// covers the whole hello, so it is bound to job, ranks, purpose and channel and fits no other connection.
// Neither end sends anything behind its own frame before it has the other's next one; only after Welcome may the server
// go on at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rendezvous/token.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

// Goes up with every change of what ranks say to each other: frames, records, and the programs of algorithms that were
// there before (tests/golden/golden_test.cc). What algorithms there are the ranks compare when they meet.
inline constexpr std::uint32_t kProtocolVersion = 11;
inline constexpr std::uint32_t kLobby = 0xffffffff;  // in the place of a rank

enum class Purpose : std::uint8_t {
  lobby,
  control,
  data,
  memory,
  call_back,  // no more than to ask the server to dial the client, for a data link
};
// Whether the linker takes it (linker.h), at any time after the meeting.
constexpr bool is_for_linker(Purpose purpose) { return purpose == Purpose::data || purpose == Purpose::call_back; }

using Nonce = std::array<std::byte, 32>;
using JobHash = std::array<std::byte, 32>;

JobHash job_hash(std::string_view job);

struct Hello {
  std::uint32_t version = kProtocolVersion;
  Purpose purpose = Purpose::lobby;
  std::uint32_t channel = 0;
  std::uint32_t from = 0;
  std::uint32_t to = kLobby;
  JobHash job{};
  Nonce nonce{};
};

// Why a server sends somebody away. Values travel: never renumber.
enum class Refusal : std::uint8_t {
  not_tutti = 1,
  other_version = 2,
  other_job = 3,
  wrong_token = 4,
  other_rank = 5,    // asked for a rank that is not here
  no_such_rank = 6,  // the client's own number is out of range
  unexpected = 8,    // no such link is due between the two
  too_late = 9,      // took longer than it may, or too many others came
};

std::string_view in_words(Refusal refusal);

// The same in all versions, so that each can tell another for what it is.
inline constexpr std::size_t kHelloBytes = 96;
inline constexpr std::size_t kChallengeBytes = 1 + 32 + 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kRefusalBytes = 1 + 1 + 4;
inline constexpr std::size_t kWelcomeBytes = 1;
using HelloBytes = std::array<std::byte, kHelloBytes>;

HelloBytes encode(const Hello& hello);
// Nothing if it is not Tutti's at all. The version has to be looked at before anything else in it.
std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);

Bytes challenge_of(const Token& token, const HelloBytes& hello, const Nonce& nonce);
Bytes refusal_of(Refusal refusal);
Bytes welcome();
bool proves(std::span<const std::byte> proof, const Token& token, const HelloBytes& hello, const Nonce& nonce);

class ClientHandshake {
 public:
  enum class State : unsigned char { going, admitted, refused };

  ClientHandshake(const Token& token, const Hello& hello) : token_(token), hello_(encode(hello)) {}

  const HelloBytes& hello() const { return hello_; }
  // Takes what came and returns how many bytes of it belong to the handshake; what is to be sent lands in `answer`.
  std::size_t receive(std::span<const std::byte> bytes, Bytes& answer);
  State state() const { return state_; }
  // Where refused: by the server, or by us because the server cannot be trusted.
  Refusal refusal() const { return refusal_; }
  std::uint32_t server_version() const { return server_version_; }

 private:
  std::size_t wanted() const;
  void take_frame(Bytes& answer);
  void refuse(Refusal why);

  Token token_;
  HelloBytes hello_;
  std::array<std::byte, kChallengeBytes> kept_{};
  std::size_t length_ = 0;
  bool challenged_ = false;
  State state_ = State::going;
  Refusal refusal_ = Refusal::not_tutti;
  std::uint32_t server_version_ = kProtocolVersion;
};

}  // namespace tutti::rendezvous
