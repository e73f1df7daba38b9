// The client of torch's store, against the real one (where a Python with torch is found) and against servers that are
// none. TORCH_PYTHON names the Python; otherwise python3.
#include "rendezvous/launch/torch_store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "base/system_error.h"
#include "launch/child.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string python() {
  const char* named = std::getenv("TORCH_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

bool has_torch() {
  static const bool kHas = [] {
    Child child({"sh", "-c", "'" + python() + "' -c 'import torch.distributed' 2>/dev/null"});
    child.read_all(60s);
    return child.wait() == 0;
  }();
  return kHas;
}

// Runs `act`, which must throw; returns what the Error says and how long it took.
struct Refusal {
  ErrorCode code{};
  std::string words;
  std::chrono::milliseconds took{};
};
Refusal refusal_of(const std::function<void()>& act) {
  const auto began = std::chrono::steady_clock::now();
  Refusal refusal;
  try {
    act();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    refusal.code = error.code();
    refusal.words = error.what();
  }
  refusal.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  return refusal;
}

class RealStore : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_torch()) {
      GTEST_SKIP() << python() << " has no torch; set TORCH_PYTHON to a Python that has";
    }
    server_ = std::make_unique<Child>(std::vector<std::string>{python(), TUTTI_STORE_SERVER, GetParam()});
    port_ = std::stoi(server_->read_line(60s).value_or("0"));
    ASSERT_GT(port_, 0);
  }
  std::string ask(const std::string& line) {
    server_->write_line(line);
    return server_->read_line(20s).value_or("nothing");
  }

  std::unique_ptr<Child> server_;
  int port_ = 0;
};

// One test, because starting Python with torch takes seconds.
TEST_P(RealStore, ServesBothWays) {
  TorchStore store("localhost", port_, Deadline::after(20s));
  store.set("a/key", "from_tutti", Deadline::after(20s));
  EXPECT_EQ(ask("get a/key"), "from_tutti");
  EXPECT_EQ(ask("set b from_torch"), "done");
  EXPECT_EQ(store.get("b", Deadline::after(20s)), "from_torch");
  store.set("empty", "", Deadline::after(20s));
  EXPECT_EQ(store.get("empty", Deadline::after(20s)), "");
  store.set("a/key", std::string(5000, 'y'), Deadline::after(20s));
  EXPECT_EQ(ask("get a/key"), std::string(5000, 'y')) << "set again";

  EXPECT_EQ(ask("later 300 c late"), "done");
  EXPECT_EQ(store.get("c", Deadline::after(20s)), "late");

  TorchStore impatient("127.0.0.1", port_, Deadline::after(20s));
  const Refusal late = refusal_of([&] { impatient.get("never", Deadline::after(200ms)); });
  EXPECT_EQ(late.code, ErrorCode::timeout);
  EXPECT_THAT(late.words, AllOf(HasSubstr("'never'"), HasSubstr(std::to_string(port_))));
  EXPECT_GE(late.took, 200ms);
  EXPECT_LT(late.took, 5s);

  EXPECT_EQ(ask("big d 65536"), "done");
  EXPECT_EQ(store.get("d", Deadline::after(20s)).size(), 65536U);
  EXPECT_EQ(ask("big d 65537"), "done");
  EXPECT_THAT(refusal_of([&] { store.get("d", Deadline::after(20s)); }).words, HasSubstr("65537 bytes"));
}

INSTANTIATE_TEST_SUITE_P(Servers, RealStore, testing::Values("libuv", "legacy"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Takes connections one after the other and gives each to `serve`.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int socket, const std::atomic<bool>& stop)> serve)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) throw_errno("bind");
    if (::listen(listener_.get(), 4) != 0) throw_errno("listen");
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, serve] {
      while (!stop_) {
        pollfd waiting{listener_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, 20) <= 0) continue;
        const FileDescriptor socket(::accept(listener_.get(), nullptr, nullptr));
        if (socket.valid()) serve(socket.get(), stop_);
      }
    });
  }
  ~FakeServer() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return port_; }

 private:
  FileDescriptor listener_;
  std::atomic<bool> stop_ = false;
  int port_ = 0;
  std::thread thread_;
};

