#include "train/other_servers.h"

#include <utility>

#include "base/deadline.h"

namespace tutti::train {

OtherServers::OtherServers(std::optional<Communicator> group) : group_(std::move(group)) {
  if (!group_) return;
  group_->set_timeout(Deadline::kForever);  // they have nothing to say until the end
  others_.resize(static_cast<std::size_t>(group_->size()));
  try {
    for (int server = 0; server < group_->size(); ++server) {
      Other& other = others_[static_cast<std::size_t>(server)];
      other.server = server;
      if (server != group_->rank()) other.told = group_->recv_async(one(other.word), server);
    }
  } catch (const Error& error) {
    failed_before_ = LostServer{error.peer(), error};
  }
}

void OtherServers::add_to(std::vector<Work*>& works) {
  for (Other& other : others_)
    if (other.told.valid()) works.push_back(&other.told);
}

std::optional<LostServer> OtherServers::lost(std::chrono::milliseconds within) {
  if (failed_before_) return failed_before_;
  for (const Deadline deadline = Deadline::after(within);;) {
    for (Other& other : others_) {
      if (!other.told.valid() || !other.told.ended()) continue;
      try {
        other.told.wait();
      } catch (const Error& error) {
        return LostServer{error.peer() < 0 ? other.server : error.peer(), error};
      }
      other.told = {};
    }
    std::vector<Work*> works;
    add_to(works);
    if (works.empty() || deadline.passed()) return std::nullopt;
    try {
      await_any(works, std::chrono::ceil<std::chrono::milliseconds>(deadline.left()));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::timeout) throw;
    }
  }
}

std::optional<LostServer> OtherServers::finish(std::chrono::milliseconds within) {
  if (!group_ || failed_before_) return failed_before_;
  int server = 0;
  std::int64_t word = 1;
  std::vector<Work> tellings;
  try {
    for (const Other& other : others_)
      if (other.server != group_->rank()) tellings.push_back(group_->send_async(one(word), other.server));
    for (server = 0; server < group_->size(); ++server) {
      Work& told = others_[static_cast<std::size_t>(server)].told;
      if (told.valid()) told.wait(within);
      told = {};
    }
    wait_all(tellings);
  } catch (const Error& error) {
    LostServer lost{error.peer() < 0 ? server : error.peer(), error};
    give_up();
    return lost;
  }
  leave();
  return std::nullopt;
}

void OtherServers::give_up() {
  if (!group_) return;
  group_->abort();
  leave();
}

void OtherServers::leave() {
  others_.clear();
  group_->close();
  group_.reset();
}

}  // namespace tutti::train
