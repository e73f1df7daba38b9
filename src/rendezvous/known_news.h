// The news that still matter: who is lost, who has left, which groups were given up, and what each rank said last.
//
// In the order in which they were learnt, so that whoever is told all of it again hears no answer before its question.
// Of groups that are not followed here only the latest are kept: they matter to those who follow such a group later.
// Plain data.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "rendezvous/news.h"

namespace tutti::rendezvous {

class KnownNews {
 public:
  // How much is kept of groups that are not followed.
  static constexpr std::size_t kMostForeign = 1 << 14;

  // False where it has come before, or says what is known already: that a rank is lost, or a group given up.
  bool is_new(const News& news) const;
  // Only what is new.
  void add(const News& news);

  void follow(GroupNumber group);
  void unfollow(GroupNumber group);

  std::optional<Loss> lost(int rank) const;
  bool departed(int rank) const;
  bool departed(GroupNumber group, int rank) const { return left_at(group, rank) != 0; }
  // As Control::left_at.
  std::uint64_t left_at(GroupNumber group, int rank) const;
  // The first; nullptr where there is none.
  const News* abort_of(GroupNumber group) const;
  // By channel, as far as it announced anything; sequence 0 where it did not.
  std::vector<Statement> announced(GroupNumber group, int rank) const;
  Statement announced(GroupNumber group, std::uint32_t channel, int rank) const;
  std::vector<News> in_order() const;
  std::size_t size() const { return known_.size(); }

 private:
  struct Key {
    bool of_group = false;
    GroupNumber group = 0;
    News::Kind kind = News::Kind::goodbye;
    int rank = -1;
    std::uint32_t channel = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    News news;
    std::uint64_t learnt = 0;  // counts up
  };
  static Key key_of(const News& news);
  bool holds(const Key& key) const { return known_.contains(key); }
  void erase(const Key& key);
  std::vector<Key> keys_of(GroupNumber group) const;

  std::unordered_map<int, std::uint64_t> last_numbers_;  // by origin
  std::map<Key, Entry> known_;
  std::map<std::uint64_t, Key> foreign_;  // by when it was learnt
  std::set<GroupNumber> followed_;
  std::uint64_t learnt_ = 0;
};

}  // namespace tutti::rendezvous
