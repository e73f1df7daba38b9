#include "train/checksum.h"

#include <openssl/evp.h>

#include "tutti/error.h"

namespace tutti::train {
namespace {

EVP_MD_CTX* digest(const std::shared_ptr<void>& context) { return static_cast<EVP_MD_CTX*>(context.get()); }

void require_digest(bool good) {
  if (!good) throw Error(ErrorCode::system, "OpenSSL cannot compute SHA-256, which checkpoints are checked by");
}

}  // namespace

Sha256::Sha256()
    : context_(EVP_MD_CTX_new(), [](void* context) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }) {
  require_digest(context_ != nullptr && EVP_DigestInit_ex(digest(context_), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  require_digest(EVP_DigestUpdate(digest(context_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::take() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  require_digest(EVP_DigestFinal_ex(digest(context_), bytes, &count) == 1 &&
                 EVP_DigestInit_ex(digest(context_), EVP_sha256(), nullptr) == 1);
  constexpr char kHex[] = "0123456789abcdef";
  std::string words;
  for (unsigned int i = 0; i < count; ++i) (words += kHex[bytes[i] >> 4]) += kHex[bytes[i] & 15];
  return words;
}

std::string sha256_of(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.take();
}

}  // namespace tutti::train
