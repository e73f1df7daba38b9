// The link by which processes that talk over UCX get to know each other, on which a peer says what it likes, in pieces
// of any size: frames come as they were sent, and nothing comes after what no frame says.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/file_descriptor.h"
#include "fuzz/target.h"
#include "transport/ucx/link.h"

using namespace tutti::transport;
using tutti::FileDescriptor;
using tutti::fuzz::check;
using tutti::fuzz::Input;

namespace {

class LinkReader {
 public:
  LinkReader(FileDescriptor socket, std::span<const std::byte> first) {
    put(first);
    link_.start(std::move(socket), first);
    read();
  }

  void put(std::span<const std::byte> bytes) { sent_.insert(sent_.end(), bytes.begin(), bytes.end()); }
  bool ended() const { return link_.ended(); }

  void read() {
    while (const auto message = link_.next()) {
      check(!ended_before_, "nothing comes after the end");
      check(message->frame.kind <= LinkFrame::Kind::arrived, "a kind that there is");
      check(message->body.size() == message->frame.bytes, "the body is as long as its frame says");
      check(message->body.size() <= UcxLink::kMostBytes, "no frame is longer than it may be");
      expect(&message->frame, sizeof message->frame);
      expect(message->body.data(), message->body.size());
    }
    ended_before_ = link_.ended();
  }

  // Once all that was put has been sent.
  void finish() {
    read();
    LinkFrame frame;
    if (sent_.size() - read_ < sizeof frame) return check(!ended(), "half a frame is no mistake");
    std::memcpy(&frame, sent_.data() + read_, sizeof frame);
    const bool can_be = frame.kind <= LinkFrame::Kind::arrived && frame.bytes <= UcxLink::kMostBytes;
    check(ended() == !can_be, "a link ends at what no frame says, and only there");
    check(!can_be || sent_.size() - read_ < sizeof frame + frame.bytes, "what has come as a whole is brought");
  }

 private:
  void expect(const void* bytes, std::size_t size) {
    check(read_ + size <= sent_.size(), "no more comes than was sent");
    check(size == 0 || std::memcmp(sent_.data() + read_, bytes, size) == 0, "what comes is what was sent");
    read_ += size;
  }

  UcxLink link_;
  std::vector<std::byte> sent_;
  std::size_t read_ = 0;
  bool ended_before_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, std::min<std::size_t>(size, 16 << 10));  // which a socket takes at once
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  const FileDescriptor far(ends[1]);
  LinkReader reader(FileDescriptor{ends[0]}, input.bytes(input.number()));
  while (!input.empty() && !reader.ended()) {
    const auto piece = input.bytes(1 + input.number());
    if (piece.empty()) break;
    reader.put(piece);
    check(::send(far.get(), piece.data(), piece.size(), MSG_DONTWAIT) == static_cast<ssize_t>(piece.size()), "send");
    reader.read();
  }
  reader.finish();
  return 0;
}
