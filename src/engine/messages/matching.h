// Which receive takes which message: pure, without transport, memory or time.
//
// Receives wait in the order they were posted. A message that comes to the head of its source's edge goes to the first
// of them that names its source (or any) and its tag (or any). One that none of them takes stays where it is, with its
// sender, until it is in the way: as soon as a receive wants something else from that source, it is an unexpected
// message, kept whole in memory of this rank, and what lies behind it can come. A new receive looks at unexpected
// messages first, in the order they came, then at the heads. So messages of one source and tag are received in the
// order sent; a receive from any source starts to look behind the source that served the last one, so that all sources
// have their turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/statement.h"
#include "tutti/request.h"

namespace tutti::engine {

inline std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }

// Messages of the library's own have tags that callers cannot name: the negative ones, but for kAnyTag.
inline constexpr int kMostLetterTag = 0x7ffffffe;
constexpr std::uint32_t letter_mark(int tag) { return 0x80000000u | static_cast<std::uint32_t>(tag); }
constexpr bool is_letter(int tag) { return tag < 0; }

// A receive, or a probe, which is answered by the message that a receive in its place would take, and leaves it there.
struct ReceivePattern {
  int source = kAnySource;
  int tag = kAnyTag;
  bool probe = false;

  bool takes(int from, int with_tag) const {
    return (source == kAnySource || source == from) && (tag == with_tag || (tag == kAnyTag && !is_letter(with_tag)));
  }
};

// A message as its sender announced it.
struct Envelope {
  int source = 0;
  Statement statement;

  int tag() const { return static_cast<int>(statement.mark()); }
};

// A message that came before a receive wanted it, kept in memory of this rank.
struct Unexpected : Envelope {
  std::unique_ptr<std::byte[]> bytes;
  bool whole = false;  // all of it has come
};

class Matching {
 public:
  // Where a message that is taken lies: at the head of its edge, or among the unexpected. Neither: there is none yet.
  struct Found {
    const Envelope* envelope = nullptr;
    std::unique_ptr<Unexpected> unexpected;  // empty for heads and for probes
  };

  explicit Matching(int ranks)
      : ranks_(ranks), wanted_(count(ranks)), heads_(count(ranks)), unexpected_(count(ranks)) {}

  // What takes a message now takes it; what does not waits from now on.
  Found post(ReceivePattern& wanted);
  // What was posted and has found nothing waits no more.
  void withdraw(ReceivePattern& wanted);
  // A new message: who takes it, and waits no more; nullptr where nobody does. A probe leaves it, so ask again then.
  ReceivePattern* find_taker(const Envelope& envelope);
  // Nobody took it: it is the head of its edge, and stays in its memory until it is taken or kept as unexpected.
  void hold(const Envelope& head) { heads_[index_of(head.source)] = &head; }
  // It is unexpected; if it was the head of its edge, it no longer is.
  void keep(std::unique_ptr<Unexpected> unexpected);

  // Whether something waits for messages of this source.
  bool listens(int source) const { return wanted_[index_of(source)] != 0 || any_ != 0; }
  bool listens_to_all() const { return any_ != 0; }
  // The head is nothing that anybody waits for, and somebody waits for what may lie behind it.
  bool in_the_way(int source) const { return heads_[index_of(source)] != nullptr && listens(source); }
  // Where a look at all sources should start.
  int first_source() const { return first_; }
  // In the order they were posted.
  std::span<ReceivePattern* const> waiting() const { return waiting_; }
  // The messages that are here for `wanted` to look at and that it does not take, in words; empty where there are none.
  std::string words_of_others(const ReceivePattern& wanted) const;
  void clear();

 private:
  static std::size_t count(int ranks) { return static_cast<std::size_t>(ranks); }
  Found find(const ReceivePattern& wanted, int source);
  int& listeners(const ReceivePattern& wanted) {
    return wanted.source == kAnySource ? any_ : wanted_[index_of(wanted.source)];
  }

  int ranks_;
  std::vector<ReceivePattern*> waiting_;
  std::vector<int> wanted_;  // how many name this source
  int any_ = 0;              // how many name none
  int first_ = 0;
  std::vector<const Envelope*> heads_;                               // by source
  std::vector<std::deque<std::unique_ptr<Unexpected>>> unexpected_;  // by source, in the order they came
};

}  // namespace tutti::engine
