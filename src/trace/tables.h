// The tables of a ring: names and communicators, of which events have numbers. As they lie in the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tutti::trace {

// A place in the table of names, which is a hash table with open addressing: it is looked through without a lock.
struct alignas(64) NameEntry {
  static constexpr std::uint32_t kFree = 0, kBegun = 1, kWhole = 2;
  static constexpr std::size_t kMostBytes = 58;  // longer ones are cut

  std::atomic<std::uint32_t> state;
  std::uint8_t length;
  char text[kMostBytes];

  std::string_view name() const { return {text, length < kMostBytes ? length : kMostBytes}; }
};
static_assert(sizeof(NameEntry) == 64);

struct CommunicatorEntry {
  static constexpr std::int32_t kAllRanks = -1;  // in the place of first_member: the ranks of the job as they are

  std::uint64_t id;
  std::int32_t size;
  std::int32_t first_member;  // in the table of members, which holds ranks of the job
};
static_assert(sizeof(CommunicatorEntry) == 16);

// Not in the middle of a character of UTF-8.
inline std::string_view cut_name(std::string_view name) {
  if (name.size() <= NameEntry::kMostBytes) return name;
  std::size_t length = NameEntry::kMostBytes;
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) --length;
  return name.substr(0, length);
}

inline std::uint32_t hash_of_name(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash ^ hash >> 15;
}

}  // namespace tutti::trace
