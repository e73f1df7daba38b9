#include "engine/call.h"

namespace tutti::engine {

std::string Call::describe() const {
  std::string text = std::string(name_of(verb)) + " " + std::to_string(sequence) + " of " + std::to_string(count) +
                     " " + std::string(name_of(type));
  if (verb == Verb::all_reduce) text += ", " + std::string(name_of(op));
  if (verb == Verb::broadcast) text += ", root " + std::to_string(root);
  if (verb == Verb::send_recv) text += (peer == root ? " from rank " : " to rank ") + std::to_string(peer);
  return text;
}

}  // namespace tutti::engine
