// A folder for the rings of one test, gone when the test ends; and events that tell by themselves what they are.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/mix.h"
#include "base/system_error.h"
#include "trace/recorder.h"

namespace tutti::testing {

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "tutti-trace-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw_errno("mkdtemp");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Number n of those that `who` records: every field follows from the two, so that a mixture of two events shows.
inline trace::TraceEvent event_of(std::uint64_t who, std::uint64_t n) {
  const auto part = [&](std::uint64_t field) { return mix(mix(who, n), field); };
  trace::TraceEvent event;
  event.what = static_cast<std::uint8_t>(part(1));
  event.flags = static_cast<std::uint8_t>(part(2));
  event.communicator = static_cast<std::uint16_t>(who);
  event.name = static_cast<std::uint16_t>(part(3));
  event.sequence = n;
  event.begin = part(4);
  event.end = part(5);
  event.middle = part(6);
  event.amount = part(7);
  event.other = part(8);
  return event;
}

}  // namespace tutti::testing
