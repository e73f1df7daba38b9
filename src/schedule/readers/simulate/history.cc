#include "schedule/readers/simulate/history.h"

#include <algorithm>
#include <utility>

namespace tutti::schedule {

History::History(const Scene& scene, const RankTraits& traits)
    : scene_(scene),
      traits_(traits),
      under_way_(scene.edges.size()),
      credits_(scene.edges.size()),
      heard_(scene.ranks.size()) {
  for (std::uint32_t rank = 0; rank < scene.ranks.size(); ++rank) {
    first_hand_.push_back(hands_.size());
    hands_.resize(hands_.size() + scene.text_of(rank).lanes.size());
  }
}

void History::fired(std::uint32_t rank, std::size_t lane, const SceneStep& step, std::uint32_t number,
                    std::uint64_t segment, double now) {
  Hand& hand = at(rank, lane);
  const Token entered{kNone, traits_.starts[static_cast<std::size_t>(scene_.ranks[rank].rank)]};
  const Token* because = &hand.finished;
  const auto offer = [&](const Token& token) {
    if (token.at > because->at) because = &token;
  };
  offer(entered);
  for (const SceneWait& wait : step.waits) {
    if (wait.lane >= 0) offer(at(scene_.peer_of(rank, wait), static_cast<std::size_t>(wait.lane)).finished);
  }
  for (const SceneSlot& destination : step.destinations) {
    const std::uint32_t edge = scene_.out_edge(rank, destination);
    Credit& credit = credits_[edge];
    if (++credit.sent - credit.freed == scene_.edges[edge].credits) offer(credit.last);  // it had no other
  }
  for (const SceneSlot& source : step.sources) offer(under_way_[scene_.in_edge(rank, source)].front());
  if (scene_.text_of(rank).hears_first && writes_user(step)) offer(heard_[rank]);
  Fired record{*because,
               now,
               scene_.ranks[rank].rank,
               static_cast<std::uint32_t>(lane),
               number,
               static_cast<std::uint32_t>(segment)};
  record.because.queueing += static_cast<float>(now - because->at);
  for (const SceneSlot& source : step.sources) {
    std::vector<Token>& messages = under_way_[scene_.in_edge(rank, source)];
    messages.erase(messages.begin());
  }
  if (fired_.size() < kMostFired) {
    fired_.push_back(record);
  } else {
    fired_[count_ % kMostFired] = record;
  }
  hand.step = count_++;
  hand.fired = hand.computing_since = hand.computed = now;
  hand.ideal_s = 0;
}

void History::computed(std::uint32_t rank, std::size_t lane, double now) {
  Hand& hand = at(rank, lane);
  hand.computed = now;
  active(hand, {scene_.ranks[rank].rank, Simulated::Activity::Kind::computing, -1, hand.computing_since, now});
}

void History::sent(std::uint32_t rank, std::size_t lane, std::uint32_t number, double bytes, double began, double now) {
  const Hand& hand = at(rank, lane);
  const SceneEdge& edge = scene_.edges[number];
  const double took = now - began, ideal = std::min(took, bytes / scene_.peak_of(scene_.way(edge)));
  Token& token = under_way_[number].emplace_back();
  token.from = hand.step;
  token.at = now + edge.latency_s;
  token.computing = static_cast<float>(hand.computed - hand.computing_since);
  token.queueing = static_cast<float>(hand.computing_since - hand.fired + began - hand.computed);
  token.sending = static_cast<float>(ideal);
  token.sharing = static_cast<float>(took - ideal);
  token.latency = static_cast<float>(edge.latency_s);
  if (!std::exchange(credits_[number].heard, true) && token.at > heard_[edge.to].at) heard_[edge.to] = token;
  active(hand, {scene_.ranks[rank].rank, Simulated::Activity::Kind::sending, edge.peer, began, now});
}

void History::finished(std::uint32_t rank, std::size_t lane, const SceneStep& step, double now) {
  Hand& hand = at(rank, lane);
  const double took = now - hand.computed, ideal = std::min(took, hand.ideal_s);
  hand.finished = {hand.step, now};
  hand.finished.computing = static_cast<float>(hand.computed - hand.computing_since);
  hand.finished.queueing = static_cast<float>(hand.computing_since - hand.fired);
  hand.finished.sending = static_cast<float>(ideal);
  hand.finished.sharing = static_cast<float>(took - ideal);
  for (const SceneSlot& source : step.sources) {
    Credit& credit = credits_[scene_.in_edge(rank, source)];
    credit.last = hand.finished;
    ++credit.freed;
  }
  if (now < last_end_.at) return;
  last_end_ = hand.finished;
  last_rank_ = scene_.ranks[rank].rank;
}

void History::active(const Hand& hand, Simulated::Activity activity) {
  if (activity.rank >= kActiveRanks || activities_.size() >= kMostActivities) return;
  if (!(activity.end_s > activity.begin_s)) return;
  const Fired& fired = fired_[hand.step % kMostFired];
  activity.lane = fired.lane;
  activity.step = fired.step;
  activity.segment = fired.segment;
  activities_.push_back(activity);
}

void History::tell(Simulated& simulated) const {
  simulated.activities = activities_;
  if (last_end_.at < 0) return;  // nobody had anything to do
  Simulated::Path& path = simulated.path;
  const auto add = [&](const Token& token, const Simulated::Hop& told) {
    if (path.hops.size() < kMostHops) {
      path.hops.push_back(told);
      path.hops.back().spent = {token.computing, token.queueing, token.sending, token.sharing, token.latency};
    }
    path.begin_s = told.fired_s;
  };
  const auto spend = [&](const Token& token) {
    path.spent.computing_s += token.computing;
    path.spent.queueing_s += token.queueing;
    path.spent.sending_s += token.sending;
    path.spent.sharing_s += token.sharing;
    path.spent.latency_s += token.latency;
  };
  add(last_end_, {last_rank_, 0, 0, 0, last_end_.at, {}});
  const Id oldest = count_ - std::min<Id>(count_, kMostFired);
  const Token* token = &last_end_;
  for (; token->from != kNone && token->from >= oldest; ++path.steps) {
    spend(*token);
    const Fired& fired = fired_[token->from % kMostFired];
    add(fired.because, {fired.rank, fired.lane, fired.step, fired.segment, fired.at, {}});
    token = &fired.because;
  }
  path.whole = token->from == kNone;
  std::reverse(path.hops.begin(), path.hops.end());
}

}  // namespace tutti::schedule
