#include "train/row_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "train/counting.h"

namespace tutti::train {
namespace {

std::vector<std::size_t> begins_of(std::span<const std::size_t> counts) {
  std::vector<std::size_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
  return begins;
}

// By host, its ranks in their order; nothing where hosts differ in size, or there are not several of both.
std::vector<int> grid_of(const std::vector<int>& hosts) {
  const int count = *std::max_element(hosts.begin(), hosts.end()) + 1;
  const std::size_t each = hosts.size() / static_cast<std::size_t>(count);
  std::vector<int> grid;
  for (int host = 0; host < count; ++host) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      if (hosts[rank] == host) grid.push_back(static_cast<int>(rank));
    if (grid.size() != each * static_cast<std::size_t>(host + 1)) return {};
  }
  return count > 1 && each > 1 ? grid : std::vector<int>();
}

}  // namespace

void RowExchange::make_levels() {
  const std::vector<int> hosts = comm_.hosts();
  at_ = grid_of(hosts);
  if (at_.empty()) return;
  const auto own = static_cast<std::size_t>(std::find(at_.begin(), at_.end(), comm_.rank()) - at_.begin());
  const std::size_t host_count = static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end()) + 1);
  const std::size_t each = at_.size() / host_count;
  inside_ = comm_.split(static_cast<int>(own / each), static_cast<int>(own % each));
  across_ = comm_.split(static_cast<int>(own % each), static_cast<int>(own / each));
}

Phrase RowExchange::exchange(Communicator& comm, const std::string& where, const void* from, const Counts& sent,
                             void* to, const Counts& came, std::size_t width, Element element) const {
  const auto times_width = [&](const Counts& rows) {
    Counts counts;
    for (const std::size_t count : rows) counts.push_back(count * width);
    return counts;
  };
  const Counts given = times_width(sent), taken = times_width(came);
  comm.run({.verb = Verb::all_to_all,
            .input = from,
            .output = to,
            .input_count = sum_of(given),
            .output_count = sum_of(taken),
            .element = element,
            .uneven = true,
            .input_parts = {.counts = given},
            .output_parts = {.counts = taken}});
  // As counters count.
  return {Verb::all_to_all, where, std::max(sum_of(given), sum_of(taken)) * element.bytes(), 1, comm.size()};
}

Sentence RowExchange::run(const void* from, std::span<const std::size_t> sent, void* to,
                          std::span<const std::size_t> came, std::size_t width, Element element) {
  if (inside_)
    return run_two_levels(static_cast<const std::byte*>(from), sent, static_cast<std::byte*>(to), came, width, element);
  return {exchange(comm_, "", from, {sent.begin(), sent.end()}, to, {came.begin(), came.end()}, width, element)};
}

Sentence RowExchange::run_two_levels(const std::byte* from, std::span<const std::size_t> sent, std::byte* to,
                                     std::span<const std::size_t> came, std::size_t width, Element element) {
  Sentence said;
  const auto places = static_cast<std::size_t>(inside_->size()), hosts = static_cast<std::size_t>(across_->size());
  const std::size_t row = width * element.bytes();
  const auto rank_at = [&](std::size_t host, std::size_t place) {
    return static_cast<std::size_t>(at_[host * places + place]);
  };
  const auto copy = [&](std::byte* into, const std::byte* out_of, std::size_t rows) {
    if (rows > 0) std::memcpy(into, out_of, rows * row);
    return into + rows * row;
  };

  // Inside: for each place, the rows for it on every host; and how many these are.
  const Counts sent_begins = begins_of(sent), came_begins = begins_of(came);
  std::vector<std::uint64_t> counts, others(places * hosts);  // by place, by host
  Counts inside_sent(places), inside_came(places), across_sent(hosts), across_came(hosts);
  packed_.resize(sum_of(sent) * row);
  std::byte* next = packed_.data();
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t host = 0; host < hosts; ++host) {
      const std::size_t rank = rank_at(host, place);
      next = copy(next, from + sent_begins[rank] * row, sent[rank]);
      counts.push_back(sent[rank]);
      inside_sent[place] += sent[rank];
    }
  }
  inside_->all_to_all(counts, others);
  said.push_back({Verb::all_to_all, ", rows for each rank", counts.size() * sizeof(std::uint64_t), 1, inside_->size()});
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t host = 0; host < hosts; ++host) {
      inside_came[place] += others[place * hosts + host];
      across_sent[host] += others[place * hosts + host];
      across_came[host] += came[rank_at(host, place)];
    }
  }
  middle_.resize(sum_of(inside_came) * row);
  said.push_back(exchange(*inside_, ", inside the host", packed_.data(), inside_sent, middle_.data(), inside_came,
                          width, element));

  // Across: for each host, what the places of this one have for it.
  packed_.resize(middle_.size());
  Counts next_of = begins_of(across_sent);
  const std::byte* out_of = middle_.data();
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t host = 0; host < hosts; ++host) {
      const std::size_t rows = others[place * hosts + host];
      copy(packed_.data() + next_of[host] * row, out_of, rows);
      next_of[host] += rows;
      out_of += rows * row;
    }
  }
  middle_.resize(sum_of(came) * row);
  said.push_back(
      exchange(*across_, ", across hosts", packed_.data(), across_sent, middle_.data(), across_came, width, element));
  out_of = middle_.data();
  for (std::size_t host = 0; host < hosts; ++host) {
    for (std::size_t place = 0; place < places; ++place) {
      const std::size_t rank = rank_at(host, place);
      copy(to + came_begins[rank] * row, out_of, came[rank]);
      out_of += came[rank] * row;
    }
  }
  return said;
}

Counters RowExchange::counters() const {
  Counters counters = comm_.counters();
  for (const std::optional<Communicator>* level : {&inside_, &across_})
    if (*level) add_counters(counters, (*level)->counters());
  return counters;
}

}  // namespace tutti::train
