// PyTorch's store as the core asks for one.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tutti/tutti.h"

namespace tutti::pytorch {

class StoreFunctions {
 public:
  explicit StoreFunctions(c10::intrusive_ptr<c10d::Store> store);
  StoreFunctions(const StoreFunctions&) = delete;
  StoreFunctions& operator=(const StoreFunctions&) = delete;

  // Good for as long as this object is.
  const tutti_store* get() const { return &functions_; }

 private:
  // Calls `body`, and keeps the words of what it throws.
  template <class Body>
  const char* guarded(Body&& body) noexcept;
  static const char* set(void* self, const char* key, const char* value, std::int64_t timeout_ms);
  static const char* get(void* self, const char* key, char* value, std::size_t room, std::int64_t timeout_ms);
  static const char* remove(void* self, const char* key);

  c10::intrusive_ptr<c10d::Store> store_;
  std::string words_;
  tutti_store functions_{};
};

}  // namespace tutti::pytorch
