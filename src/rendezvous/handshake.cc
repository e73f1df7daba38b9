#include "rendezvous/handshake.h"

#include <openssl/sha.h>

#include <algorithm>

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kMagic = "TUTTI/1\n";
constexpr std::uint32_t kUnused = 0;
constexpr std::string_view kServer = "tutti server";
constexpr std::string_view kClient = "tutti client";

enum Kind : std::uint8_t { kChallenge = 0xc1, kRefusal = 0xc2, kWelcome = 0xc3 };

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Sent in place of a proof to a server that could not prove itself: it learns that the tokens differ, and nothing else.
constexpr std::array<std::byte, kProofBytes> kNoProof{};

}  // namespace

JobHash job_hash(std::string_view job) {
  JobHash hash{};
  SHA256(reinterpret_cast<const unsigned char*>(job.data()), job.size(), reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

std::string_view in_words(Refusal refusal) {
  switch (refusal) {
    case Refusal::not_tutti: return "not a rank of Tutti";
    case Refusal::other_version: return "another version of Tutti";
    case Refusal::other_job: return "another job";
    case Refusal::wrong_token: return "wrong token";
    case Refusal::other_rank: return "asked for another rank";
    case Refusal::no_such_rank: return "a rank out of range";
    case Refusal::unexpected: return "a link that is not due";
    case Refusal::too_late: return "took too long to say who it is";
  }
  return "for an unknown reason";
}

HelloBytes encode(const Hello& hello) {
  Writer writer;
  writer.raw(bytes_of(kMagic)).u32(hello.version).u32(static_cast<std::uint32_t>(hello.purpose));
  writer.u32(hello.channel).u32(hello.from).u32(hello.to).u32(kUnused).raw(hello.job).raw(hello.nonce);
  HelloBytes bytes{};
  static_assert(kMagic.size() + 6 * sizeof(std::uint32_t) + sizeof(JobHash) + sizeof(Nonce) == kHelloBytes);
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) {
  Reader reader(bytes);
  if (!std::ranges::equal(reader.raw(kMagic.size()), bytes_of(kMagic))) return std::nullopt;
  Hello hello;
  hello.version = reader.u32();
  const std::uint32_t purpose = reader.u32();
  // What another version means by it is not for this one to judge.
  if (hello.version == kProtocolVersion && purpose > static_cast<std::uint32_t>(Purpose::call_back))
    return std::nullopt;
  hello.purpose = static_cast<Purpose>(purpose);
  hello.channel = reader.u32();
  hello.from = reader.u32();
  hello.to = reader.u32();
  if (reader.u32() != kUnused && hello.version == kProtocolVersion) return std::nullopt;
  std::ranges::copy(reader.raw(hello.job.size()), hello.job.begin());
  std::ranges::copy(reader.raw(hello.nonce.size()), hello.nonce.begin());
  return hello;
}

Bytes challenge_of(const Token& token, const HelloBytes& hello, const Nonce& nonce) {
  return Writer().u8(kChallenge).raw(nonce).raw(token.mac({bytes_of(kServer), hello, nonce})).bytes();
}

Bytes refusal_of(Refusal refusal) {
  return Writer().u8(kRefusal).u8(static_cast<std::uint8_t>(refusal)).u32(kProtocolVersion).bytes();
}

Bytes welcome() { return Writer().u8(kWelcome).bytes(); }

bool proves(std::span<const std::byte> proof, const Token& token, const HelloBytes& hello, const Nonce& nonce) {
  return equal_secrets(proof, token.mac({bytes_of(kClient), hello, nonce}));
}

// How long the frame is that has begun; 1 while its first byte is missing, 0 for a frame that cannot come here.
std::size_t ClientHandshake::wanted() const {
  if (length_ == 0) return 1;
  switch (std::to_integer<std::uint8_t>(kept_[0])) {
    case kChallenge: return challenged_ ? 0 : kChallengeBytes;
    case kRefusal: return kRefusalBytes;
    case kWelcome: return challenged_ ? kWelcomeBytes : 0;
    default: return 0;
  }
}

void ClientHandshake::refuse(Refusal why) {
  state_ = State::refused;
  refusal_ = why;
}

void ClientHandshake::take_frame(Bytes& answer) {
  Reader reader{std::span<const std::byte>(kept_).first(length_)};
  length_ = 0;
  const std::uint8_t kind = reader.u8();
  if (kind == kWelcome) {
    state_ = State::admitted;
  } else if (kind == kRefusal) {
    refuse(static_cast<Refusal>(reader.u8()));
    server_version_ = reader.u32();
  } else {
    challenged_ = true;
    const auto nonce = reader.raw(sizeof(Nonce));
    const auto mac = reader.raw(sizeof(Token::Mac));
    if (equal_secrets(mac, token_.mac({bytes_of(kServer), hello_, nonce}))) {
      const Token::Mac proof = token_.mac({bytes_of(kClient), hello_, nonce});
      answer.insert(answer.end(), proof.begin(), proof.end());
    } else {
      answer.insert(answer.end(), kNoProof.begin(), kNoProof.end());
      refuse(Refusal::wrong_token);
    }
  }
}

std::size_t ClientHandshake::receive(std::span<const std::byte> bytes, Bytes& answer) {
  std::size_t used = 0;
  while (state_ == State::going && used < bytes.size()) {
    kept_[length_++] = bytes[used++];
    const std::size_t whole = wanted();
    if (whole == 0) {
      refuse(Refusal::not_tutti);
    } else if (length_ == whole) {
      take_frame(answer);
    }
  }
  return used;
}

}  // namespace tutti::rendezvous
