#include "engine/call.h"

#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

std::string words_of(Verb verb, std::uint64_t number, std::uint64_t count, DType type) {
  return std::string(name_of(verb)) + " #" + std::to_string(number) + " of " + std::to_string(count) + " " +
         std::string(name_of(type));
}

}  // namespace

std::string words_of(const Statement& statement) {
  const Verb verb = statement.verb();
  // Statements come from other processes.
  if (static_cast<std::size_t>(verb) >= kVerbs || static_cast<std::size_t>(statement.type()) >= kDTypes ||
      static_cast<std::size_t>(statement.op()) >= kReduceOps) {
    return "a call of an unknown kind";
  }
  std::string text = words_of(verb, statement.sequence - 1, statement.count, statement.type());
  const schedule::VerbFacts facts = schedule::facts_of(verb);
  if (facts.reduces) text += ", " + std::string(name_of(statement.op()));
  if (facts.rooted && verb != Verb::send_recv) text += ", root " + std::to_string(statement.root());
  if (verb == Verb::send_recv) {
    text += " from rank " + std::to_string(statement.root()) + " to rank " + std::to_string(statement.peer());
  }
  return text;
}

std::string Call::describe() const {
  if (!is_message()) return words_of(statement(-1));
  return words_of(verb, sequence, count, type) + (peer == root ? " from rank " : " to rank ") + std::to_string(peer);
}

}  // namespace tutti::engine
