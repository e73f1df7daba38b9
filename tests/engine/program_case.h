// One call by one row of the table: what its ranks give, what they must get, and buffers that show what was touched.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/execute/operation.h"
#include "schedule/algorithms/table.h"
#include "tutti/types.h"

namespace tutti::testing {

using Bytes = std::vector<std::byte>;

struct ProgramCase {
  const schedule::Algorithm& row;
  int ranks, root;
  std::size_t count;
  bool in_place;
  Hosts hosts = {};

  bool canonical() const { return schedule::is_canonical(row, hosts, ranks); }
  // Orders that are not the canonical one are compared in integers.
  DType type() const { return canonical() ? DType::float32 : DType::int32; }
  ReduceOp op() const {
    return canonical() && !schedule::facts_of(row.verb).prefix ? ReduceOp::average : ReduceOp::sum;
  }
  bool chunks() const { return schedule::facts_of(row.verb).cut == schedule::Cut::chunks; }
  // Bytes of a buffer of `rank`.
  std::size_t bytes(schedule::Buffer buffer, int rank) const;
  Bytes input_of(int rank) const;
  // The chunk of rank `chunk` in what `rank` gives.
  Bytes chunk_of(int rank, int chunk) const;
  // What the verb means, written down without the library's tables.
  Bytes expected_of(int rank) const;
  std::string words() const;
};

// The roots that are worth a try.
std::vector<int> roots_of(const schedule::Algorithm& row, int ranks);

// The buffers of one rank, filled, with guards around.
class CaseBuffers {
 public:
  CaseBuffers(const ProgramCase& c, int rank);

  engine::Binding binding();
  std::byte* input() { return input_; }
  std::byte* output() { return output_; }
  // Throws where the output is not what it must be, or anything else was touched.
  void require_right() const;

 private:
  class Memory {
   public:
    explicit Memory(std::size_t bytes);
    std::byte* data() { return memory_.data() + kGuard; }
    bool guards_intact() const;

   private:
    static constexpr std::size_t kGuard = 64;  // bytes around a buffer that nobody may touch
    std::size_t bytes_;
    Bytes memory_;
  };

  ProgramCase case_;
  int rank_;
  Bytes given_;
  bool shared_;  // one memory for both
  Memory first_, second_;
  std::byte *input_, *output_;
};

}  // namespace tutti::testing
