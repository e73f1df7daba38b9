#include "rendezvous/launch/refuge.h"

#include <unistd.h>

#include "base/folders.h"
#include "rendezvous/token.h"

namespace tutti::rendezvous {
namespace {

// Several ranks may do it at once: the file appears whole, and the first one stays.
void make_secret(const std::string& path) {
  static_cast<void>(make_folders(folder_of(path)));  // where it did not work writing tells why not
  const std::string own = path + "." + Token::random().hex().substr(0, 16);
  Token::random().write_file(own);
  const int linked = ::link(own.c_str(), path.c_str());
  static_cast<void>(linked);  // where it did not work the file is there already, or reading it tells why not
  ::unlink(own.c_str());
}

}  // namespace

Endpoint refuge_of(const std::string& job, const Environment& environment, bool make) {
  const std::string folder = environment.cache_folder();
  if (folder.empty()) return "";
  const std::string path = folder + "/meeting_secret";
  const bool there = ::access(path.c_str(), F_OK) == 0;
  if (!there && !make) return "";
  if (!there) make_secret(path);
  const Token::Mac mac = Token::read_file(path).mac({std::as_bytes(std::span(job))});
  return "unix:@tutti-" + Token::from_bytes(mac).hex().substr(0, 32);
}

}  // namespace tutti::rendezvous
