// Traces of torch.profiler: with GPUs and NCCL, on CPUs with other backends; who waited is told without trusting
// clocks.
#include "tools/trace/torch_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/trace/calls.h"
#include "tools/trace/shares.h"
#include "tutti/error.h"

namespace tutti::analysis {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr double kNear = 1e-2;  // times of the profiler are large numbers with three decimals

std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(TUTTI_SOURCE_DIRECTORY) + "/tests/golden/trace/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TracedJob read(const std::vector<std::string>& texts) {
  std::vector<EventFile> files(texts.begin(), texts.end());
  std::vector<NamedEvents> named;
  for (std::size_t i = 0; i < files.size(); ++i) named.push_back({"rank" + std::to_string(i) + ".json", &files[i]});
  return torch_trace(named);
}

std::string nccl(int rank) { return golden_text("torch_nccl_rank" + std::to_string(rank) + ".json"); }

void expect_shares(const Shares& of, double span, double compute, double communication, double exposed,
                   double waiting) {
  EXPECT_NEAR(of.span_us, span, kNear);
  EXPECT_NEAR(of.compute_us, compute, kNear);
  EXPECT_NEAR(of.communication_us, communication, kNear);
  EXPECT_NEAR(of.exposed_us, exposed, kNear);
  EXPECT_NEAR(of.waiting_us, waiting, kNear);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// Two steps; in each, in us since it began on the GPU:
//
//   rank 0   gemm 0-400, relu 400-600     ncclDevKernel_AllReduce 300-800     copy to the host 820-850
//   rank 1   gemm 0-700                   ncclDevKernel_AllReduce 650-800     copy to the host 820-850
//
// Rank 1's kernel is the shortest: with it, all had come; rank 0 waited for 350 of its 500. So communication is 150 on
// both; rank 0 computes up to 600, so that all 150 are exposed, and waits uncovered from 600 to 650; of rank 1, 100
// are. A step lasts from its first kernel to that of the next one, 1000, and the last one as long as it was seen, 900.
TEST(TorchTrace, OfNcclHasComputeAndExposedCommunication) {
  const TracedJob trace = read({nccl(0), nccl(1)});
  EXPECT_THAT(trace.notes, IsEmpty());
  EXPECT_EQ(trace.backend, "nccl");
  const std::vector<StepShares> steps = shares_by_step(trace);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].step, 5);
  expect_shares(steps[0].ranks[0].shares, 1000, 600, 150, 150, 50);
  expect_shares(steps[0].ranks[1].shares, 1000, 700, 150, 100, 0);
  expect_shares(steps[1].ranks[0].shares, 900, 600, 150, 150, 50);
  EXPECT_NEAR(steps[0].mean.gamma_raw(), 150. / 650, 1e-4);
  EXPECT_NEAR(steps[0].mean.gamma_exposed(), 125. / 650, 1e-4);
  EXPECT_THAT(waits_of(trace), ElementsAre(Pair(Pair(0, 1), DoubleNear(700, kNear))));
}

// 1,000,000 floats, known by the launch's record_param_comms: 4,000,000 bytes over 150 us.
TEST(TorchTrace, OfNcclHasBytesAndBusbw) {
  const std::vector<VerbTotals> totals = totals_of(read({nccl(0), nccl(1)}));
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].verb, "all_reduce");
  EXPECT_EQ(totals[0].calls, 2U);
  EXPECT_EQ(totals[0].bytes, 8e6);
  EXPECT_NEAR(totals[0].busbw, 4e6 / 150e-6 / 1e9, kNear);
}

TEST(TorchTrace, LeavesOutEventsThatAreNone) {
  std::string odd = nccl(0);
  const std::size_t events = odd.find('{', odd.find("\"traceEvents\""));
  odd.insert(events, R"({"ph":"X","cat":"kernel","name":null,"ts":1,"dur":1}, null, )"
                     R"({"ph":"X","cat":"kernel","name":"ncclX","ts":1,"dur":1,"args":"x"}, )");
  const TracedJob trace = read({odd, nccl(1)});
  EXPECT_THAT(trace.notes, ElementsAre("rank0.json: 3 events cannot be read, and are left out"));
  expect_shares(shares_by_step(trace)[0].ranks[0].shares, 1000, 600, 150, 150, 50);
  for (const char* facts : {"null", "[]", R"({"rank":"0"})", R"({"backend":1})"}) {
    try {
      static_cast<void>(read({R"({"distributedInfo":)" + std::string(facts) + R"(,"traceEvents":[]})"}));
      ADD_FAILURE() << facts;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank0.json is no trace that can be read: distributedInfo"));
    }
  }
}

TEST(TorchTrace, OfOneRankCannotTellWaitingFromCommunication) {
  const TracedJob trace = read({nccl(0)});
  EXPECT_THAT(trace.notes,
              Contains(HasSubstr("1 of 2 ranks are here: waiting for the others counts as communication")));
  expect_shares(shares_by_step(trace)[0].ranks[0].shares, 1000, 600, 500, 200, 0);
}

TEST(TorchTrace, ClocksOfOtherHostsDoNotMatter) {
  const TracedJob trace = read({nccl(0), replaced(nccl(1), "1790857026000000000", "1790857029000000000")});
  expect_shares(shares_by_step(trace)[0].ranks[0].shares, 1000, 600, 150, 150, 50);
  EXPECT_THAT(waits_of(trace), ElementsAre(Pair(Pair(0, 1), DoubleNear(700, kNear))));
}

