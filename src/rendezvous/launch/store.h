// A place outside of the job where rank 0 can leave a few words for the others before they are connected.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/deadline.h"

namespace tutti::rendezvous {

class Store {
 public:
  // Longer values are refused, so that no server can make a rank allocate what it likes.
  static constexpr std::size_t kMostValueBytes = std::size_t{1} << 16;

  virtual ~Store() = default;

  // Both return or throw Error by the deadline. When set() returns, the value is in the store.
  virtual void set(std::string_view key, std::string_view value, const Deadline& deadline) = 0;
  // Waits until somebody has set the key. Error(timeout) names it.
  virtual std::string get(std::string_view key, const Deadline& deadline) = 0;
  // Takes it out again, so that others may meet under the same key. Does nothing where the store's job ends with ours.
  virtual void remove(std::string_view key) { static_cast<void>(key); }
};

}  // namespace tutti::rendezvous
