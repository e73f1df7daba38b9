// Torchrun's store when something else answers in its place: an Error or a value, whatever comes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "fuzz/target.h"
#include "rendezvous/address.h"
#include "rendezvous/launch/torch_store.h"
#include "rendezvous/sockets.h"
#include "tutti/error.h"

using namespace tutti::rendezvous;
using tutti::Deadline;
using tutti::FileDescriptor;

namespace {

// One connection gets the bytes as its answers, and then no more.
void answer(int listener, std::span<const std::byte> bytes) {
  const FileDescriptor client(::accept(listener, nullptr, nullptr));
  ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(client.get(), SHUT_WR);
  char asked[4096];
  while (::recv(client.get(), asked, sizeof asked, 0) > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Listener kListener = [] {
    Listener listener = listen_at("127.0.0.1:0");
    const int flags = ::fcntl(listener.socket.get(), F_GETFL);
    ::fcntl(listener.socket.get(), F_SETFL, flags & ~O_NONBLOCK);
    return listener;
  }();
  tutti::fuzz::Input input(data, size);
  std::thread server(answer, kListener.socket.get(), input.rest());
  try {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    TorchStore store("127.0.0.1", parse(kListener.endpoint)->port, deadline);
    const std::string value = store.get("key", deadline);
    tutti::fuzz::check(value.size() <= Store::kMostValueBytes, "no more than a value may have");
    store.set("key", value, deadline);
  } catch (const tutti::Error& error) {
    tutti::fuzz::check(error.code() == tutti::ErrorCode::system, "an answer is never a matter of time");
  }
  server.join();
  return 0;
}
