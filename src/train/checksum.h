// SHA-256 in hexadecimal: what sha256sum prints.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tutti::train {

// Of bytes that come one after the other.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  // Of all that was added since the last call.
  std::string take();

 private:
  std::shared_ptr<void> context_;
};

std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace tutti::train
