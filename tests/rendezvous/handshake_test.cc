// The handshake and the gate against honest clients, thieves of proofs, and noise.
#include "rendezvous/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "rendezvous/gate.h"
#include "rendezvous/recorder.h"
#include "rendezvous/roster.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const Token& token() {
  static const Token kToken = Token::from_hex(std::string(64, '7'));
  return kToken;
}

Hello hello_of_rank(std::uint32_t from) {
  Hello hello;
  hello.purpose = Purpose::data;
  hello.channel = 3;
  hello.from = from;
  hello.to = 1;
  hello.job = job_hash("job");
  hello.nonce.fill(std::byte{9});
  return hello;
}

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    gate.open({token(), job_hash("job"), 1, [](const Hello& hello) {
                 return hello.from < 4 ? std::nullopt : std::optional(Refusal::no_such_rank);
               }});
  }

  // Plays an honest client to its end, `piece` bytes at a time.
  ClientHandshake::State play(ClientHandshake client, ConnectionId id, std::size_t piece = 1000) {
    gate.accepted(id, "somewhere", Time(0));
    Bytes to_gate(client.hello().begin(), client.hello().end());
    for (std::size_t read = 0; client.state() == ClientHandshake::State::going;) {
      for (std::size_t at = 0; at < to_gate.size() && gate.holds(id); at += piece) {
        const auto part = std::span(to_gate).subspan(at, std::min(piece, to_gate.size() - at));
        if (const auto hello = gate.received(id, part)) admitted = *hello;
      }
      to_gate.clear();
      const Bytes& sent = network.sent[id];
      if (read == sent.size()) break;
      const std::size_t some = std::min(piece, sent.size() - read);
      EXPECT_EQ(client.receive(std::span(sent).subspan(read, some), to_gate), some);
      read += some;
    }
    refusal = client.refusal();
    return client.state();
  }

  Recorder network;
  Gate gate{network, 8};
  std::optional<Hello> admitted;
  Refusal refusal{};
  ConnectionId last_id = 100;
};

TEST_F(GateTest, AdmitsWhoeverHoldsTheToken) {
  for (const std::size_t piece : {1, 2, 31, 64, 1000}) {
    EXPECT_EQ(play(ClientHandshake(token(), hello_of_rank(3)), piece, piece), ClientHandshake::State::admitted);
    ASSERT_TRUE(admitted);
    EXPECT_EQ(encode(*admitted), encode(hello_of_rank(3)));
    admitted.reset();
  }
  EXPECT_EQ(gate.refusals(), "");
}

TEST_F(GateTest, SaysWhyItRefuses) {
  const auto refused = [&](auto change, const Token& with = token()) {
    const ConnectionId id = ++last_id;
    Hello hello = hello_of_rank(3);
    change(hello);
    EXPECT_EQ(play(ClientHandshake(with, hello), id), ClientHandshake::State::refused);
    EXPECT_FALSE(admitted);
    EXPECT_TRUE(network.closed.contains(id) || gate.holds(id));
    return refusal;
  };
  EXPECT_EQ(refused([](Hello& hello) { hello.version = kProtocolVersion + 1; }), Refusal::other_version);
  EXPECT_EQ(refused([](Hello& hello) { hello.job = job_hash("another"); }), Refusal::other_job);
  EXPECT_EQ(refused([](Hello& hello) { hello.to = 2; }), Refusal::other_rank);
  EXPECT_EQ(refused([](Hello& hello) { hello.from = 4; }), Refusal::no_such_rank);
  EXPECT_EQ(refused([](Hello&) {}, Token::random()), Refusal::wrong_token);
  EXPECT_THAT(gate.refusals(), HasSubstr("connections were refused, the last from somewhere: a rank out of range"))
      << "the last one ends by itself";
}

// A client with another token knows at once; the gate learns it from what the client sends instead of a proof.
TEST_F(GateTest, NoticesThatTheTokensDiffer) {
  ClientHandshake client(Token::random(), hello_of_rank(2));
  gate.accepted(1, "10.0.0.7:99", Time(0));
  gate.received(1, client.hello());
  Bytes proof;
  client.receive(network.sent[1], proof);
  EXPECT_FALSE(gate.received(1, proof));
  EXPECT_TRUE(network.closed.contains(1));
  EXPECT_EQ(gate.refusals(), "1 connection was refused, from 10.0.0.7:99: wrong token");
}

// A proof made for one connection opens no other, whatever differs.
TEST_F(GateTest, AProofFitsOneHelloAndOneChallenge) {
  const Hello honest = hello_of_rank(3);
  const auto prove = [&](const Hello& claimed, const Hello& proved, const Nonce& nonce) {
    const HelloBytes as_claimed = encode(claimed), as_proved = encode(proved);
    ClientHandshake thief(token(), proved);
    Bytes proof;
    thief.receive(challenge_of(token(), as_proved, nonce), proof);
    return proves(proof, token(), as_claimed, nonce);
  };
  Nonce nonce{}, another{};
  another[31] = std::byte{1};
  EXPECT_TRUE(prove(honest, honest, nonce));
  std::vector<Hello> others(6, honest);
  others[0].purpose = Purpose::control;
  others[1].channel = 4;
  others[2].from = 2;
  others[3].to = 2;
  others[4].job = job_hash("another");
  others[5].nonce[0] = std::byte{1};
  for (const Hello& other : others) EXPECT_FALSE(prove(other, honest, nonce));
  // The server's own mac is no proof either.
  const Bytes challenge = challenge_of(token(), encode(honest), nonce);
  EXPECT_FALSE(proves(std::span(challenge).last(32), token(), encode(honest), nonce));
  // Nor is a proof for another challenge.
  ClientHandshake client(token(), honest);
  Bytes proof;
  client.receive(challenge_of(token(), encode(honest), another), proof);
  EXPECT_FALSE(proves(proof, token(), encode(honest), nonce));
}

