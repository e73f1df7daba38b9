// The messages of one rank: sends queue per peer, receives wait until Matching gives them a message.
//
// On its edge every message has a statement as its label. Small ones are their label's payload; the bytes of others
// follow, moved by the program of send_recv. Each rank numbers its messages to a peer; the label carries the number. A
// message that no receive takes stays on its edge, its label read, so that its sender waits; what is in the way of a
// receive is unexpected, and kept in memory of this rank. Messages to oneself are always kept so, or go straight to the
// receive that waits.
//
// One thread at a time. Resumable, and free of allocation once it has had as many messages under way, but for what is
// kept as unexpected.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "choice/chooser.h"
#include "engine/execute/plans.h"
#include "engine/failures/diagnosis.h"
#include "engine/messages/matching.h"
#include "engine/messages/message.h"
#include "transport/transport.h"

namespace tutti::engine {

class Mailbox {
 public:
  Mailbox(transport::Transport& transport, Plans& plans, const choice::Chooser& chooser, int channel);

  // Whether a message of so many bytes travels behind its label, whatever memory it lies in.
  bool together(std::uint64_t bytes, int peer) const { return bytes <= most_together_[index_of(peer)]; }

  // The message must stay where it is until it has ended or clear() was called.
  void post(Message& message);
  // A probe that was posted waits no more.
  void withdraw(Message& probe) { matching_.withdraw(probe); }
  // Takes everything as far as it goes. Throws Error(system) where memory runs out.
  Advance advance();
  // What has ended since it was asked last.
  std::vector<Message*>& ended() { return ended_; }
  // Forgets everything under way.
  void clear();

  // Something has come that is no message: nothing moves any more.
  bool broken() const { return mismatched_peer_ >= 0; }
  // The first message for which waiting is in vain, or nullptr; diagnosis() says why. As Track::hopeless(). A receive
  // is judged while it is the first that waits for its source, as a queue's first call is.
  Message* find_hopeless();
  const Diagnosis& diagnosis() const { return diagnosis_; }
  // What the message waits for, also in words.
  Blocked blocked(const Message& message) const;
  std::string where(const Message& message) const;

  // Where the diagnosis is that the two ends of a message differ: what each of them called.
  struct Ends {
    Statement sender, receiver;
  };
  const Ends* differing_ends() const { return differing_ == nullptr ? nullptr : &ends_; }
  // What this rank said of a message to `peer`, if it was one of its last; sequence 0 else.
  Statement sent(int peer, std::uint64_t sequence) const;

 private:
  struct Outbound {
    explicit Outbound(transport::Transport& transport) : operation(transport) {}

    static constexpr std::size_t kRemembered = 80;  // more than an edge of slots holds unread

    int peer = 0;
    transport::Sender* sender = nullptr;
    Operation operation;
    Binding binding;  // the operation's
    Message *first = nullptr, *last = nullptr;
    bool label_sent = false;  // of the first
    std::uint64_t sequence = 0;
    std::array<Statement, kRemembered> said = {};
  };
  struct Inbound {
    explicit Inbound(transport::Transport& transport) : operation(transport) {}

    // listening: for the next label; held: nobody has taken the message yet; landing: its bytes are coming.
    enum class Stage : std::uint8_t { listening, held, landing };

    transport::Receiver* receiver = nullptr;
    Operation operation;
    Binding binding;  // the operation's
    Stage stage = Stage::listening;
    bool active = false;   // in active_
    bool cleared = false;  // something that was in the way has moved since find_hopeless() looked
    Envelope head;
    bool small = false;                   // it lies behind its label; else the operation moves it
    transport::Piece payload;             // landing: where a small one goes
    Message* receive = nullptr;           // landing: whose output it lands in, or is copied to once all of it has come
    Unexpected* unexpected = nullptr;     // landing: where it lands instead
    std::unique_ptr<Unexpected> claimed;  // the same, once a receive has taken it
  };

  Outbound& outbound(int peer);
  Inbound& inbound(int peer);
  void activate(Inbound& in);
  void start(Operation& operation, Binding& binding, const Call& call, const Statement& statement);
  void post_send(Message& message);
  void post_receive(Message& message);
  void send_to_self(Message& message);
  bool advance_send(Outbound& out);
  bool advance_receive(Inbound& in);
  bool listen(Inbound& in);
  Advance land(Inbound& in);
  void offer(Inbound& in);
  void deliver(Inbound& in, Message& receive);
  void deliver(const Unexpected& unexpected, Message& receive);
  bool agrees(Message& receive, const Envelope& envelope);
  void keep_unexpected(Inbound& in);
  void finish_landing(Inbound& in);
  void start_landing(Inbound& in, std::byte* output);
  bool advance_devices();
  void answer(Message& probe, const Envelope& envelope);
  void end(Message& message);
  void mismatch(int peer) { mismatched_peer_ = mismatched_peer_ < 0 ? peer : mismatched_peer_; }
  bool is_hopeless(Message& message);
  Message* find_hopeless_receive();
  bool all_departed(const Blocked& blocked) const;

  transport::Transport* transport_;
  Plans* plans_;
  const choice::Chooser* chooser_;
  int channel_, rank_, size_;
  std::vector<std::uint64_t> most_together_;  // bytes that travel behind their label, by peer
  Matching matching_;
  std::vector<std::unique_ptr<Outbound>> outbound_;  // by peer, made when first used
  std::vector<std::unique_ptr<Inbound>> inbound_;
  std::vector<Outbound*> sending_;  // those with messages
  std::vector<Inbound*> active_;    // those that are listened to, or land
  std::vector<Message*> ended_;
  // Where buffers lie on a device: sends to oneself that wait for theirs, in order, and receives whose message is on
  // its way into theirs.
  std::vector<Message*> fetching_, returning_;
  std::uint64_t to_self_ = 0;
  std::vector<std::uint8_t> judged_;  // by source, any first: find_hopeless_receive() has seen the first that waits
  // The first difference met: nothing moves afterwards.
  int mismatched_peer_ = -1;
  Message* differing_ = nullptr;
  Ends ends_;
  Diagnosis diagnosis_;
};

}  // namespace tutti::engine
