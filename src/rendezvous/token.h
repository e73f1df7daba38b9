// The job's secret: 256 random bits that every rank of a job holds and that no stranger knows.
//
// It never travels: ends prove to each other that they hold it (handshake.h). It never appears in an error or a log,
// and its memory is wiped when it goes. A value.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tutti::rendezvous {

class Token {
 public:
  static constexpr std::size_t kBytes = 32;
  using Mac = std::array<std::byte, 32>;  // HMAC-SHA256

  static Token random();
  // All bits zero: where the kernel vouches for the other end and the handshake only has to agree on names.
  static Token zero() { return Token(); }
  static Token from_bytes(std::span<const std::byte, kBytes> bytes);
  // 64 hexadecimal digits; throws Error(invalid_argument) otherwise.
  static Token from_hex(std::string_view digits);
  // A regular file of this user, closed to group and others, that holds the digits. Throws Error with the remedy.
  static Token read_file(const std::string& path);

  Token(const Token&) = default;
  Token& operator=(const Token&) = default;
  ~Token();

  // Makes the file with mode 0600; throws Error if it exists or cannot be written.
  void write_file(const std::string& path) const;
  std::string hex() const;
  std::span<const std::byte, kBytes> bytes() const { return bytes_; }

  Mac mac(std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  Token() = default;

  std::array<std::byte, kBytes> bytes_{};
};

// In a time that does not depend on where they differ.
bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace tutti::rendezvous
