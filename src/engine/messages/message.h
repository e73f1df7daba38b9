// A message on its way, and what travels ahead of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/deadline.h"
#include "engine/call.h"
#include "engine/execute/operation.h"
#include "engine/messages/matching.h"
#include "transport/transport.h"
#include "tutti/work.h"

namespace tutti::engine {

struct Pending;

// The label of every message, so that its receiver knows what is coming before a byte of it has to go anywhere.
static_assert(sizeof(Statement) == transport::kLabelBytes && std::is_trivially_copyable_v<Statement>);

// What labels carry as their fingerprint; what follows on its own carries that of the statement.
inline constexpr std::uint64_t kLabelMark = 0x7475747469206d73ull;

// How the executor moves what a statement speaks of, on both ends alike.
struct Units {
  std::uint64_t count = 0;
  std::uint32_t bytes = 1;  // of each

  std::uint64_t all_bytes() const { return count * bytes; }
};
Units units_of(const Statement& statement);
// Whether the words of another process are those of a message between these ranks that any memory can hold.
bool is_sound(const Statement& statement, int from, int to);

// A send, a receive or a probe, from the call to its end. Lives in the memory of whoever waits for it.
struct Message : ReceivePattern {
  Message() = default;
  explicit Message(Call& the_call, Pending* the_owner = nullptr)
      : ReceivePattern{the_call.root, the_call.tag(), false}, call(&the_call), owner(the_owner) {}

  std::string describe() const;
  bool sends() const { return call->sends; }
  // Whether the caller's output is no longer what it was.
  bool touched_output() const {
    if (call->staging != nullptr) return call->staging->output_started();
    return touched || (!sends() && running != nullptr && running->touched_output());
  }

  Call* call = nullptr;
  bool ended = false;
  bool touched = false;                // a payload behind its label has begun to land in its output
  Pending* owner = nullptr;            // the async call that it is
  Received received;                   // once a receive or a probe has ended
  const Operation* running = nullptr;  // what moves its bytes, while and after it does
  Message* behind = nullptr;           // sends: the next one to the same rank
  std::uint64_t ended_at = 0;          // where it is recorded: when that was seen, in ticks of the recorder

  // Since when it has been waiting, for Mailbox::find_hopeless().
  struct Patience {
    bool moved = true;
    bool announced = false;
    Deadline deadline, announcement;
    Deadline crossing;  // a send that is stuck for so long is held against what its receiver is in
  } patience;
};

}  // namespace tutti::engine
