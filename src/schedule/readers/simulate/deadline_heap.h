// The times at which numbered things end, of which the first is wanted, and which change often: a heap that knows where
// each of them stands. Of equal times the lower number comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::schedule {

class DeadlineHeap {
 public:
  bool empty() const { return heap_.empty(); }
  double first() const { return heap_.front().at; }
  std::uint32_t first_number() const { return heap_.front().number; }

  // Adds it, or changes its time.
  void set(std::uint32_t number, double at) {
    if (places_.size() <= number) places_.resize(number + 1, kNowhere);
    std::size_t place = places_[number];
    if (place == kNowhere) {
      place = heap_.size();
      heap_.push_back({});
    }
    rise({at, number}, place);
    sink(heap_[places_[number]], places_[number]);
  }

  void remove(std::uint32_t number) {
    const std::size_t place = places_[number];
    places_[number] = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    rise(last, place);
    sink(heap_[places_[last.number]], places_[last.number]);
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  struct Entry {
    double at = 0;
    std::uint32_t number = 0;

    bool before(const Entry& other) const { return at != other.at ? at < other.at : number < other.number; }
  };

  void put(const Entry& entry, std::size_t place) {
    heap_[place] = entry;
    places_[entry.number] = static_cast<std::uint32_t>(place);
  }
  void rise(const Entry& entry, std::size_t place) {
    for (; place > 0 && entry.before(heap_[(place - 1) / 2]); place = (place - 1) / 2)
      put(heap_[(place - 1) / 2], place);
    put(entry, place);
  }
  void sink(const Entry entry, std::size_t place) {
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      put(heap_[child], place);
      place = child;
    }
    put(entry, place);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> places_;  // by number
};

}  // namespace tutti::schedule
