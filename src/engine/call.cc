#include "engine/call.h"

#include <cstdio>

#include "engine/messages/matching.h"
#include "schedule/verbs.h"
#include "tutti/request.h"

namespace tutti::engine {

std::string words_of(const Statement& statement) {
  const Verb verb = statement.verb();
  // The one collective that is not counted, because it comes before the first.
  if (statement.sequence == 0 && verb == Verb::broadcast) return "the agreement on a table of costs";
  const bool own_type = statement.type() == Statement::kOwn, own_op = statement.op() == Statement::kOwn;
  // Statements come from other processes.
  if (static_cast<std::size_t>(verb) >= kVerbs || (!own_type && statement.type() >= kDTypes) ||
      (!own_op && statement.op() >= kReduceOps)) {
    return "a call of an unknown kind";
  }
  if (statement.allocates()) {
    return "allocate #" + std::to_string(statement.sequence - 1) + " of " + std::to_string(statement.count) + " bytes";
  }
  const schedule::VerbFacts& facts = schedule::facts_of(verb);
  std::string text = std::string(name_of(verb)) + (statement.uneven() ? "_v" : "");
  if (statement.sequence != 0) text += " #" + std::to_string(statement.sequence - 1);
  if (!schedule::moves_data(verb)) return text;
  text += " of ";
  if (statement.up_to()) text += "up to ";
  if (!statement.uneven() || facts.all_know_counts) text += std::to_string(statement.count) + " ";
  text += own_type ? "elements of " + std::to_string(statement.own_bytes()) + " bytes"
                   : std::string(name_of(static_cast<DType>(statement.type())));
  if (facts.reduces) {
    text += ", " + (own_op ? "an operator of its own" : std::string(name_of(static_cast<ReduceOp>(statement.op()))));
  }
  if (verb != Verb::send_recv && statement.mark() != 0) {
    // What it stands for is not told: only that it differs.
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", statement.mark());
    text += std::string(statement.uneven() ? " (counts " : " (fingerprint ") + digits + ")";
  }
  if (verb == Verb::send_recv) {
    const bool any_source = statement.root() == Statement::kAnyRank;
    const bool any_tag = statement.mark() == static_cast<std::uint32_t>(kAnyTag);
    text += any_source ? " from any rank" : " from rank " + std::to_string(statement.root());
    text += " to rank " + std::to_string(statement.peer());
    const std::string tag = std::to_string(statement.mark() & 0x7fffffff);
    if (is_letter(static_cast<int>(statement.mark())) && !any_tag) {
      text += ", of create_group with tag " + tag;
    } else if (statement.mark() != 0) {
      text += any_tag ? ", any tag" : ", tag " + tag;
    }
  } else if (facts.rooted) {
    text += ", root " + std::to_string(statement.root());
  }
  return text;
}

}  // namespace tutti::engine