TEST(TorchTrace, CutOffHasWhatIsReadable) {
  const std::string whole = nccl(0);
  const TracedJob trace = read({whole.substr(0, whole.find("ProfilerStep#6")), nccl(1)});
  EXPECT_THAT(trace.notes, Contains(HasSubstr("rank0.json: cut off: ")));
  EXPECT_THAT(trace.notes, Contains(HasSubstr("differ in number between ranks")));
  expect_shares(shares_by_step(trace)[0].ranks[0].shares, 900, 600, 500, 200, 0);
}

// Operators on the main thread from 0 to 400 and 450 to 550; the all_reduce is under way on a thread of its own from
// 405 to 700, with an operator within that is part of it; its launch takes 400 to 410. So 500 of computing,
// communication from 400 to 700, of which 100 are covered.
std::string on_cpus(const std::string& row, const std::string& arguments) {
  return R"({"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1}, "traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": ")" +
         row + R"(", "pid": 1, "tid": 9, "ts": 405, "dur": 295, "args": )" + arguments + R"(},
{"ph": "X", "cat": "cpu_op", "name": "aten::add_", "pid": 1, "tid": 9, "ts": 500, "dur": 100, "args": {}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 0, "dur": 800},
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 0, "dur": 400},
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 10, "dur": 380},
{"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 1, "tid": 1, "ts": 400, "dur": 10},
{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": 450, "dur": 100}]})";
}

TEST(TorchTrace, OnCpusCountsOperatorsAndRowsOfAnyBackend) {
  for (const std::string row : {"gloo:all_reduce", "tutti:all_reduce", "mpi:all_reduce"}) {
    const TracedJob trace = read({on_cpus(row, R"({"Input Dims": [[1000]], "Input type": ["float"]})")});
    expect_shares(shares_by_step(trace)[0].mean, 800, 500, 300, 200, 0);
    ASSERT_EQ(trace.calls.size(), 1U);
    EXPECT_EQ(trace.calls[0].verb, "all_reduce");
    EXPECT_EQ(trace.calls[0].bytes, 4000);
  }
}

TEST(TorchTrace, TakesTheBytesThatTuttiTells) {
  EXPECT_EQ(read({on_cpus("tutti:all_gather_into_tensor", R"({"bytes": "8000"})")}).calls.at(0).bytes, 8000);
  const TracedJob gathered = read({replaced(
      on_cpus("gloo:all_gather", R"({"Input Dims": [[10], [5]], "Input type": ["c10::BFloat16", "long int"]})"),
      "\"world_size\": 1", "\"world_size\": 4")});
  EXPECT_EQ(gathered.calls.at(0).bytes, 4 * (10 * 2 + 5 * 8)) << "an all_gather gives its own chunk";
}

TEST(TorchTrace, SaysWhereOnlyLaunchesOfNcclWereProfiled) {
  EXPECT_THAT(read({on_cpus("nccl:all_reduce", "{}")}).notes, Contains(HasSubstr("ProfilerActivity.CUDA")));
}

TEST(TorchTrace, KnowsVerbsByAllTheirNames) {
  const std::pair<const char*, const char*> names[] = {{"AllReduce", "all_reduce"},
                                                       {"allreduce_coalesced", "all_reduce"},
                                                       {"_allgather_base", "all_gather"},
                                                       {"all_gather_into_tensor", "all_gather"},
                                                       {"ReduceScatter", "reduce_scatter"},
                                                       {"_reduce_scatter_base", "reduce_scatter"},
                                                       {"Reduce", "reduce"},
                                                       {"all_to_allv", "all_to_all"},
                                                       {"Broadcast", "broadcast"},
                                                       {"_broadcast_oop", "broadcast"},
                                                       {"send", "send_recv"},
                                                       {"recv", "send_recv"},
                                                       {"barrier", "barrier"},
                                                       {"coalesced", "coalesced"}};
  for (const auto& [name, verb] : names) EXPECT_EQ(verb_of(name), verb) << name;
}

TEST(TorchTrace, OfDifferentJobsIsRefused) {
  const auto words_of = [](const std::vector<std::string>& texts) -> std::string {
    try {
      static_cast<void>(read(texts));
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_THAT(words_of({nccl(0), nccl(0)}), HasSubstr("rank0.json and rank1.json are both of rank 0"));
  EXPECT_THAT(words_of({nccl(0), replaced(nccl(1), "\"world_size\": 2", "\"world_size\": 4")}),
              HasSubstr("not of one job: rank0.json has 2 ranks of nccl, rank1.json has 4 ranks of nccl"));
  EXPECT_THAT(words_of({nccl(0), replaced(nccl(1), "1790857026000000000", "1790867026000000000")}),
              HasSubstr("10000 s lie between"));
  EXPECT_THAT(words_of({R"({"traceEvents": []})"}), HasSubstr("no operators, no kernels"));
  EXPECT_THAT(words_of({replaced(nccl(0), "\"rank\": 0", "\"rank\": 7")}), HasSubstr("it is of rank 7 of 2"));
}

TEST(TorchTrace, RefusesMoreRanksThanAJobHas) {
  const auto refusal_of = [](const std::string& ranks) -> std::string {
    std::string text = nccl(0);
    const std::string_view name = "\"world_size\":";
    const std::size_t at = text.find(name);
    EXPECT_NE(at, std::string::npos);
    const std::size_t begin = at + name.size();
    text.replace(begin, text.find_first_of(",}", begin) - begin, ranks);
    try {
      read({text});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const char* ranks : {"2000000000", "4000000000", "1048577"})
    EXPECT_THAT(refusal_of(ranks), HasSubstr("more than 1048576 ranks")) << ranks;
  EXPECT_EQ(refusal_of(" 2"), "");
}

}  // namespace
}  // namespace tutti::analysis
