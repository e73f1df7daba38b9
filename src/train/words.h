// Words that errors of strategies share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tutti/error.h"
#include "tutti/train/parameters.h"

namespace tutti::train {

[[noreturn]] inline void refuse_call(const std::string& words) { throw Error(ErrorCode::invalid_argument, words); }

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
