#include "engine/messages/matching.h"

#include <algorithm>

#include "base/rank_list.h"

namespace tutti::engine {

Matching::Found Matching::post(ReceivePattern& wanted) {
  const bool any = wanted.source == kAnySource;
  for (int i = 0; i < (any ? ranks_ : 1); ++i) {
    const int source = any ? (first_ + i) % ranks_ : wanted.source;
    Found found = find(wanted, source);
    if (found.envelope == nullptr) continue;
    if (any && !wanted.probe) first_ = (source + 1) % ranks_;
    return found;
  }
  waiting_.push_back(&wanted);
  ++listeners(wanted);
  return {};
}

Matching::Found Matching::find(const ReceivePattern& wanted, int source) {
  auto& kept = unexpected_[index_of(source)];
  const auto first =
      std::find_if(kept.begin(), kept.end(), [&](const auto& it) { return wanted.takes(source, it->tag()); });
  if (first != kept.end()) {
    Found found{first->get(), nullptr};
    if (wanted.probe) return found;
    found.unexpected = std::move(*first);
    kept.erase(first);
    return found;
  }
  const Envelope*& head = heads_[index_of(source)];
  if (head == nullptr || !wanted.takes(source, head->tag())) return {};
  Found found{head, nullptr};
  if (!wanted.probe) head = nullptr;
  return found;
}

ReceivePattern* Matching::find_taker(const Envelope& envelope) {
  const auto first = std::find_if(waiting_.begin(), waiting_.end(), [&](const ReceivePattern* wanted) {
    return wanted->takes(envelope.source, envelope.tag());
  });
  if (first == waiting_.end()) return nullptr;
  ReceivePattern* const taker = *first;
  waiting_.erase(first);
  --listeners(*taker);
  if (taker->source == kAnySource && !taker->probe) first_ = (envelope.source + 1) % ranks_;
  return taker;
}

void Matching::withdraw(ReceivePattern& wanted) {
  if (std::erase(waiting_, &wanted) != 0) --listeners(wanted);
}

void Matching::keep(std::unique_ptr<Unexpected> unexpected) {
  const std::size_t source = index_of(unexpected->source);
  heads_[source] = nullptr;
  unexpected_[source].push_back(std::move(unexpected));
}

std::string Matching::words_of_others(const ReceivePattern& wanted) const {
  constexpr int kMostNamed = 4;
  std::string text;
  int others = 0;
  const auto tell = [&](const Envelope& envelope) {
    if (++others > kMostNamed) return;
    const bool letter = is_letter(envelope.tag());
    text += std::string(text.empty() ? "" : ", ") + (letter ? "create_group's with tag " : "tag ") +
            std::to_string(envelope.tag() & 0x7fffffff) + " from " + rank_name(envelope.source);
  };
  for (int source = 0; source < ranks_; ++source) {
    if (wanted.source != kAnySource && wanted.source != source) continue;
    for (const auto& unexpected : unexpected_[index_of(source)]) tell(*unexpected);
    if (heads_[index_of(source)] != nullptr) tell(*heads_[index_of(source)]);
  }
  if (others > kMostNamed) text += " and " + std::to_string(others - kMostNamed) + " more";
  return text;
}

void Matching::clear() {
  waiting_.clear();
  std::fill(wanted_.begin(), wanted_.end(), 0);
  any_ = 0;
  std::fill(heads_.begin(), heads_.end(), nullptr);
  for (auto& kept : unexpected_) kept.clear();
}

}  // namespace tutti::engine
