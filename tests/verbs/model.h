// What every verb must give, worked out naively on each rank from the inputs of all, and a call held against it.
//
// Invariant: an input is a function of (type, rank, index) alone, so that every rank knows every other's, and a result
// is a function of the inputs at its own index: reductions in canonical order, prefixes in theirs (base/canonical.h).
// What a call may change is the elements of its output: all other bytes around and between the buffers are compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hosts.h"
#include "tutti/communicator.h"

namespace tutti::testing {

struct Case {
  Verb verb = Verb::all_reduce;
  DType type = DType::float32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;  // elements of the vector, or of each chunk
  int root = 0;
  bool in_place = false;
};
std::string words_of(const Case& test);

bool reduces(Verb verb);
bool takes_chunks(Verb verb);
// Whether the verb has the operator on elements of the type, by the documentation.
bool has_operator(Verb verb, DType type, ReduceOp op);

// Elements of the buffers that the verb uses on `rank`.
std::size_t input_count(const Case& test, int ranks, int rank);
std::size_t output_count(const Case& test, int ranks, int rank);

// The factor of premul_sum.
inline double factor_of(int rank) { return 1.5 + rank; }

// The inputs of all ranks, of one type, and what they reduce to.
class Model {
 public:
  using Bytes = std::vector<std::byte>;
  using Inputs = std::vector<Bytes>;  // by rank

  // To be made before ranks start, where many of them share it.
  static std::shared_ptr<const Inputs> make_inputs(DType type, int ranks, std::size_t count);

  Model(DType type, int ranks, std::size_t count) : Model(type, ranks, make_inputs(type, ranks, count)) {}
  // Of the first `ranks` ranks.
  Model(DType type, int ranks, std::shared_ptr<const Inputs> inputs);

  // Reduced hosts first from now on.
  void place(const Hosts& hosts);

  DType type() const { return type_; }
  int ranks() const { return ranks_; }
  const std::byte* input(int rank, std::size_t first) const;
  // Over all ranks.
  const std::byte* reduced(ReduceOp op, std::size_t first);
  // Over ranks 0 .. rank.
  const std::byte* prefix(ReduceOp op, int rank, std::size_t first);
  // What the elements of the case's output on `rank` must be, where the inputs begin with element `first`.
  Bytes output(const Case& test, int rank, std::size_t first);

 private:
  const std::byte* at(const Bytes& bytes, std::size_t first) const { return bytes.data() + first * size_of(type_); }

  DType type_;
  int ranks_;
  std::shared_ptr<const Inputs> inputs_;
  std::size_t count_;
  Hosts hosts_;
  std::array<Bytes, kReduceOps> reduced_;
  std::array<std::vector<Bytes>, kReduceOps> prefixes_;
};

// Memory that a case's buffers are put into, each with a margin that nobody may touch. In place both lie in `output`.
struct Areas {
  std::span<std::byte> input, output;
};
inline constexpr std::size_t kMargin = 80;  // no multiple of a cache line, but of every alignment
constexpr std::size_t area_bytes(std::size_t bytes) { return bytes + 2 * kMargin; }

// Two areas of ordinary memory.
class OrdinaryAreas {
 public:
  explicit OrdinaryAreas(std::size_t bytes) : input_(area_bytes(bytes)), output_(area_bytes(bytes)) {}
  Areas areas() { return {input_, output_}; }

 private:
  std::vector<std::byte> input_, output_;
};

// A case on its way: lays out the buffers, starts the call, and checks what it left.
class Trial {
 public:
  Trial(Communicator& comm, Model& model, const Case& test, const Areas& areas, std::size_t first);

  // What to run: one request, but two for messages (to the next rank, and from the one before).
  std::span<const Request> requests() const { return {requests_.data(), requests_.size()}; }
  void run(Communicator& comm);
  std::vector<Work> start(Communicator& comm);
  // Throws where the memory is not what it must be now.
  void check() const;

 private:
  struct Image {
    std::span<std::byte> area;
    Model::Bytes expected;
  };

  std::string name_;
  std::size_t element_bytes_;
  std::vector<Request> requests_;
  std::vector<Image> images_;
};

// Lays out, runs and checks.
void run_case(Communicator& comm, Model& model, const Case& test, const Areas& areas, std::size_t first);

}  // namespace tutti::testing
