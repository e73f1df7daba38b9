#include "rendezvous/token.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t kDigits = 2 * Token::kBytes;

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

// Digits on the stack that are wiped when they go.
struct Digits {
  char text[kDigits + 2] = {};
  ~Digits() { OPENSSL_cleanse(text, sizeof text); }
};

[[noreturn]] void throw_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "the token file '" + path + "' " + why);
}

void require_private(int file, const std::string& path) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) throw_errno("the token file '" + path + "'");
  if (!S_ISREG(facts.st_mode)) throw_file(path, "is no regular file; make one with `tutti token`");
  if (facts.st_uid != ::geteuid()) {
    throw_file(path, "belongs to another user (uid " + std::to_string(facts.st_uid) +
                         "); it must be your own: copy it, then `chmod 600` the copy");
  }
  if ((facts.st_mode & 077) != 0) throw_file(path, "is open to other users; run `chmod 600 " + path + "`");
}

}  // namespace

Token::~Token() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Token Token::random() {
  Token token;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(token.bytes_.data()), kBytes) != 1)
    throw Error(ErrorCode::system, "the system gave no random bits for a token");
  return token;
}

Token Token::from_bytes(std::span<const std::byte, kBytes> bytes) {
  Token token;
  std::copy(bytes.begin(), bytes.end(), token.bytes_.begin());
  return token;
}

Token Token::from_hex(std::string_view digits) {
  Token token;
  bool good = digits.size() == kDigits;
  for (std::size_t i = 0; good && i < kBytes; ++i) {
    const int high = value_of(digits[2 * i]);
    const int low = value_of(digits[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) token.bytes_[i] = static_cast<std::byte>(high * 16 + low);
  }
  // The digits are a secret even where they are wrong.
  if (!good)
    throw Error(ErrorCode::invalid_argument,
                "a token must be 64 hexadecimal digits and this one is not; `tutti token` makes one");
  return token;
}

Token Token::read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    const int number = errno;
    throw_file(path, "cannot be read: " + std::string(std::strerror(number)) +
                         "; make one with `tutti token`, and set TUTTI_TOKEN_FILE to it on every host");
  }
  require_private(file.get(), path);
  Digits digits;
  std::size_t length = 0;
  while (length < sizeof digits.text) {
    const ssize_t got = ::read(file.get(), digits.text + length, sizeof digits.text - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("reading the token file '" + path + "'");
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  if (length == kDigits + 1 && digits.text[kDigits] == '\n') --length;
  try {
    return from_hex(std::string_view(digits.text, length));
  } catch (const Error&) {
    throw_file(path, "does not hold 64 hexadecimal digits and nothing else; make it anew with `tutti token`");
  }
}

void Token::write_file(const std::string& path) const {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    if (errno == EEXIST) throw_file(path, "exists already; remove it or name another one");
    throw_errno("making the token file '" + path + "'");
  }
  std::string digits = hex() + "\n";
  const ssize_t written = ::write(file.get(), digits.data(), digits.size());
  const bool whole = written == static_cast<ssize_t>(digits.size());
  OPENSSL_cleanse(digits.data(), digits.size());
  if (whole) return;
  const int number = written < 0 ? errno : ENOSPC;
  ::unlink(path.c_str());
  errno = number;
  throw_errno("writing the token file '" + path + "'");
}

std::string Token::hex() const {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  digits.reserve(kDigits + 1);  // no copy of it is left behind by growing
  for (const std::byte byte : bytes_) {
    digits += kHex[std::to_integer<std::size_t>(byte >> 4)];
    digits += kHex[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return digits;
}

Token::Mac Token::mac(std::initializer_list<std::span<const std::byte>> parts) const {
  std::vector<unsigned char> all;
  for (const auto part : parts) {
    const auto* first = reinterpret_cast<const unsigned char*>(part.data());
    all.insert(all.end(), first, first + part.size());
  }
  Mac mac{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), bytes_.data(), kBytes, all.data(), all.size(), reinterpret_cast<unsigned char*>(mac.data()),
           &length) == nullptr ||
      length != mac.size()) {
    throw Error(ErrorCode::system, "OpenSSL cannot compute HMAC-SHA256 here");
  }
  return mac;
}

bool equal_secrets(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::rendezvous
