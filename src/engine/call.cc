#include "engine/call.h"

namespace tutti::engine {

std::uint64_t Call::fingerprint() const {
  const auto mix = [](std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ (hash >> 29);
  };
  const std::uint64_t kinds = static_cast<std::uint64_t>(verb) | static_cast<std::uint64_t>(type) << 8 |
                              static_cast<std::uint64_t>(op) << 16 |
                              static_cast<std::uint64_t>(static_cast<std::uint32_t>(root)) << 24;
  return mix(mix(0x7475747469ull, kinds), count);
}

std::string Call::describe() const {
  std::string text = std::string(name_of(verb)) + " of " + std::to_string(count) + " " + std::string(name_of(type));
  if (verb == Verb::all_reduce) text += ", " + std::string(name_of(op));
  if (verb == Verb::broadcast) text += ", root " + std::to_string(root);
  if (verb == Verb::send_recv) text += (peer == root ? " from rank " : " to rank ") + std::to_string(peer);
  return text;
}

}  // namespace tutti::engine
