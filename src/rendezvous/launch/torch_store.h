// A client of the TCPStore that torchrun's agent serves at MASTER_ADDR:MASTER_PORT.
//
// Speaks the protocol of torch 2.x, whose two servers (libuv and the older one) read it alike. A query is a byte;
// integers are in host order; strings and counts carry 64-bit lengths; TCPStore puts "/" before every key:
//
//   VALIDATE 0  magic u32                      no answer; first on every connection
//   SET      1  key, value                     no answer
//   GET      3  key                            value
//   CHECK    5  number of keys u64, keys       u8: 0 all are there, 1 not
//   WAIT     6  number of keys u64, keys       u8: 0, once all are there
//
// The store asks for no password: whoever reaches the port can read and write it.
#pragma once

#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "rendezvous/launch/store.h"

namespace tutti::rendezvous {

class TorchStore : public Store {
 public:
  // Connects and checks that a TCPStore answers. Throws Error: nobody listens, something else answers, or timeout.
  TorchStore(const std::string& host, int port, const Deadline& deadline);

  void set(std::string_view key, std::string_view value, const Deadline& deadline) override;
  std::string get(std::string_view key, const Deadline& deadline) override;

 private:
  // Whether the key is there.
  bool check(std::string_view key, const Deadline& deadline);
  void send(std::string_view bytes, const Deadline& deadline);
  void receive(void* to, std::size_t bytes, const Deadline& deadline, const std::string& waiting_for);
  void wait_for(short events, const Deadline& deadline, const std::string& what);
  [[noreturn]] void not_a_store(const std::string& why) const;

  std::string place_;  // host:port, for errors
  FileDescriptor socket_;
};

}  // namespace tutti::rendezvous