void read_some(int socket) {
  char bytes[256];
  if (::recv(socket, bytes, sizeof bytes, 0) < 0) return;
}
void answer(int socket, std::string_view bytes) { ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
void linger(const std::atomic<bool>& stop) {
  while (!stop) std::this_thread::sleep_for(10ms);
}
const std::string kNotThere(1, '\1');
const std::string kThere(1, '\0');

TEST(TorchStore, NobodyListens) {
  int port = 0;
  {
    const FakeServer gone([](int, const auto&) {});
    port = gone.port();
  }
  const Refusal refusal = refusal_of([&] { TorchStore("127.0.0.1", port, Deadline::after(20s)); });
  EXPECT_EQ(refusal.code, ErrorCode::system);
  EXPECT_THAT(refusal.words, AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("refused"),
                                   HasSubstr("MASTER_PORT"), HasSubstr("TUTTI_RENDEZVOUS")));
  EXPECT_LT(refusal.took, 5s);
}

TEST(TorchStore, AHostThatDoesNotExist) {
  const Refusal refusal = refusal_of([] { TorchStore("no.such.host.invalid", 1, Deadline::after(20s)); });
  EXPECT_THAT(refusal.words, HasSubstr("no.such.host.invalid"));
}

TEST(TorchStore, SomethingElseAnswers) {
  const FakeServer web([](int socket, const auto&) {
    read_some(socket);
    answer(socket, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  EXPECT_THAT(refusal_of([&] { TorchStore("127.0.0.1", web.port(), Deadline::after(20s)); }).words,
              AllOf(HasSubstr("taken for torchrun's store"), HasSubstr("MASTER_PORT")));
  const FakeServer rude([](int, const auto&) {});
  EXPECT_THAT(refusal_of([&] { TorchStore("127.0.0.1", rude.port(), Deadline::after(20s)); }).words,
              HasSubstr("closed the connection"));
}

TEST(TorchStore, SilenceEndsAtTheDeadline) {
  const FakeServer silent([](int, const std::atomic<bool>& stop) { linger(stop); });
  const Refusal refusal = refusal_of([&] { TorchStore("127.0.0.1", silent.port(), Deadline::after(200ms)); });
  EXPECT_EQ(refusal.code, ErrorCode::timeout);
  EXPECT_GE(refusal.took, 200ms);
  EXPECT_LT(refusal.took, 5s);
}

TEST(TorchStore, ATrickleEndsAtTheDeadline) {
  const FakeServer slow([](int socket, const std::atomic<bool>& stop) {
    read_some(socket);
    answer(socket, kNotThere);
    while (!stop) {
      answer(socket, kThere);  // the wait is over; then the length of the value, a byte at a time
      std::this_thread::sleep_for(60ms);
    }
  });
  TorchStore store("127.0.0.1", slow.port(), Deadline::after(20s));
  const Refusal refusal = refusal_of([&] { store.get("key", Deadline::after(200ms)); });
  EXPECT_EQ(refusal.code, ErrorCode::timeout);
  EXPECT_THAT(refusal.words, HasSubstr("'key'"));
  EXPECT_LT(refusal.took, 5s);
}

TEST(TorchStore, AHugeValueIsRefused) {
  const FakeServer huge([](int socket, const std::atomic<bool>& stop) {
    read_some(socket);
    answer(socket, kNotThere + kThere + std::string(8, '\x7f'));
    linger(stop);
  });
  TorchStore store("127.0.0.1", huge.port(), Deadline::after(20s));
  EXPECT_THAT(refusal_of([&] { store.get("key", Deadline::after(20s)); }).words, HasSubstr("announced a value of"));
}

TEST(TorchStore, AStoreThatForgetsIsNoticed) {
  const FakeServer forgetful([](int socket, const std::atomic<bool>& stop) {
    answer(socket, kNotThere + kNotThere);
    linger(stop);
  });
  TorchStore store("127.0.0.1", forgetful.port(), Deadline::after(20s));
  EXPECT_THAT(refusal_of([&] { store.set("key", "value", Deadline::after(20s)); }).words, HasSubstr("forgot"));
}

}  // namespace
}  // namespace tutti::rendezvous
