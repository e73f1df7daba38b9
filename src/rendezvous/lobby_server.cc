#include "rendezvous/lobby_server.h"

#include <sys/timerfd.h>

#include "base/system_error.h"
#include "rendezvous/address.h"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t kSpareOfLobby = 96;  // strangers at the gate, and what else the process opens

Endpoint checked(const Endpoint& at, int size, const std::optional<Token>& token) {
  if (!token && !is_unix(at)) {
    throw Error(ErrorCode::invalid_argument, "a lobby at " + at +
                                                 " needs a token, or anybody on the network could join; "
                                                 "make one with `tutti token` and set TUTTI_TOKEN_FILE on every host");
  }
  allow_descriptors(static_cast<std::size_t>(size) + kSpareOfLobby);
  return at;
}

LobbyOptions options_of(const Endpoint& asked, const Endpoint& real, int size, const std::string& job,
                        const std::optional<Token>& token, const Deadline& deadline, int keeper) {
  LobbyOptions options;
  options.size = size;
  options.job = job;
  options.token = token;
  options.keeper = keeper;
  options.again = keeper < 0;
  options.deadline = EpollNetwork::at(deadline);
  const auto address = parse(asked);
  if (is_loopback(real) && address && !is_loopback(asked) && address->host != "localhost") {
    options.hint = "the lobby's host '" + address->host + "' resolves to " + parse(real)->host +
                   " where the lobby runs, which other hosts cannot reach: fix /etc/hosts there, or name an address";
  }
  return options;
}

}  // namespace

LobbyServer::LobbyServer(const Endpoint& at, int size, const std::string& job, const std::optional<Token>& token,
                         const Deadline& deadline, const Log& log, int keeper)
    : log_(log),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      endpoint_(network_.listen(checked(at, size, token), deadline)),
      lobby_(network_, options_of(at, endpoint_, size, job, token, deadline, keeper), EpollNetwork::now()) {
  if (!timer_.valid()) throw_errno("timerfd");
  network_.on_attended([](int timer) {
    std::uint64_t expirations = 0;
    if (::read(timer, &expirations, sizeof expirations) < 0) return;  // set anew meanwhile
  });
  network_.attend(timer_.get(), false);
  set_timer();
  log_.debug("the lobby for " + std::to_string(size) + " ranks is at " + endpoint_);
}

void LobbyServer::set_timer() {
  const Time next = std::min({lobby_.next_tick(), network_.next_wake(), EpollNetwork::now() + std::chrono::hours(1)});
  // The steady clock is CLOCK_MONOTONIC. Zero would turn the timer off.
  const auto count = std::max<long long>(next.count(), 1);
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(count / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(count % 1'000'000'000);
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void LobbyServer::progress() {
  const bool had_verdict = lobby_.verdict().has_value(), had_gone = lobby_.went();
  network_.poll(lobby_, Time(0));
  if (network_.take_exhausted() && !make_room())
    log_.warn("the lobby cannot take a connection: " + descriptors_in_words());
  // A verdict says it itself.
  if (!had_gone && lobby_.went() && !lobby_.refusals().empty()) log_.warn("at the lobby, " + lobby_.refusals());
  if (!had_verdict && lobby_.verdict()) log_.debug("the lobby's verdict: " + lobby_.verdict()->text);
  set_timer();
}

bool LobbyServer::make_room() {
  const bool closing = network_.drop_closing();
  return lobby_.make_room() || closing;
}

void LobbyServer::note_death(int rank, const std::string& words) {
  lobby_.note_death(rank, words);
  progress();
}

}  // namespace tutti::rendezvous
