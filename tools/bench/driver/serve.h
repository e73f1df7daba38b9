// The life of a measured rank: prepare, check and time what it is told, for any library behind the same few functions.
//
// An Implementation has
//   std::string about()                         which library, which version
//   std::string prepare(const Seat&)            calls are of this cell from now on; why they cannot, or nothing
//   std::byte* memory(const Seat&, slot, bytes) so much, at a multiple of kLine, until asked again for the slot
//   void call(const Buffers&)                   the verb, once
//   void barrier()
//   std::string algorithm()                     what the last call ran; "-" where nobody knows
//   double predicted_us(const Buffers&)         what it expects a call to take, 0: it does not say; may be missing
//   void written(slot), void read(slot)         its memory stands for buffers elsewhere: what it holds is to go there,
//                                               or to come from there; may be missing
// All ranks are told the same things in the same order, so each of these may be collective.
#pragma once

#include <chrono>
#include <cstdio>
#include <exception>

#include "tools/bench/driver/values.h"

namespace tutti::bench {

template <class Implementation>
class Server {
 public:
  Server(Implementation& implementation, int rank, int ranks)
      : implementation_(implementation), rank_(rank), ranks_(ranks), lines_(variable(kSocketVariable)) {}

  // Until the other side hangs up, or says that it is the end.
  void run() {
    lines_.write("hello " + std::to_string(rank_) + " " + implementation_.about());
    for (std::string line; lines_.read(line) && line != "end";) lines_.write(answer(line));
  }
  void tell_failure(const std::string& why) { lines_.write("failed " + why); }

 private:
  struct Slot {
    Seat seat;
    std::vector<Buffers> copies;
    std::size_t next = 0;
  };

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command, rest;
    std::size_t slot = 0;
    words >> command >> slot;
    if (command == "prepare" && std::getline(words >> std::ws, rest)) return prepare(slot, cell_of(rest));
    if (slot >= slots_.size()) throw std::runtime_error("not prepared: " + line);
    choose(slot);
    if (command == "check") return check(slot);
    std::uint64_t calls = 0, warm_up = 0;
    if (command == "time" && words >> calls >> warm_up) return time(slots_[slot], calls, warm_up);
    throw std::runtime_error("not understood: " + line);
  }

  void choose(std::size_t slot) {
    if (chosen_ != slot) implementation_.prepare(slots_[slot].seat);
    chosen_ = slot;
  }

  std::string prepare(std::size_t number, const Cell& cell) {
    if (number >= slots_.size()) slots_.resize(number + 1);
    Slot& slot = slots_[number];
    slot = {{cell, rank_, ranks_}, {}, 0};
    chosen_ = number;
    if (const std::string reason = implementation_.prepare(slot.seat); !reason.empty()) return "cannot " + reason;
    const Layout layout(slot.seat);
    std::byte* const memory = implementation_.memory(slot.seat, number, layout.bytes());
    for (std::uint32_t i = 0; i < cell.copies; ++i) slot.copies.push_back(layout.copy(memory, i));
    for (const Buffers& buffers : slot.copies) fill(slot.seat, buffers);
    written(number);
    return "ready";
  }

  // Touches all of it. In place results are inputs again: zeros stay zeros, sums of anything else would overflow.
  static void fill(const Seat& seat, const Buffers& buffers) {
    const std::size_t element = size_of(seat.cell.type);
    if (buffers.output != nullptr) std::memset(buffers.output, 0, seat.output_count() * element);
    if (buffers.input == nullptr) return;
    if (seat.cell.in_place) {
      std::memset(buffers.input, 0, seat.input_count() * element);
    } else {
      fill_input(seat, buffers.input);
    }
  }

  void written(std::size_t number) {
    if constexpr (requires { implementation_.written(number); }) implementation_.written(number);
  }

  std::string check(std::size_t number) {
    const Slot& slot = slots_[number];
    const Seat& seat = slot.seat;
    const Buffers& buffers = slot.copies.front();
    if (buffers.output != nullptr) std::memset(buffers.output, 0xA5, seat.output_count() * size_of(seat.cell.type));
    fill_input(seat, buffers.input);
    written(number);
    implementation_.barrier();
    implementation_.call(buffers);
    if constexpr (requires { implementation_.read(number); }) implementation_.read(number);
    const std::uint64_t wrong = wrong_in(seat, buffers.output);
    std::string answer = "checked " + std::to_string(wrong) + " " + implementation_.algorithm();
    if constexpr (requires { implementation_.predicted_us(buffers); }) {
      char text[32];
      const double us = implementation_.predicted_us(buffers);
      std::snprintf(text, sizeof text, " %.6g", us);
      if (us > 0) answer += text;
    }
    implementation_.barrier();
    fill(seat, buffers);
    written(number);
    return answer;
  }

  std::string time(Slot& slot, std::uint64_t calls, std::uint64_t warm_up) {
    implementation_.barrier();
    run_calls(slot, warm_up);
    implementation_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    run_calls(slot, calls);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    char text[64];
    std::snprintf(text, sizeof text, "took %.12g", took.count() / static_cast<double>(calls));
    return text;
  }

  void run_calls(Slot& slot, std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls; ++i) {
      implementation_.call(slot.copies[slot.next]);
      if (++slot.next == slot.copies.size()) slot.next = 0;
    }
  }

  Implementation& implementation_;
  int rank_, ranks_;
  Lines lines_;
  std::vector<Slot> slots_;
  std::size_t chosen_ = 0;
};

// Returns when the bench has hung up: 0, or 1 after a failure that the bench was told of.
template <class Implementation>
int serve(Implementation& implementation, int rank, int ranks) {
  try {
    Server<Implementation> server(implementation, rank, ranks);
    try {
      server.run();
      return 0;
    } catch (const std::exception& error) {
      server.tell_failure(error.what());
      throw;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  return 1;
}

// Private memory for implementations that have no other.
class OwnMemory {
 public:
  OwnMemory() = default;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() { std::free(memory_); }

  std::byte* at_least(std::uint64_t bytes) {
    constexpr std::uint64_t kPage = 4096;
    if (bytes <= bytes_) return static_cast<std::byte*>(memory_);
    std::free(memory_);
    bytes_ = (bytes + kPage - 1) / kPage * kPage;
    memory_ = std::aligned_alloc(kPage, bytes_);
    if (memory_ == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace tutti::bench
