// Words that errors of strategies share.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tutti/error.h"
#include "tutti/train/parameters.h"

namespace tutti::train {

[[noreturn]] inline void refuse_call(const std::string& words) { throw Error(ErrorCode::invalid_argument, words); }

// What became of a peer that is given up: it is gone, it said nothing for too long, or it failed otherwise.
inline ErrorCode end_of_peer(const Error& error) {
  const bool told = error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::timeout;
  return told ? error.code() : ErrorCode::peer_failed;
}

// The shortest that is read as this number again, so that numbers which differ do so in words, too.
inline std::string in_words(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), number).ptr};
}

inline std::string in_words(std::span<const std::int64_t> shape) {
  std::string words = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) words += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return words + "]";
}

inline std::string in_words(const Parameter& parameter) {
  return "parameter \"" + parameter.name + "\", " + std::string(name_of(parameter.type)) + " " +
         in_words(parameter.shape) + (parameter.unit == 0 ? "" : " of unit " + std::to_string(parameter.unit));
}

}  // namespace tutti::train
