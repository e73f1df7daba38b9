#include "tools/bench/rank.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "tools/bench/driver/serve.h"
#include "tutti/init.h"

namespace tutti::bench {
namespace {

// Measures through Communicator::run, what every typed function comes down to. Buffers on a device have others in host
// memory stand for them while they are filled and compared.
class Ours {
 public:
  Ours(int rank, int ranks)
      : rank_(rank),
        ranks_(ranks),
        device_(variable(kMemoryVariable) == "devices" ? kOwnDevice : 0),
        on_device_(device_ == kOwnDevice || variable(kMemoryVariable) == "device") {
    current_ = &communicator_for({});
    if (on_device_) alone_ = current_->communicator.split(rank, 0);
  }

  static std::string about() { return "Tutti"; }

  std::string prepare(const Seat& seat) {
    seat_ = seat;
    // Communicators of algorithms that are done with would only hold memory.
    std::erase_if(groups_, [&](const auto& entry) {
      return !entry.first.algorithm.empty() && entry.first.verb != seat.cell.verb;
    });
    const bool forced = !seat.cell.algorithm.empty();
    try {
      current_ =
          &communicator_for({seat.cell.symmetric, forced ? seat.cell.verb : Verb::all_reduce, seat.cell.algorithm});
    } catch (const Error& error) {
      const bool alike = error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported;
      if (!alike) throw;
      current_ = &communicator_for({});
      return error.what();
    }
    request_ = {.verb = seat.cell.verb,
                .input_count = seat.input_count(),
                .output_count = seat.output_count(),
                .element = seat.cell.type,
                .op = seat.cell.op,
                .root = seat.cell.root};
    return "";
  }

  std::byte* memory(const Seat& seat, std::size_t slot, std::uint64_t bytes) {
    const std::uint64_t all_alike = Layout::most_bytes(seat.cell, seat.ranks);
    if (on_device_) {
      Mirror& mirror = mirrors_[slot];
      mirror.host = ordinary_[slot].at_least(all_alike);
      if (mirror.bytes < all_alike) {
        mirror.device.reset();
        mirror.device = current_->communicator.allocate_device_bytes(all_alike, device_);
        mirror.bytes = all_alike;
      }
      return mirror.host;
    }
    if (!seat.cell.symmetric) return ordinary_[slot].at_least(bytes);
    Group& group = *current_;
    if (group.bytes < all_alike) {
      group.symmetric.reset();
      group.symmetric = group.communicator.allocate_bytes(all_alike);
      group.bytes = all_alike;
    }
    return static_cast<std::byte*>(group.symmetric.get());
  }

  void written(std::size_t slot) {
    if (on_device_) copy(mirrors_[slot].host, mirrors_[slot].device.get(), mirrors_[slot].bytes);
  }
  void read(std::size_t slot) {
    if (on_device_) copy(mirrors_[slot].device.get(), mirrors_[slot].host, mirrors_[slot].bytes);
  }

  void call(const Buffers& given) {
    const Buffers buffers = on_device_ ? mirrored(given) : given;
    if (seat_.cell.verb == Verb::send_recv) {
      const Messages both = messages(buffers);
      current_->communicator.exchange(both.sent, both.received);
      return;
    }
    request_.input = buffers.input;
    request_.output = buffers.output;
    current_->communicator.run(request_);
  }

  double predicted_us(const Buffers& given) {
    const Buffers buffers = on_device_ ? mirrored(given) : given;
    if (seat_.cell.verb == Verb::send_recv) {
      const Messages both = messages(buffers);
      return current_->communicator.predicted_us(both.sent, both.received);
    }
    request_.input = buffers.input;
    request_.output = buffers.output;
    return current_->communicator.predicted_us(request_);
  }

  void barrier() { current_->communicator.barrier(); }

  std::string algorithm() const {
    const bool message = seat_.cell.verb == Verb::send_recv;
    const std::string_view name = message ? "message" : current_->communicator.last_algorithm();
    return name.empty() ? "-" : std::string(name);
  }

 private:
  struct Key {
    bool symmetric = false;
    Verb verb = Verb::all_reduce;  // of the algorithm
    std::string algorithm = {};
    auto operator<=>(const Key&) const = default;
  };
  struct Group {
    Communicator communicator;
    std::shared_ptr<void> symmetric = {};
    std::uint64_t bytes = 0;
  };

  // Memory of a device, and that of the host which stands for it.
  struct Mirror {
    std::byte* host = nullptr;
    std::shared_ptr<void> device = {};
    std::uint64_t bytes = 0;
  };

  // By the library itself: what a rank gathers from itself is a copy, wherever both lie.
  void copy(const void* from, void* to, std::uint64_t bytes) {
    if (bytes == 0) return;
    alone_->run({.verb = Verb::all_gather,
                 .input = from,
                 .output = to,
                 .input_count = bytes,
                 .output_count = bytes,
                 .element = DType::uint8});
  }

  Buffers mirrored(Buffers buffers) const {
    for (std::byte** const buffer : {&buffers.input, &buffers.output}) {
      for (const auto& [slot, mirror] : mirrors_) {
        if (*buffer == nullptr || *buffer < mirror.host || *buffer >= mirror.host + mirror.bytes) continue;
        *buffer = static_cast<std::byte*>(mirror.device.get()) + (*buffer - mirror.host);
        break;
      }
    }
    return buffers;
  }

  // Ordinary and symmetric memory have communicators of their own: where symmetric memory exists, calls look for it.
  Group& communicator_for(const Key& key) {
    if (const auto found = groups_.find(key); found != groups_.end()) return found->second;
    Options options;
    // A schedule that is brought may reduce in any order.
    options.deterministic = !Environment::of_process().get("TUTTI_SCHEDULE").has_value();
    if (!key.algorithm.empty()) options.algorithm = std::string(name_of(key.verb)) + "=" + key.algorithm;
    return groups_.emplace(key, Group{init(options)}).first->second;
  }

  // To the right, from the left.
  struct Messages {
    Request sent, received;
  };
  Messages messages(const Buffers& buffers) const {
    Request sent{.verb = Verb::send_recv, .element = seat_.cell.type};
    Request received = sent;
    sent.input = buffers.input;
    sent.input_count = seat_.cell.count;
    sent.direction = Direction::send;
    sent.peer = (rank_ + 1) % ranks_;
    received.output = buffers.output;
    received.output_count = seat_.cell.count;
    received.direction = Direction::receive;
    received.peer = (rank_ + ranks_ - 1) % ranks_;
    return {sent, received};
  }

  int rank_, ranks_, device_;
  bool on_device_;
  Seat seat_;
  Request request_;
  std::map<Key, Group> groups_;
  Group* current_ = nullptr;
  std::map<std::size_t, OwnMemory> ordinary_;  // by slot
  std::map<std::size_t, Mirror> mirrors_;      // likewise
  std::optional<Communicator> alone_;          // this rank
};

}  // namespace

int run_rank() {
  try {
    const int rank = number_in(kRankVariable), ranks = number_in(kRanksVariable);
    take_place(rank);
    Ours ours(rank, ranks);
    return serve(ours, rank, ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace tutti::bench
