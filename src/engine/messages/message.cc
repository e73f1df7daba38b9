#include "engine/messages/message.h"

namespace tutti::engine {

Units units_of(const Statement& statement) {
  if (statement.type() == Statement::kOwn) return {statement.count * statement.own_bytes(), 1};
  return {statement.count, static_cast<std::uint32_t>(size_of(static_cast<DType>(statement.type())))};
}

bool is_sound(const Statement& statement, int from, int to) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 56;
  const bool own = statement.type() == Statement::kOwn;
  if (statement.sequence == 0 || statement.verb() != Verb::send_recv) return false;
  if (statement.root() != from || statement.peer() != to) return false;
  if (own ? statement.own_bytes() == 0 : statement.type() >= kDTypes) return false;
  const std::uint64_t each = own ? statement.own_bytes() : size_of(static_cast<DType>(statement.type()));
  const bool tagged = statement.mark() != static_cast<std::uint32_t>(kAnyTag);
  return tagged && statement.count <= kMostBytes / each;
}

std::string Message::describe() const {
  if (!probe) return call->describe();
  return "probe for a message from " + (source == kAnySource ? "any rank" : "rank " + std::to_string(source)) +
         (tag == kAnyTag ? ", any tag" : ", tag " + std::to_string(tag));
}

}  // namespace tutti::engine
