// Calls on host memory and on the memory of devices, which are to leave the same bits in both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "device/device_memory.h"

namespace tutti::testing {

// The algorithm where one launch does all, and where each device does its share.
inline constexpr std::string_view kLaunched = "one_launch", kShared = "own_shares";

// Elements of any type, with what floats have special among them.
inline std::vector<std::byte> make_values(DType type, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * size_of(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto put = [&](std::size_t i, auto value) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(static_cast<std::int64_t>(random() % 2000) - 1000) / 64;
    const bool special = i % 97 == seed % 97;
    if (type == DType::float32)
      put(i, special ? std::numeric_limits<float>::infinity() : static_cast<float>(value / 3));
    if (type == DType::float64) put(i, special ? -std::numeric_limits<double>::quiet_NaN() : value / 3);
  }
  return bytes;
}

// Which device the buffers of a rank lie on, and what does a call then.
struct Place {
  int device = 0;
  std::string_view way = kLaunched;
};

struct Case {
  DType type;
  ReduceOp op;
};

// Of the processor, and of the device: the same bits.
inline void compare(Communicator& comm, const Case& tried, std::size_t count, std::size_t shift, bool in_place,
                    const Place& place = {}) {
  const std::size_t element = size_of(tried.type), bytes = count * element;
  const auto values = make_values(tried.type, count, static_cast<unsigned>(comm.rank() + 7));
  std::vector<std::byte> expected(bytes), found(bytes);
  comm.run(all_reduce_of(values.data(), expected.data(), count, tried.type, tried.op));
  const DeviceBytes input(bytes + shift * element, place.device), output(bytes + shift * element, place.device);
  std::byte* const from = input.data() + shift * element;
  std::byte* const to = in_place ? from : output.data() + shift * element;
  input.write(values.data(), bytes, shift * element);
  comm.run(all_reduce_of(from, to, count, tried.type, tried.op));
  const std::string what = std::string(name_of(tried.type)) + " " + std::string(name_of(tried.op)) + " of " +
                           std::to_string(count) + ", shifted by " + std::to_string(shift);
  require(comm.last_algorithm() == place.way, what + " was done by " + std::string(comm.last_algorithm()));
  (in_place ? input : output).read(found.data(), bytes, shift * element);
  require(found == expected, what + ": other bits than the processor's");
}

// One verb on both: in host memory, and on the device behind `shift` elements of others, which stay.
struct VerbCase {
  Verb verb;
  int root;
  bool in_place;
  std::size_t count, shift;
  DType type;
  bool launched = true;
  Place place = {};
};

class VerbOnBoth {
 public:
  VerbOnBoth(Communicator& comm, const VerbCase& tried) : comm_(comm), tried_(tried) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const bool chunks = tried.verb == Verb::all_gather || tried.verb == Verb::gather || tried.verb == Verb::scatter ||
                        tried.verb == Verb::reduce_scatter || tried.verb == Verb::all_to_all;
    const bool collects = tried.verb == Verb::all_gather || tried.verb == Verb::gather;
    const bool deals = tried.verb == Verb::scatter || tried.verb == Verb::reduce_scatter;
    const bool is_root = comm.rank() == tried.root;
    in_ = !chunks || collects ? tried.count : tried.count * ranks;
    out_ = !chunks || deals ? tried.count : tried.count * ranks;
    if ((tried.verb == Verb::scatter || tried.verb == Verb::broadcast) && !is_root) in_ = 0;
    if ((tried.verb == Verb::gather || tried.verb == Verb::reduce) && !is_root) out_ = 0;
    // In place one of them lies within the other, unless this rank has only one.
    if (!tried.in_place || in_ == 0 || out_ == 0) return;
    const std::size_t own = tried.count * static_cast<std::size_t>(comm.rank());
    (collects ? in_at_ : out_at_) = in_ == out_ ? 0 : own;
    shared_ = true;
  }

  void run() {
    const std::size_t element = size_of(tried_.type);
    const std::size_t total = tried_.shift + std::max(in_, out_);
    auto one = make_values(tried_.type, total, static_cast<unsigned>(comm_.rank() + 7));
    auto two = make_values(tried_.type, total, static_cast<unsigned>(comm_.rank() + 70));
    const DeviceBytes first(total * element, tried_.place.device), second(total * element, tried_.place.device);
    first.write(one.data(), first.size());
    second.write(two.data(), second.size());
    call(one.data(), two.data());
    call(first.data(), second.data());
    const std::string what = std::string(name_of(tried_.verb)) + " of " + std::to_string(tried_.count) + " " +
                             std::string(name_of(tried_.type)) + (tried_.in_place ? " in place" : "") +
                             ", shifted by " + std::to_string(tried_.shift);
    const std::string algorithm(comm_.last_algorithm());
    require((algorithm == tried_.place.way) == tried_.launched, what + " was done by " + algorithm);
    std::vector<std::byte> found(total * element);
    first.read(found.data(), found.size());
    require(found == one, what + ": other bits than the processor's" + (shared_ ? "" : ", in the input"));
    second.read(found.data(), found.size());
    require(found == two, what + ": other bits than the processor's");
  }

 private:
  void call(std::byte* one, std::byte* two) {
    const std::size_t element = size_of(tried_.type);
    std::byte* const input = one + (tried_.shift + in_at_) * element;
    std::byte* const output = (shared_ ? one : two) + (tried_.shift + out_at_) * element;
    comm_.run({.verb = tried_.verb,
               .input = in_ == 0 ? nullptr : input,
               .output = out_ == 0 ? nullptr : output,
               .input_count = in_,
               .output_count = out_,
               .element = tried_.type,
               .op = ReduceOp::sum,
               .root = tried_.root});
  }

  Communicator& comm_;
  VerbCase tried_;
  std::size_t in_ = 0, out_ = 0, in_at_ = 0, out_at_ = 0;  // elements
  bool shared_ = false;
};

inline constexpr Verb kOtherVerbs[] = {Verb::broadcast,  Verb::reduce,         Verb::scatter,   Verb::gather,
                                       Verb::all_gather, Verb::reduce_scatter, Verb::all_to_all};

}  // namespace tutti::testing
