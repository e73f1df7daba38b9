// From a launch to a meeting, with a store in memory.
#include "rendezvous/launch/arrange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "launch/variables.h"
#include "rendezvous/address.h"
#include "rendezvous/launch/reach.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

const std::string kDigits(64, 'a');

class MemoryStore : public Store {
 public:
  void set(std::string_view key, std::string_view value, const Deadline&) override { values[std::string(key)] = value; }
  std::string get(std::string_view key, const Deadline&) override {
    const auto found = values.find(key);
    if (found == values.end()) throw Error(ErrorCode::timeout, "no " + std::string(key));
    return found->second;
  }
  std::map<std::string, std::string, std::less<>> values;
};

struct Job {
  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();

  Rendezvous arranged(const Values& values, unsigned meeting = 0) const {
    const Environment environment(values);
    const auto store_of = [this](const Launch&, const Deadline&) { return store; };
    return arrange(recognise(environment), environment, meeting, Deadline::after(20s), Log(), store_of);
  }
};

std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

const Values kRank0{{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"GROUP_RANK", "0"}};

TEST(Arrange, AloneMeetsNobody) {
  const Rendezvous alone = Job().arranged({});
  EXPECT_THAT(alone.lobby, IsEmpty());
  EXPECT_FALSE(alone.keep_lobby);
  EXPECT_FALSE(alone.token.has_value());
}

TEST(Arrange, OneHostMeetsAtASocketOfTheJob) {
  const Job job;
  for (const char* set : {"torchrun", "open_mpi", "mpich", "srun"}) {
    const Rendezvous rank = job.arranged(captured(set));
    EXPECT_THAT(rank.lobby, MatchesRegex("unix:@tutti-" + std::to_string(::geteuid()) + "-[0-9a-f]+")) << set;
    EXPECT_EQ(rank.keep_lobby, recognise(Environment(captured(set))).rank == 0);
    EXPECT_EQ(rank.token_source, TokenSource::kernel);
    EXPECT_FALSE(rank.token.has_value());
    EXPECT_FALSE(rank.publish);
    const Rendezvous next = job.arranged(captured(set), 1);
    EXPECT_NE(next.lobby, rank.lobby) << "a second meeting of the same job has a place of its own";
    EXPECT_NE(next.job, rank.job);
    EXPECT_EQ(job.arranged(captured(set)).lobby, rank.lobby);
  }
  EXPECT_NE(job.arranged(captured("srun")).lobby, job.arranged(with(captured("srun"), {{"SLURM_STEP_ID", "5"}})).lobby);
}

TEST(Arrange, TheLaunchersLobbyKeepsItsName) {
  const Values run{{"TUTTI_RANK", "0"},         {"TUTTI_SIZE", "2"},      {"TUTTI_LOBBY", "launcher"},
                   {"TUTTI_RENDEZVOUS", "a:1"}, {"TUTTI_TOKEN", kDigits}, {"TUTTI_JOB", "j"}};
  const Rendezvous rank = Job().arranged(run, 3);
  EXPECT_EQ(rank.lobby, "a:1");
  EXPECT_EQ(rank.job, "j");
  EXPECT_FALSE(rank.keep_lobby);
  EXPECT_EQ(rank.token_source, TokenSource::environment);
  EXPECT_EQ(rank.token.value().hex(), kDigits);
  EXPECT_TRUE(Job().arranged(with(run, {{"TUTTI_LOBBY", ""}})).keep_lobby);
}

TEST(Arrange, SlurmAcrossHostsNeedsAToken) {
  const Values hosts = with(captured("srun"), {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "n[1-2]"}});
  EXPECT_THAT(refusal_of([&] { Job().arranged(hosts); }),
              AllOf(HasSubstr("n1"), HasSubstr("tutti token"), HasSubstr("TUTTI_TOKEN_FILE"), HasSubstr("all hosts")));
  const Rendezvous rank = Job().arranged(with(hosts, {{"TUTTI_TOKEN", kDigits}}));
  const Address address = parse(rank.lobby).value();
  EXPECT_EQ(address.host, "n1");
  EXPECT_GE(address.port, 20000);
  EXPECT_LT(address.port, 28192);
  const Values other = with(hosts, {{"TUTTI_TOKEN", kDigits}, {"SLURM_STEP_ID", "9"}});
  EXPECT_NE(Job().arranged(other).lobby, rank.lobby);
}

TEST(Arrange, RankZeroPublishesOnceItListens) {
  const Job job;
  const Values rank3 = captured("torchrun_two_agents");
  const Rendezvous keeper = job.arranged(with(rank3, kRank0));
  EXPECT_TRUE(keeper.keep_lobby);
  EXPECT_EQ(parse(keeper.lobby).value().port, 0) << keeper.lobby;
  EXPECT_TRUE(is_loopback(keeper.lobby)) << "localhost leads over loopback";
  EXPECT_EQ(keeper.token_source, TokenSource::torch_store);
  EXPECT_THAT(std::string(describe(keeper.token_source)), HasSubstr("unauthenticated"));
  EXPECT_THAT(refusal_of([&] { job.arranged(rank3); }), HasSubstr("lobby")) << "not yet";

  keeper.publish("127.0.0.1:4567");
  const Rendezvous follower = job.arranged(rank3);
  EXPECT_EQ(follower.lobby, "127.0.0.1:4567");
  EXPECT_FALSE(follower.keep_lobby);
  EXPECT_FALSE(follower.publish);
  EXPECT_EQ(follower.token.value().hex(), keeper.token.value().hex());
  EXPECT_EQ(follower.job, keeper.job);
  EXPECT_THAT(refusal_of([&] { job.arranged(rank3, 1); }), HasSubstr("lobby")) << "that was the first meeting";
}

