// mpi_driver: MPI's collectives as ranks that `tutti bench` measures. One source, compiled by each MPI's own compiler.
#include <mpi.h>

#include <climits>

#include "tools/bench/driver/serve.h"

namespace tutti::bench {
namespace {

// MPI_DATATYPE_NULL where MPI has none.
MPI_Datatype type_of(DType type) {
  switch (type) {
    case DType::int8: return MPI_INT8_T;
    case DType::int16: return MPI_INT16_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::uint8: return MPI_UINT8_T;
    case DType::uint16: return MPI_UINT16_T;
    case DType::uint32: return MPI_UINT32_T;
    case DType::uint64: return MPI_UINT64_T;
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::complex64: return MPI_C_FLOAT_COMPLEX;
    case DType::complex128: return MPI_C_DOUBLE_COMPLEX;
    case DType::boolean: return MPI_C_BOOL;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(ReduceOp op, DType type) {
  const bool boolean = type == DType::boolean;
  const bool whole = type < DType::float16 || boolean;  // what MPI has logical operators for
  switch (op) {
    case ReduceOp::sum: return boolean ? MPI_LOR : MPI_SUM;
    case ReduceOp::product: return boolean ? MPI_LAND : MPI_PROD;
    case ReduceOp::minimum: return boolean ? MPI_LAND : MPI_MIN;
    case ReduceOp::maximum: return boolean ? MPI_LOR : MPI_MAX;
    case ReduceOp::band: return boolean ? MPI_LAND : MPI_BAND;
    case ReduceOp::bor: return boolean ? MPI_LOR : MPI_BOR;
    case ReduceOp::bxor: return boolean ? MPI_LXOR : MPI_BXOR;
    case ReduceOp::land: return whole ? MPI_LAND : MPI_OP_NULL;
    case ReduceOp::lor: return whole ? MPI_LOR : MPI_OP_NULL;
    case ReduceOp::lxor: return whole ? MPI_LXOR : MPI_OP_NULL;
    default: return MPI_OP_NULL;
  }
}

class Mpi {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  static std::string about() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string words(text, static_cast<std::size_t>(length));
    for (char& letter : words) letter = letter == '\t' ? ' ' : letter;
    return words.substr(0, words.find_first_of(",\n"));
  }

  std::string prepare(const Seat& seat) {
    const Cell& cell = seat.cell;
    verb_ = cell.verb;
    root_ = cell.root;
    in_place_ = cell.in_place;
    at_root_ = seat.is_root();
    if (cell.symmetric) return "has no symmetric memory";
    if (!cell.algorithm.empty()) return "its algorithms have other names";
    if (verb_ == Verb::broadcast && !in_place_) return "broadcasts in place only";
    if (verb_ == Verb::reduce_scatter && in_place_) return "in place its result lies elsewhere";
    if (cell.count > INT_MAX) return "counts are int";
    count_ = static_cast<int>(cell.count);
    type_ = type_of(cell.type);
    if (type_ == MPI_DATATYPE_NULL) return "MPI has no such type";
    op_ = op_of(cell.op, cell.type);
    if (is_reduction(verb_) && op_ == MPI_OP_NULL) return "MPI has no such operator";
    return "";
  }

  std::byte* memory(const Seat&, std::size_t, std::uint64_t bytes) { return memory_.at_least(bytes); }

  void call(const Buffers& at) {
    const void* const all_in = in_place_ ? MPI_IN_PLACE : at.input;
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (verb_) {
      case Verb::all_reduce: MPI_Allreduce(all_in, at.output, count_, type_, op_, world); break;
      case Verb::broadcast: MPI_Bcast(at.output, count_, type_, root_, world); break;
      case Verb::reduce: MPI_Reduce(at_root_ ? all_in : at.input, at.output, count_, type_, op_, root_, world); break;
      case Verb::scatter: {
        void* const out = in_place_ && at_root_ ? MPI_IN_PLACE : at.output;
        MPI_Scatter(at.input, count_, type_, out, count_, type_, root_, world);
        break;
      }
      case Verb::gather:
        MPI_Gather(at_root_ ? all_in : at.input, count_, type_, at.output, count_, type_, root_, world);
        break;
      case Verb::all_gather: MPI_Allgather(all_in, count_, type_, at.output, count_, type_, world); break;
      case Verb::reduce_scatter: MPI_Reduce_scatter_block(at.input, at.output, count_, type_, op_, world); break;
      case Verb::all_to_all: MPI_Alltoall(all_in, count_, type_, at.output, count_, type_, world); break;
      case Verb::scan: MPI_Scan(all_in, at.output, count_, type_, op_, world); break;
      case Verb::exclusive_scan: MPI_Exscan(all_in, at.output, count_, type_, op_, world); break;
      case Verb::send_recv:
        MPI_Sendrecv(at.input, count_, type_, (rank_ + 1) % ranks_, 0, at.output, count_, type_,
                     (rank_ + ranks_ - 1) % ranks_, 0, world, MPI_STATUS_IGNORE);
        break;
      case Verb::barrier: MPI_Barrier(world); break;
    }
  }

  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  static std::string algorithm() { return "-"; }

 private:
  int rank_ = 0, ranks_ = 1, root_ = 0, count_ = 0;
  Verb verb_ = Verb::barrier;
  bool in_place_ = false, at_root_ = false;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  OwnMemory memory_;
};

// The rank before MPI is asked: pinning comes first, so that MPI sees where it runs.
int rank_told() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const std::string text = variable(name); !text.empty()) return std::stoi(text);
  }
  throw std::runtime_error("started without mpirun");
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) {
  try {
    tutti::bench::take_place(tutti::bench::rank_told());
    MPI_Init(&argc, &argv);
    int code = 0;
    {
      tutti::bench::Mpi mpi;
      code = tutti::bench::serve(mpi, mpi.rank(), mpi.ranks());
    }
    if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
