// What a plan for this host takes a call to cost is what a communicator here predicts.
#include "plan/host_prices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "check.h"
#include "rendezvous/host.h"
#include "topology/discover/cost_file.h"
#include "tutti/local.h"

namespace tutti::plan {
namespace {

// As strategies call it: what is reduced lies in symmetric memory.
double predicted_s(Communicator& comm, Verb verb, std::size_t bytes, std::vector<float>& in, std::vector<float>& out,
                   std::span<float> symmetric) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t whole = bytes / sizeof(float), chunk = whole / ranks;
  Request request{.verb = verb, .input = in.data(), .output = out.data(), .element = DType::float32};
  request.input_count = request.output_count = whole;
  if (verb == Verb::all_gather) request.input_count = chunk;
  if (verb == Verb::reduce_scatter) request.output_count = chunk;
  if (verb == Verb::all_reduce || verb == Verb::reduce_scatter) {
    request.input = symmetric.data();
    request.output = symmetric.data() + (verb == Verb::all_reduce ? 0 : chunk * static_cast<std::size_t>(comm.rank()));
  }
  return comm.predicted_us(request) * 1e-6;
}

TEST(HostPrices, AreWhatCommunicatorsPredict) {
  const topology::FoundCosts found = topology::find_costs(Environment::of_process(), {rendezvous::host_name()}, Log());
  HostPrices prices({found.table, found.tuned, 1, 0});
  for (const int ranks : {2, 3, 4}) {
    testing::expect_all_ok(run_threads(ranks, [&](Communicator& comm) {
      std::vector<float> in(3 << 20), out(3 << 20);
      const Symmetric<float> symmetric = comm.allocate<float>(3 << 20);
      if (comm.rank() != 0) return;
      for (const Verb verb : {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather, Verb::all_to_all}) {
        for (const std::size_t bytes : {768UL, 48UL << 10, 768UL << 10, 12UL << 20}) {
          const double planned = prices.price(verb, ranks, static_cast<double>(bytes)).seconds;
          const double predicted = predicted_s(comm, verb, bytes, in, out, {symmetric.data(), symmetric.size()});
          testing::require(planned > 0 && std::abs(planned / predicted - 1) < 1e-6,
                           std::string(name_of(verb)) + " of " + std::to_string(bytes) + " bytes among " +
                               std::to_string(ranks) + ": " + std::to_string(planned * 1e6) + " us planned, " +
                               std::to_string(predicted * 1e6) + " predicted");
        }
      }
    }));
  }
}

}  // namespace
}  // namespace tutti::plan