TEST(Arrange, PmixIsAStoreLikeTorchs) {
  const Job job;
  const Values rank1 = with(captured("open_mpi"), {{"OMPI_COMM_WORLD_SIZE", "4"}});
  const Rendezvous keeper = job.arranged(with(rank1, {{"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_EQ(keeper.token_source, TokenSource::pmix);
  keeper.publish("192.0.2.7:4567");
  EXPECT_EQ(job.arranged(rank1).lobby, "192.0.2.7:4567");
  EXPECT_EQ(job.arranged(rank1).token.value().hex(), keeper.token.value().hex());
}

TEST(Arrange, TokensOfTheirOwnAreForAllOrNone) {
  const Values rank3 = captured("torchrun_two_agents");
  const Values token{{"TUTTI_TOKEN", kDigits}};
  Job mixed;
  mixed.arranged(with(with(rank3, kRank0), token)).publish("127.0.0.1:1");
  EXPECT_THAT(mixed.store->values.begin()->second, testing::Not(HasSubstr(kDigits))) << "no token of the user's leaks";
  EXPECT_EQ(mixed.arranged(with(rank3, token)).token.value().hex(), kDigits);
  EXPECT_THAT(refusal_of([&] { mixed.arranged(rank3); }), HasSubstr("this rank has none"));
  Job other;
  other.arranged(with(rank3, kRank0)).publish("127.0.0.1:1");
  EXPECT_THAT(refusal_of([&] { other.arranged(with(rank3, token)); }), HasSubstr("rank 0 has none"));
}

TEST(Arrange, LoopbackOfAnotherHostIsRefused) {
  const Values rank3 = captured("torchrun_two_agents");
  Job job;
  job.arranged(with(rank3, kRank0)).publish("127.0.1.1:4567");
  std::string& value = job.store->values.begin()->second;
  value.replace(value.find(loopback_id()), loopback_id().size(), "another boot");
  EXPECT_THAT(refusal_of([&] { job.arranged(rank3); }),
              AllOf(HasSubstr("127.0.1.1:4567"), HasSubstr("loopback"), HasSubstr("TUTTI_INTERFACE")));
  value = "nonsense";
  EXPECT_THAT(refusal_of([&] { job.arranged(rank3); }), HasSubstr("makes no sense"));
}

TEST(Arrange, TheInterfaceCanBeNamed) {
  const Values rank0 = with(captured("torchrun_two_agents"), kRank0);
  EXPECT_EQ(Job().arranged(with(rank0, {{"TUTTI_INTERFACE", "127.0.0.9"}})).lobby, "127.0.0.9:0");
  EXPECT_EQ(Job().arranged(with(rank0, {{"TUTTI_INTERFACE", "::1"}})).lobby, "[::1]:0");
  EXPECT_EQ(Job().arranged(with(rank0, {{"TUTTI_INTERFACE", "lo"}})).lobby, "127.0.0.1:0");
  EXPECT_THAT(refusal_of([&] {
                Job().arranged(with(rank0, {{"TUTTI_INTERFACE", "nosuch0"}}));
              }),
              AllOf(HasSubstr("TUTTI_INTERFACE is 'nosuch0'"), HasSubstr("ip address")));
  EXPECT_THAT(refusal_of([&] {
                Job().arranged(with(rank0, {{"TUTTI_INTERFACE", "192.0.2.9"}}));
              }),
              HasSubstr("nor an address of this host"));
}

TEST(Arrange, AnUnreadableTokenFileIsNamed) {
  EXPECT_THAT(refusal_of([&] {
                Job().arranged(with(captured("srun"), {{"TUTTI_TOKEN_FILE", "no/such/file"}}));
              }),
              HasSubstr("no/such/file"));
}

TEST(TokenSource, IsDecidedByPlace) {
  const auto source = [](const char* set, const Values& changes) {
    const Environment environment(with(captured(set), changes));
    return token_source(recognise(environment), environment);
  };
  EXPECT_EQ(source("sbatch", {}), TokenSource::nobody_to_meet);
  EXPECT_EQ(source("srun", {}), TokenSource::kernel);
  EXPECT_EQ(source("srun", {{"TUTTI_TOKEN", "x"}, {"TUTTI_TOKEN_FILE", "y"}}), TokenSource::environment);
  EXPECT_EQ(source("srun", {{"TUTTI_TOKEN_FILE", "y"}}), TokenSource::file);
  EXPECT_EQ(source("srun", {{"TUTTI_RENDEZVOUS", "unix:@x"}}), TokenSource::kernel);
  EXPECT_EQ(source("torchrun_two_agents", {}), TokenSource::torch_store);
  EXPECT_EQ(source("open_mpi", {{"OMPI_COMM_WORLD_SIZE", "4"}}), TokenSource::pmix);
  EXPECT_THAT(refusal_of([&] {
                source("srun", {{"TUTTI_RENDEZVOUS", "127.0.0.1:5"}});
              }),
              HasSubstr("127.0.0.1:5"))
      << "any user of this host could connect";
}

}  // namespace
}  // namespace tutti::rendezvous
