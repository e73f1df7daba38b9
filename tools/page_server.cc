#include "tools/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/system_error.h"

extern char** environ;  // as POSIX has it

namespace tutti::tools {
namespace {

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // whoever asked has left
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// The head of a request, or what of it came within the deadline.
std::string read_head(int connection) {
  constexpr std::size_t kMostHead = 16 << 10;
  std::string head;
  char piece[2048];
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < kMostHead) {
    const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    head.append(piece, static_cast<std::size_t>(got));
  }
  return head;
}

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

// Whether a request is for 127.0.0.1, [::1] or localhost, with a port or without.
bool asks_this_host(const std::string& request) {
  constexpr std::string_view kField = "\r\nHost: ";
  const std::size_t at = request.find(kField);
  if (at == std::string::npos) return false;
  const std::size_t begin = at + kField.size();
  std::string_view host = std::string_view(request).substr(begin, request.find("\r\n", begin) - begin);
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && colon + 1 < host.size() &&
                        host.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  if (has_port) host = host.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

bool in_path(const std::string& command) {
  if (command.find('/') != std::string::npos) return ::access(command.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::filesystem::path file = std::filesystem::path(folders.substr(at, end - at)) / command;
    if (::access(file.c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

PageServer::PageServer(std::string page) : page_(std::move(page)) {
  listener_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener_.valid() || ::bind(listener_.get(), generic, length) != 0 || ::listen(listener_.get(), 16) != 0 ||
      ::getsockname(listener_.get(), generic, &length) != 0)
    throw_errno("cannot serve the page at 127.0.0.1 (--output FILE writes it instead)");
  port_ = ntohs(address.sin_port);
}

void PageServer::run() {
  for (;;) {
    const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      answer(connection.get());
    } else if (errno != EINTR && errno != ECONNABORTED) {
      throw_errno("cannot accept a connection for the page (--output FILE writes it instead)");
    }
  }
}

void PageServer::answer(int connection) const {
  // One at a time is enough for one reader, but one that says nothing must not keep the next from its page.
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  send_all(connection, response_to(read_head(connection)));
}

// Only by a name of this host: a page from elsewhere whose name leads here gets nothing. At whatever port: that of a
// tunnel is the reader's own.
std::string PageServer::response_to(const std::string& request) const {
  if (!asks_this_host(request)) return response("403 Forbidden", "text/plain", "not here\n");
  if (!request.starts_with("GET ")) return response("405 Method Not Allowed", "text/plain", "GET alone\n");
  if (!request.starts_with("GET / ")) return response("404 Not Found", "text/plain", "the page is at /\n");
  return response("200 OK", "text/html", page_);
}

std::optional<std::string> find_browser() {
  if (is_set("BROWSER")) {
    const std::string named = std::getenv("BROWSER");
    return in_path(named) ? std::optional(named) : std::nullopt;
  }
  if ((is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && in_path("xdg-open")) return "xdg-open";
  return std::nullopt;
}

void open_in(const std::string& browser, const std::string& url) {
  ::signal(SIGCHLD, SIG_IGN);  // whose end nobody waits for
  std::string command = browser, address = url;
  char* arguments[] = {command.data(), address.data(), nullptr};
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, command.c_str(), nullptr, nullptr, arguments, environ); error != 0) {
    errno = error;
    throw_errno("cannot start the browser " + browser);
  }
}

}  // namespace tutti::tools
