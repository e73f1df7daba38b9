// Every function of tutti/torch.h on every rank of a job: results, element types, tensors that lie in memory in other
// orders, and the words for tensors that cannot be used. Exits with the number of things that were wrong.
#include <torch/torch.h>
#include <tutti/torch.h>

#include <tutti/tutti.hpp>

#include "torch/job_checks.h"

namespace {

using job_checks::expect;
using job_checks::words_of;
using torch::Tensor;

void check_types(tutti::Communicator& comm) {
  const int p = comm.size();
  for (const auto type : {at::kChar, at::kShort, at::kInt, at::kLong, at::kByte, at::kHalf, at::kBFloat16, at::kFloat,
                          at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kUInt16, at::kUInt32, at::kUInt64}) {
    const Tensor x = torch::full({5}, comm.rank() + 1, at::kLong).to(type);
    tutti::all_reduce(comm, x);
    expect(torch::equal(x.to(at::kComplexDouble), torch::full({5}, p * (p + 1) / 2, at::kComplexDouble)),
           std::string("sum of ") + c10::toString(type), comm.rank());
    expect(tutti::element_of(x).bytes() == static_cast<std::size_t>(x.element_size()), "bytes of an element",
           comm.rank());
  }
  const Tensor flags = torch::tensor({comm.rank() == 0, false, true});
  tutti::all_reduce(comm, flags, tutti::ReduceOp::maximum);
  expect(torch::equal(flags, torch::tensor({true, false, true})), "booleans", comm.rank());
  // No operator, but it moves.
  const Tensor small = torch::full({3}, comm.rank() + 1.0).to(at::kFloat8_e5m2);
  tutti::broadcast(comm, small, 1);
  expect(torch::equal(small.to(at::kFloat), torch::full({3}, 2.0)), "8-bit floats", comm.rank());
}

void check_in_place(tutti::Communicator& comm) {
  const int p = comm.size(), rank = comm.rank();
  const Tensor whole = torch::full({4, 6}, double(rank)), turned = whole.t(), column = whole.select(1, 2);
  tutti::all_reduce(comm, column, tutti::ReduceOp::average);
  expect((column == (p - 1) / 2.0).all().item<bool>() && (whole.select(1, 1) == rank).all().item<bool>(),
         "a column is written, its neighbours are not", rank);
  const Tensor numbered = torch::arange(24.0).view({4, 6}) * (rank == 2 ? 1 : 0);
  tutti::broadcast(comm, numbered.t(), 2);
  expect(torch::equal(numbered, torch::arange(24.0).view({4, 6})), "a transposed tensor", rank);
  const Tensor part = torch::full({3}, rank + 1.0);
  tutti::reduce(comm, part, 1);
  expect((part == (rank == 1 ? p * (p + 1) / 2.0 : rank + 1.0)).all().item<bool>(), "reduce", rank);
  // What is conjugated only when it is looked at.
  const Tensor complex = torch::complex(torch::ones({3}), torch::full({3}, double(rank))).to(at::kComplexFloat);
  const Tensor conjugate = complex.conj();
  tutti::all_reduce(comm, conjugate);
  expect((at::imag(conjugate.resolve_conj()) == -(p * (p - 1) / 2.0)).all().item<bool>(), "a conjugate", rank);
  const Tensor nothing = torch::empty({0, 3});
  tutti::all_reduce(comm, nothing);
  // Autograd must notice that what it saved was written.
  const Tensor leaf = torch::ones({2}, torch::requires_grad()), squared = leaf * 2;
  const Tensor result = squared.square().sum();
  tutti::all_reduce(comm, squared);
  bool noticed = false;
  try {
    result.backward();
  } catch (const std::exception&) {
    noticed = true;
  }
  expect(noticed, "autograd does not notice", rank);
}

void check_chunks(tutti::Communicator& comm) {
  const int p = comm.size(), rank = comm.rank();
  const Tensor mine = torch::full({2, 3}, double(rank));
  const Tensor all = tutti::all_gather(comm, mine);
  expect(all.sizes() == torch::IntArrayRef({2 * p, 3}) && (all[2 * (p - 1)] == p - 1).all().item<bool>(), "all_gather",
         rank);
  expect(tutti::all_gather(comm, torch::tensor(1.0 * rank)).equal(torch::arange(p, at::kFloat)),
         "all_gather of single numbers", rank);
  const Tensor share = tutti::reduce_scatter(comm, all.t().contiguous().t(), tutti::ReduceOp::average);
  expect(share.sizes() == mine.sizes() && (share == rank).all().item<bool>(), "reduce_scatter", rank);
  const Tensor gathered = tutti::gather(comm, mine.t(), 1);
  expect(gathered.defined() == (rank == 1) && (rank != 1 || (gathered[3 * 2] == 2).all().item<bool>()), "gather", rank);
  const Tensor got = torch::zeros({3, 2}).t();
  tutti::scatter(comm, rank == 2 ? all * 10 : Tensor(), got, 2);
  expect((got == 10.0 * rank).all().item<bool>(), "scatter", rank);
  const Tensor turned = tutti::all_to_all(comm, torch::arange(p, at::kFloat) + 100 * rank);
  expect(turned.equal(100 * torch::arange(p, at::kFloat) + rank), "all_to_all", rank);
  // Rank a sends b + 1 rows to rank b.
  std::vector<std::int64_t> sent, received;
  for (int peer = 0; peer < p; ++peer) {
    sent.push_back(peer + 1);
    received.push_back(rank + 1);
  }
  const Tensor uneven = tutti::all_to_all(comm, torch::full({p * (p + 1) / 2, 2}, double(rank)), sent, received);
  expect(uneven.size(0) == p * (rank + 1) && (uneven[(rank + 1) * (p - 1)] == p - 1).all().item<bool>(),
         "uneven all_to_all", rank);
  const Tensor message = torch::zeros({2, 2}).t();
  if (rank == 0) tutti::send(comm, torch::arange(4.0).view({2, 2}), p - 1, 7);
  if (rank == p - 1) {
    const tutti::Received from = tutti::recv(comm, message, tutti::kAnySource, 7);
    expect(from.source == 0 && torch::equal(message, torch::arange(4.0).view({2, 2})), "a message", rank);
  }
}

void check_words(tutti::Communicator& comm) {
  using enum tutti::ErrorCode;
  const auto says = [&](const std::string& words, const std::string& part) {
    job_checks::says(words, part, comm.rank());
  };
  const auto sum = [&](const Tensor& tensor) { return [&comm, tensor] { tutti::all_reduce(comm, tensor); }; };
  says(words_of(sum(Tensor()), invalid_argument), "all_reduce: the tensor is undefined");
  says(words_of(sum(torch::ones({2}).to_sparse()), unsupported), "not dense");
  says(words_of(sum(torch::empty({2}, torch::device(at::kMeta))), unsupported), "on meta");
  says(words_of(sum(torch::ones({1}).expand({3})), invalid_argument), "share memory");
  says(words_of([&] { tutti::reduce_scatter(comm, torch::ones({comm.size() + 1})); }, invalid_argument),
       "no multiple of the");
  says(words_of([&] { tutti::all_gather(comm, torch::ones({1}), torch::ones({4}, at::kLong)); }, invalid_argument),
       "input is Float and output is Long");
  const std::string opaque = words_of(sum(torch::ones({2}).to(at::kFloat8_e5m2)), unsupported);
  says(opaque, "all_reduce");
}

struct Uneven : torch::nn::Module {
  Uneven() {
    used = register_module("used", torch::nn::Linear(3, 2));
    sometimes = register_module("sometimes", torch::nn::Linear(2, 2));
    never = register_module("never", torch::nn::Linear(2, 2));
    half = register_parameter("half", torch::randn({4}).to(at::kBFloat16));
    register_buffer("seen", torch::randint(100, {3}));
  }
  torch::nn::Linear used{nullptr}, sometimes{nullptr}, never{nullptr};
  Tensor half;
};

void check_modules(tutti::Communicator& comm) {
  const int p = comm.size(), rank = comm.rank();
  torch::manual_seed(rank);
  Uneven model;
  tutti::broadcast_parameters(comm, model, 1);
  torch::manual_seed(1);
  const Uneven expected;
  for (const auto& parameter : expected.named_parameters())
    expect(torch::equal(parameter.value(), model.named_parameters()[parameter.key()]), "parameters of rank 1", rank);
  expect(torch::equal(expected.named_buffers()["seen"], model.named_buffers()["seen"]), "buffers of rank 1", rank);

  for (int again = 0; again < 2; ++again) {
    model.zero_grad();
    Tensor y = model.used(torch::full({1, 3}, double(rank + 1)));
    if (rank == 0) y = model.sometimes(y);
    (y.sum() + (model.half.to(at::kFloat) * rank).sum()).backward();
    const Tensor local = model.used->weight.grad().clone();
    tutti::average_gradients(comm, model);
    const Tensor rows = tutti::all_gather(comm, local.unsqueeze(0));
    expect(torch::allclose(model.used->weight.grad(), rows.mean(0)), "mean of gradients", rank);
    expect((model.half.grad() == (p - 1) / 2.0).all().item<bool>(), "mean of bfloat16 gradients", rank);
    expect((model.sometimes->bias.grad() == 1.0 / p).all().item<bool>(), "a gradient that one rank has", rank);
    expect(!model.never->bias.grad().defined(), "a gradient that nobody has", rank);
  }
  // Another model on one rank is told, by all, before anything is written.
  torch::nn::Linear other(2, rank == 2 ? 3 : 2);
  const std::string words = words_of([&] { tutti::broadcast_parameters(comm, *other); }, tutti::ErrorCode::mismatch);
  expect(words.find("rank 2") != std::string::npos, words, rank);
}

}  // namespace

int main() { return job_checks::run(check_types, check_in_place, check_chunks, check_words, check_modules); }
