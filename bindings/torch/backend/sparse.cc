// all_reduce of sparse tensors: every rank gets the entries of all ranks, and adds those of one place in rank order.
//
// How many entries there are is known to their rank alone, so the ranks tell each other first: the call returns when
// all of them have made it, async or not.
#include <algorithm>
#include <numeric>

#include "backend/backend.h"
#include "backend/titles.h"

namespace tutti::pytorch {
namespace {

constexpr std::int64_t kMostDimensions = 16;
constexpr std::int64_t kHeader = 4 + kMostDimensions;  // entries, type, dimensions that are sparse and dense, lengths

at::Tensor header_of(const at::Tensor& tensor) {
  at::Tensor header = at::zeros({kHeader}, at::kLong);
  auto* word = header.mutable_data_ptr<std::int64_t>();
  *word++ = tensor._nnz();
  *word++ = static_cast<std::int64_t>(tensor.scalar_type());
  *word++ = tensor.sparse_dim();
  *word++ = tensor.dense_dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), word);
  return header;
}

// Throws unless all ranks have tensors of one kind; else how many entries each has.
std::vector<std::int64_t> entries_of(const at::Tensor& headers, int rank, const char* verb) {
  std::vector<std::int64_t> entries;
  const at::Tensor own = headers[rank];
  for (std::int64_t other = 0; other < headers.size(0); ++other) {
    if (!headers[other].slice(0, 1).equal(own.slice(0, 1))) {
      throw_value(std::string(verb) + " of sparse tensors: rank " + std::to_string(other) + " and rank " +
                  std::to_string(rank) + " of the group have tensors of different shapes or types");
    }
    entries.push_back(headers[other][0].item<std::int64_t>());
  }
  return entries;
}

// The chunks of an all_gather_v by rows.
std::vector<std::size_t> counts_of_rows(const std::vector<std::int64_t>& rows, const at::Tensor& sample) {
  std::vector<std::size_t> counts;
  const std::int64_t row = c10::multiply_integers(sample.sizes().slice(1));
  for (const std::int64_t many : rows) counts.push_back(static_cast<std::size_t>(many * row));
  return counts;
}

at::Tensor room_for_rows(std::int64_t rows, const at::Tensor& sample) {
  std::vector<std::int64_t> sizes = sample.sizes().vec();
  sizes.front() = rows;
  return at::empty(sizes, sample.options());
}

void require_reducible(const Tensors& tensors, const c10d::ReduceOp& op, const char* verb) {
  const std::string where = std::string(verb) + " of sparse tensors: ";
  if (tensors.size() != 1) throw_value(where + "one tensor is needed, not " + std::to_string(tensors.size()));
  const at::Tensor& tensor = tensors.front();
  if (tensor.layout() != at::kSparse || !tensor.device().is_cpu()) {
    throw_value(where + "a tensor is " + c10::str(tensor.layout()) + " on " + tensor.device().str() +
                "; tutti reduces sparse COO tensors on the CPU, and dense ones: see to_sparse() and to_dense()");
  }
  if (tensor.dim() > kMostDimensions) {
    throw_value(where + "a tensor has " + std::to_string(tensor.dim()) + " dimensions, more than " +
                std::to_string(kMostDimensions));
  }
  static_cast<void>(type_to_reduce(tensor, verb));
  if (op != c10d::ReduceOp::SUM && op != c10d::ReduceOp::AVG) {
    throw_value(where + "SUM and AVG are the operators that places without entries leave alone");
  }
  if (op == c10d::ReduceOp::AVG && !tensor.is_floating_point() && !tensor.is_complex()) {
    throw_value(where + "AVG wants floating-point numbers, not " + c10::str(tensor.scalar_type()));
  }
}

}  // namespace

C10dWork Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Title& title = kAllReduceSparse;
  require_reducible(tensors, options.reduceOp, title.verb);
  const at::Tensor& tensor = tensors.front();
  const at::NoGradGuard no_gradients;
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor places = mine._indices().t().contiguous(), values = mine._values().contiguous();

  at::Tensor header = header_of(mine), headers = at::empty({getSize() * kHeader}, at::kLong);
  c10d::AllgatherOptions first;
  first.timeout = options.timeout;
  _allgather_base(headers, header, first)->wait();
  const auto entries = entries_of(headers.view({getSize(), kHeader}), getRank(), title.verb);

  const std::int64_t all = std::accumulate(entries.begin(), entries.end(), std::int64_t{0});
  const at::Tensor all_places = room_for_rows(all, places), all_values = room_for_rows(all, values);
  Call call{title, values, tensors};
  call.keep({places, values, all_places, all_values});
  call.copies = [=, size = getSize(), average = options.reduceOp == c10d::ReduceOp::AVG] {
    const at::NoGradGuard none;
    at::Tensor sum = at::sparse_coo_tensor(all_places.t(), all_values, tensor.sizes()).coalesce();
    if (average) sum._values().div_(size);
    const at::AutoDispatchBelowADInplaceOrView below;
    tensor.copy_(sum);
  };
  return launch(call, manner_of(options), [&](Parts& parts) {
    for (const auto& [source, target] : {std::pair(&places, &all_places), std::pair(&values, &all_values)}) {
      const auto counts = counts_of_rows(entries, *source);
      parts.add([&](tutti_comm to, tutti_work* handle) {
        return tutti_all_gather_v(to, source->const_data_ptr(), count_of(*source), target->data_ptr(), counts.data(),
                                  nullptr, type_to_move(*source), handle);
      });
    }
  });
}

}  // namespace tutti::pytorch
