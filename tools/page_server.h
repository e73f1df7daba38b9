// One page for the browsers of this host, and the browser that is to show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_descriptor.h"

namespace tutti::tools {

// Serves the page at 127.0.0.1, at a port that the system chooses, to whoever asks for it by that name.
class PageServer {
 public:
  // Throws Error(system).
  explicit PageServer(std::string page);

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  // Until the process ends.
  [[noreturn]] void run();

 private:
  void answer(int connection) const;
  std::string response_to(const std::string& request) const;

  std::string page_;
  FileDescriptor listener_;
  std::uint16_t port_ = 0;
};

// The command that opens a page here: $BROWSER, or xdg-open where there is a display. None: nobody could look at it.
std::optional<std::string> find_browser();
// Does not wait for it.
void open_in(const std::string& browser, const std::string& url);

}  // namespace tutti::tools
