#include "rendezvous/known_news.h"

#include <algorithm>

namespace tutti::rendezvous {

// What replaces what, and what says the same.
KnownNews::Key KnownNews::key_of(const News& news) {
  switch (news.kind) {
    case News::Kind::goodbye:
    case News::Kind::loss: return {false, 0, news.kind, news.rank, 0};
    case News::Kind::abort: return {true, news.group, news.kind, -1, 0};  // the first counts, whoever told it
    case News::Kind::leave: return {true, news.group, news.kind, news.origin, 0};
    case News::Kind::statement: break;
  }
  return {true, news.group, news.kind, news.origin, news.channel};
}

bool KnownNews::is_new(const News& news) const {
  const auto last = last_numbers_.find(news.origin);
  if (last != last_numbers_.end() && news.number <= last->second) return false;
  return news.kind == News::Kind::statement || !holds(key_of(news));
}

void KnownNews::add(const News& news) {
  last_numbers_[news.origin] = news.number;
  const Key key = key_of(news);
  erase(key);
  known_[key] = {news, ++learnt_};
  if (!key.of_group || followed_.contains(key.group)) return;
  foreign_[learnt_] = key;
  if (foreign_.size() > kMostForeign) erase(Key(foreign_.begin()->second));
}

void KnownNews::erase(const Key& key) {
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  foreign_.erase(found->second.learnt);
  known_.erase(found);
}

std::vector<KnownNews::Key> KnownNews::keys_of(GroupNumber group) const {
  std::vector<Key> keys;
  for (auto entry = known_.lower_bound(Key{true, group}); entry != known_.end() && entry->first.group == group; ++entry)
    keys.push_back(entry->first);
  return keys;
}

void KnownNews::follow(GroupNumber group) {
  followed_.insert(group);
  for (const Key& key : keys_of(group)) foreign_.erase(known_.at(key).learnt);
}

void KnownNews::unfollow(GroupNumber group) {
  followed_.erase(group);
  for (const Key& key : keys_of(group)) foreign_[known_.at(key).learnt] = key;
}

std::optional<Loss> KnownNews::lost(int rank) const {
  const auto found = known_.find(Key{false, 0, News::Kind::loss, rank, 0});
  return found == known_.end() ? std::nullopt : std::optional(found->second.news.loss);
}

bool KnownNews::departed(int rank) const { return holds({false, 0, News::Kind::goodbye, rank, 0}); }

std::uint64_t KnownNews::left_at(GroupNumber group, int rank) const {
  if (departed(rank)) return ~std::uint64_t{0};
  const auto found = known_.find(Key{true, group, News::Kind::leave, rank, 0});
  return found == known_.end() ? 0 : found->second.news.number;
}

const News* KnownNews::abort_of(GroupNumber group) const {
  const auto found = known_.find(Key{true, group, News::Kind::abort, -1, 0});
  return found == known_.end() ? nullptr : &found->second.news;
}

std::vector<Statement> KnownNews::announced(GroupNumber group, int rank) const {
  std::vector<Statement> statements;
  const Key first{true, group, News::Kind::statement, rank, 0}, last{true, group, News::Kind::statement, rank, ~0u};
  for (auto entry = known_.lower_bound(first); entry != known_.end() && entry->first <= last; ++entry) {
    statements.resize(entry->first.channel + 1);
    statements.back() = entry->second.news.statement;
  }
  return statements;
}

Statement KnownNews::announced(GroupNumber group, std::uint32_t channel, int rank) const {
  const auto found = known_.find(Key{true, group, News::Kind::statement, rank, channel});
  return found == known_.end() ? Statement{} : found->second.news.statement;
}

std::vector<News> KnownNews::in_order() const {
  std::vector<const Entry*> entries;
  for (const auto& [key, entry] : known_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->learnt < b->learnt; });
  std::vector<News> news;
  for (const Entry* entry : entries) news.push_back(entry->news);
  return news;
}

}  // namespace tutti::rendezvous
