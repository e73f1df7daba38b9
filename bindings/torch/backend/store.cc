#include "backend/store.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tutti::pytorch {

StoreFunctions::StoreFunctions(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {
  functions_.size = sizeof functions_;
  functions_.context = this;
  functions_.set = &StoreFunctions::set;
  functions_.get = &StoreFunctions::get;
  functions_.remove = &StoreFunctions::remove;
}

template <class Body>
const char* StoreFunctions::guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const c10::Error& error) {
    words_ = error.what_without_backtrace();
  } catch (const std::exception& error) {
    words_ = error.what();
  } catch (...) {
    words_ = "something was thrown that is no std::exception";
  }
  return words_.c_str();
}

const char* StoreFunctions::set(void* self, const char* key, const char* value, std::int64_t /*timeout_ms*/) {
  auto& own = *static_cast<StoreFunctions*>(self);
  return own.guarded([&] {
    const std::string text(value);
    own.store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  });
}

const char* StoreFunctions::get(void* self, const char* key, char* value, std::size_t room, std::int64_t timeout_ms) {
  auto& own = *static_cast<StoreFunctions*>(self);
  return own.guarded([&] {
    own.store_->wait({key}, std::chrono::milliseconds(timeout_ms));
    const std::vector<std::uint8_t> text = own.store_->get(key);
    if (text.size() >= room) throw std::runtime_error("a value is longer than any of ours");
    *std::copy(text.begin(), text.end(), value) = '\0';
  });
}

const char* StoreFunctions::remove(void* self, const char* key) {
  auto& own = *static_cast<StoreFunctions*>(self);
  return own.guarded([&] { own.store_->deleteKey(key); });
}

}  // namespace tutti::pytorch
