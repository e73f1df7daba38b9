// Texts that go into the caller's memory: what to_text() and to_json() make of a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "capi/errors.h"

namespace tutti::capi {

// As much as there is room for, closed by a zero; *length, unless NULL, is that of the whole. `where` is the function.
template <class Make>
void tell(const Make& make, tutti_report_format format, char* text, std::size_t room, std::size_t* length,
          const std::string& where) {
  if (text == nullptr && room != 0) reject(where + ": text is NULL; pass memory, or a room of 0");
  if (format != TUTTI_REPORT_TEXT && format != TUTTI_REPORT_JSON)
    reject(where + ": there is no format " + std::to_string(static_cast<int>(format)));
  const auto& value = make();
  const std::string told = format == TUTTI_REPORT_TEXT ? to_text(value) : to_json(value);
  if (length != nullptr) *length = told.size();
  if (room == 0) return;
  const std::size_t kept = std::min(told.size(), room - 1);
  std::memcpy(text, told.data(), kept);
  text[kept] = '\0';
}

}  // namespace tutti::capi