TEST_F(GateTest, AClientGivesNoProofToAServerWithoutTheToken) {
  ClientHandshake client(token(), hello_of_rank(3));
  Bytes answer;
  client.receive(challenge_of(Token::random(), client.hello(), Nonce{}), answer);
  EXPECT_EQ(client.state(), ClientHandshake::State::refused);
  EXPECT_EQ(client.refusal(), Refusal::wrong_token);
  EXPECT_EQ(answer, Bytes(kProofBytes)) << "zeros";
}

TEST_F(GateTest, AClientKnowsWhatIsNotTutti) {
  for (const std::string_view words : {"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 400 Bad Request\r\n", "\xc3"}) {
    ClientHandshake client(token(), hello_of_rank(3));
    Bytes answer;
    client.receive(std::as_bytes(std::span(words)), answer);
    EXPECT_EQ(client.state(), ClientHandshake::State::refused) << words;
    EXPECT_EQ(client.refusal(), Refusal::not_tutti);
  }
}

TEST_F(GateTest, NoiseIsBoundedInBytesTimeAndNumber) {
  gate.accepted(1, "loud", Time(0));
  gate.received(1, Bytes(kHelloBytes + 1));
  EXPECT_TRUE(network.closed.contains(1));
  EXPECT_THAT(gate.refusals(), HasSubstr("loud: not a rank of Tutti"));

  gate.accepted(2, "slow", seconds(1));
  gate.received(2, Bytes(kHelloBytes - 1));
  EXPECT_EQ(gate.next_tick(), seconds(2)) << "the first one's time; it has left";
  gate.tick(seconds(2));
  EXPECT_TRUE(gate.holds(2));
  gate.tick(seconds(3));
  EXPECT_TRUE(network.closed.contains(2));
  EXPECT_EQ(gate.next_tick(), kNever);

  for (ConnectionId id = 10; id < 19; ++id) gate.accepted(id, "many", seconds(4));
  EXPECT_TRUE(network.closed.contains(10)) << "the oldest gives way";
  EXPECT_TRUE(gate.holds(11));
  EXPECT_TRUE(gate.holds(18));
}

// Those that said all of their hello are sent away last, whether there are too many or descriptors run short.
TEST_F(GateTest, ACrowdOfTheSilentKeepsNobodyOut) {
  const ClientHandshake client(token(), hello_of_rank(3));
  gate.accepted(1, "rank", Time(0));
  gate.received(1, client.hello());
  for (ConnectionId id = 10; id < 100; ++id) gate.accepted(id, "silent", Time(0));
  EXPECT_TRUE(gate.holds(1));
  EXPECT_TRUE(network.sent[10].empty()) << "who said nothing is told nothing, and keeps no descriptor while it closes";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gate.make_room());
  EXPECT_TRUE(gate.holds(1));
  EXPECT_TRUE(gate.make_room()) << "in the end it goes, too";
  EXPECT_FALSE(gate.holds(1));
  EXPECT_FALSE(gate.make_room());
}

// Whatever comes, nobody gets in and nothing breaks.
TEST_F(GateTest, RandomBytesAreRefused) {
  std::mt19937_64 random(3);
  for (ConnectionId id = 1; id < 3000; ++id) {
    gate.accepted(id, "noise", Time(0));
    Bytes noise(random() % 150);
    network.random(noise);
    const HelloBytes good = encode(hello_of_rank(3));
    if (random() % 2 == 0) std::copy_n(good.begin(), std::min(noise.size(), good.size()), noise.begin());
    EXPECT_FALSE(gate.received(id, noise));
    if (!gate.holds(id)) continue;
    Bytes proof(kProofBytes);
    network.random(proof);
    EXPECT_FALSE(gate.received(id, proof));
    gate.closed(id);
  }
}

TEST(Frames, NoiseBreaksThemButNothingElse) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    Bytes noise(random() % 300);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    if (noise.size() > 4 && round % 2 == 0) noise[1] = noise[2] = noise[3] = std::byte{0};
    FrameReader reader(256);
    reader.add(noise);
    while (reader.next()) {
    }
    Frame frame{static_cast<std::uint8_t>(1 + random() % 6), noise};
    decode_greeting(frame);
    decode_join(frame);
    decode_roster(frame);
    decode_verdict(frame);
  }
  FrameReader reader(256);
  reader.add(frame_of(9, Writer().raw(Bytes(257))));
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
}

}  // namespace
}  // namespace tutti::rendezvous
