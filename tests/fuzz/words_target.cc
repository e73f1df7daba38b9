// Words of others that a launch is read from: variables, lists of hosts, endpoints, and what rank 0 left in a store.
#include "fuzz/target.h"
#include "rendezvous/address.h"
#include "rendezvous/launch/arrange.h"
#include "rendezvous/launch/hostlist.h"
#include "tutti/error.h"

using namespace tutti::rendezvous;
using tutti::Deadline;
using tutti::Environment;
using tutti::fuzz::check;

namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class OneValue : public Store {
 public:
  explicit OneValue(std::string value) : value_(std::move(value)) {}
  void set(std::string_view, std::string_view, const Deadline&) override {}
  std::string get(std::string_view, const Deadline&) override { return value_; }

 private:
  std::string value_;
};

void read_invitation(const std::string& text) {
  Launch launch;
  launch.launcher = Launcher::torchrun;
  launch.rank = 1;
  launch.size = 2;
  launch.job = "job";
  launch.place = Place::torch_store;
  const auto store = std::make_shared<OneValue>(text);
  const Rendezvous found = arrange(launch, Environment(), 0, Deadline::after(std::chrono::seconds(20)), tutti::Log(),
                                   [&](const Launch&, const Deadline&) { return store; });
  const auto lobby = parse(found.lobby);
  check(lobby && !lobby->is_unix && lobby->port > 0, "the lobby is a place");
  check(found.token.has_value(), "there is a token");
}

// A line each, NAME=value.
void read_variables(const std::string& text) {
  std::map<std::string, std::string, std::less<>> values;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      values[line.substr(0, equals)] = line.substr(equals + 1);
    at = end + 1;
  }
  const Launch launch = recognise(Environment(values));
  check(launch.size >= 1 && launch.size <= kMostRanks && launch.rank >= 0 && launch.rank < launch.size, "the rank");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Input input(data, size);
  const std::uint8_t kind = input.number();
  const std::string text = text_of(input.rest());
  try {
    switch (kind % 5) {
      case 0: check(!hosts_of(text).empty(), "a list has hosts"); break;
      case 1: check(!counts_of(text).empty(), "a list has counts"); break;
      case 2: read_invitation(text); break;
      case 3: read_variables(text); break;
      default:
        if (const auto address = parse(text)) check(address->port >= 0 && address->port <= 65535, "a port");
    }
  } catch (const tutti::Error& error) {
    check(error.code() != tutti::ErrorCode::timeout, "words are not a matter of time");
  }
  return 0;
}
