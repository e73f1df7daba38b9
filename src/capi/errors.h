// Where C++ ends: a C function runs its body in guarded(), which turns what is thrown into a code, and keeps the words
// and the culprit for the calling thread. Nothing is thrown across the C functions.
#pragma once

#include <string>

#include "tutti/error.h"
#include "tutti/tutti.h"

namespace tutti::capi {

// To be called while an exception is handled.
tutti_code keep_current_exception() noexcept;

template <class Body>
tutti_code guarded(Body&& body) noexcept {
  try {
    body();
    return TUTTI_OK;
  } catch (...) {
    return keep_current_exception();
  }
}

[[noreturn]] void reject(const std::string& what);

// The place that a pointer of the caller's leads to; `what` is "function: argument".
template <class T>
T& place(T* pointer, const char* what) {
  if (pointer == nullptr) reject(std::string(what) + " is NULL");
  return *pointer;
}

// The object behind a handle goes, and the handle is NULL; as place().
template <class Handle>
void delete_handle(Handle* handle, const char* what) {
  Handle& freed = place(handle, what);
  delete freed;
  freed = nullptr;
}

}  // namespace tutti::capi
