// Recognition as a table: what real launchers set, and what must be refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "launch/variables.h"
#include "rendezvous/launch/launch.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Launch launch_of(const Values& values) { return recognise(Environment(values)); }

// What the Error says; fails where there is none.
std::string refusal_of(const Values& values) {
  try {
    const Launch launch = launch_of(values);
    ADD_FAILURE() << "recognised as " << describe(launch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

struct Row {
  const char* captured;
  Values changes;
  Launcher launcher;
  int rank, size, local_rank, local_size;
  Place place;
  const char* words;  // describe() holds them
};

TEST(Recognise, WhatRealLaunchersSet) {
  const std::vector<Row> rows{
      {"torchrun",
       {},
       Launcher::torchrun,
       0,
       2,
       0,
       2,
       Place::unix_socket,
       "torchrun, rank 0 of 2, meeting on this host"},
      {"torchrun_two_agents",
       {},
       Launcher::torchrun,
       3,
       4,
       1,
       2,
       Place::torch_store,
       "torchrun, rank 3 of 4, meeting through its store at localhost:41187"},
      {"open_mpi", {}, Launcher::open_mpi, 1, 2, 1, 2, Place::unix_socket, "Open MPI, rank 1 of 2"},
      {"open_mpi", {{"OMPI_COMM_WORLD_SIZE", "4"}}, Launcher::open_mpi, 1, 4, 1, 2, Place::pmix, "through PMIx"},
      {"open_mpi_in_sbatch", {}, Launcher::open_mpi, 1, 2, 1, 2, Place::unix_socket, "Open MPI, rank 1 of 2"},
      {"mpich", {}, Launcher::mpich, 1, 2, 1, 2, Place::unix_socket, "MPICH, rank 1 of 2"},
      {"mpich_in_sbatch", {}, Launcher::mpich, 1, 2, 1, 2, Place::unix_socket, "MPICH, rank 1 of 2"},
      {"srun", {}, Launcher::slurm, 1, 2, 1, 2, Place::unix_socket, "Slurm, rank 1 of 2, meeting on this host"},
      {"srun_in_sbatch", {}, Launcher::slurm, 2, 3, 2, 3, Place::unix_socket, "Slurm, rank 2 of 3"},
      {"srun_pmi2", {}, Launcher::slurm, 1, 2, 1, 2, Place::unix_socket, "Slurm, rank 1 of 2"},
      {"srun_pmix", {}, Launcher::slurm, 1, 2, 1, 2, Place::unix_socket, "Slurm, rank 1 of 2"},
      {"sbatch", {}, Launcher::none, 0, 1, 0, 1, Place::alone, "no launcher, rank 0 of 1, alone"},
      {"salloc", {}, Launcher::none, 0, 1, 0, 1, Place::alone, "no launcher, rank 0 of 1, alone"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.captured);
    const Launch launch = launch_of(with(captured(row.captured), row.changes));
    EXPECT_EQ(launch.launcher, row.launcher);
    EXPECT_EQ(launch.rank, row.rank);
    EXPECT_EQ(launch.size, row.size);
    EXPECT_EQ(launch.local_rank, row.local_rank);
    EXPECT_EQ(launch.local_size, row.local_size);
    EXPECT_EQ(launch.place, row.place);
    EXPECT_EQ(launch.one_host, row.place == Place::unix_socket || row.place == Place::alone);
    EXPECT_THAT(describe(launch), HasSubstr(row.words));
  }
}

TEST(Recognise, NothingSetIsAGroupOfOne) {
  const Launch launch = launch_of({{"HOME", "x"}});
  EXPECT_EQ(launch.launcher, Launcher::none);
  EXPECT_EQ(launch.size, 1);
  EXPECT_EQ(launch.place, Place::alone);
  EXPECT_THAT(launch.note, IsEmpty());
}

TEST(Recognise, AnAllocationWithoutAStepIsNoted) {
  EXPECT_THAT(launch_of(captured("sbatch")).note, AllOf(HasSubstr("SLURM_NTASKS is 4"), HasSubstr("srun")));
  EXPECT_THAT(launch_of(captured("srun")).note, IsEmpty());
  // An interactive shell of salloc, and a batch script of newer Slurms, have a step that Slurm made for itself.
  for (const char* step : {"4294967290", "4294967291", "4294967294"}) {
    EXPECT_EQ(launch_of(with(captured("srun"), {{"SLURM_STEP_ID", step}})).launcher, Launcher::none) << step;
  }
}

TEST(Recognise, OptionsComeFirst) {
  const Values options{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "8"}, {"TUTTI_RENDEZVOUS", "node0:4000"}};
  for (const char* set : {"torchrun", "open_mpi", "mpich", "srun"}) {
    const Launch launch = launch_of(with(captured(set), options));
    EXPECT_EQ(launch.launcher, Launcher::explicit_options);
    EXPECT_EQ(launch.rank, 2);
    EXPECT_EQ(launch.size, 8);
    EXPECT_EQ(launch.local_rank, -1);
    EXPECT_FALSE(launch.one_host);
    EXPECT_FALSE(launch.launcher_keeps_lobby);
    EXPECT_EQ(launch.where, "node0:4000");
  }
  const Launch launch = launch_of(with(options, {{"TUTTI_LOBBY", "launcher"}, {"TUTTI_JOB", "mine"}}));
  EXPECT_EQ(launch.launcher, Launcher::tutti_run);
  EXPECT_TRUE(launch.launcher_keeps_lobby);
  EXPECT_EQ(launch.job, "mine");
}

TEST(Recognise, TorchVariablesByHandCountWhereTheyDisagree) {
  const Values two{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(launch_of(with(captured("srun"), two)).launcher, Launcher::slurm);
  EXPECT_EQ(launch_of(with(captured("open_mpi"), two)).launcher, Launcher::open_mpi);
  // One task per host started eight ranks of its own.
  const Values many = with(two, {{"WORLD_SIZE", "16"}, {"TUTTI_RENDEZVOUS", "node0:4000"}});
  EXPECT_EQ(launch_of(with(captured("srun"), many)).launcher, Launcher::torch_variables);
  EXPECT_EQ(launch_of(with(two, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}})).place, Place::unix_socket);
  EXPECT_THAT(refusal_of(two), HasSubstr("set TUTTI_RENDEZVOUS=host:port"));
}

TEST(Recognise, SlurmAcrossHostsMeetsOnTheFirst) {
  const Values two_hosts{{"SLURM_STEP_NUM_NODES", "3"}, {"SLURM_STEP_NODELIST", "gpu[07-08],cpu1"},
                         {"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                         {"SLURM_NODEID", "2"},         {"SLURM_PROCID", "4"},
                         {"SLURM_LOCALID", "0"}};
  const Launch launch = launch_of(with(captured("srun"), two_hosts));
  EXPECT_EQ(launch.place, Place::first_host);
  EXPECT_EQ(launch.where, "gpu07");
  EXPECT_EQ(launch.local_size, 1);
  EXPECT_FALSE(launch.one_host);
  EXPECT_EQ(launch_of(with(captured("srun"), with(two_hosts, {{"SLURM_NODEID", "1"}}))).local_size, 2);
  const Values elsewhere = with(two_hosts, {{"SLURM_PROCID", "0"}});
  EXPECT_THAT(refusal_of(with(captured("srun"), elsewhere)), AllOf(HasSubstr("SLURM_NODEID"), HasSubstr("TUTTI_REND")));
}

TEST(Recognise, TheGivenMeetingPlaceCounts) {
  for (const char* set : {"torchrun", "torchrun_two_agents", "open_mpi", "mpich", "srun"}) {
    const Launch launch = launch_of(with(captured(set), {{"TUTTI_RENDEZVOUS", "[fd00::2]:4000"}, {"TUTTI_JOB", "j"}}));
    EXPECT_EQ(launch.place, Place::given) << set;
    EXPECT_EQ(launch.where, "[fd00::2]:4000");
    EXPECT_EQ(launch.job, "j");
  }
  const Launch mpich = launch_of(with(captured("mpich"), {{"PMI_SIZE", "4"}, {"TUTTI_RENDEZVOUS", "node0:4000"}}));
  EXPECT_EQ(mpich.job, "at node0:4000") << "the process that started the ranks differs between hosts";
  for (const char* wrong : {"node0", "node0:", ":4000", "node0:0", "node0:65536", "node0:x", "fd00::2:4000",
                            "unix:", "unix:@", "unix:/tmp/x"}) {
    EXPECT_THAT(refusal_of(with(captured("srun"), {{"TUTTI_RENDEZVOUS", wrong}})),
                AllOf(HasSubstr("TUTTI_RENDEZVOUS is '" + std::string(wrong) + "'"), HasSubstr("host:port")));
  }
  EXPECT_THAT(refusal_of(with(captured("torchrun_two_agents"), {{"TUTTI_RENDEZVOUS", "unix:@x"}})),
              HasSubstr("2 of 4 ranks are on this one"));
}

TEST(Recognise, JobsDifferBetweenRunsAndRestarts) {
  const auto job = [](const char* set, const Values& changes) { return launch_of(with(captured(set), changes)).job; };
  EXPECT_NE(job("torchrun", {}), job("torchrun", {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_NE(job("torchrun", {}), job("torchrun", {{"TORCHELASTIC_RUN_ID", "other"}}));
  EXPECT_NE(job("torchrun", {}), job("torchrun", {{"MASTER_PORT", "4"}}));
  EXPECT_NE(job("open_mpi", {}), job("open_mpi", {{"PMIX_NAMESPACE", "7"}}));
  EXPECT_NE(job("open_mpi", {}), job("open_mpi", {{"OMPI_MCA_orte_precondition_transports", "7"}}));
  EXPECT_NE(job("srun", {}), job("srun", {{"SLURM_JOB_ID", "2"}}));
  EXPECT_NE(job("srun", {}), job("srun", {{"SLURM_STEP_ID", "1"}}));
  EXPECT_NE(job("srun", {}), job("srun", {{"SLURM_RESTART_COUNT", "1"}}));
  // ... but not between ranks.
  EXPECT_EQ(job("torchrun", {}), job("torchrun", {{"RANK", "1"}, {"LOCAL_RANK", "1"}}));
  EXPECT_EQ(job("open_mpi", {}), job("open_mpi", {{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}));
  EXPECT_EQ(job("srun", {}), job("srun", {{"SLURM_PROCID", "0"}, {"SLURM_TASK_PID", "9"}}));
  EXPECT_THAT(job("mpich", {}), IsEmpty());
}

TEST(Recognise, WhatDoesNotFitTogetherIsRefused) {
  struct Wrong {
    Values values;
    std::vector<const char*> words;  // variable, value, remedy
  };
  const std::vector<Wrong> table{
      {{{"TUTTI_RANK", "0"}}, {"TUTTI_RANK is '0'", "TUTTI_SIZE is not set", "tutti run"}},
      {{{"TUTTI_SIZE", "2"}}, {"TUTTI_SIZE is '2'", "TUTTI_RANK is not set"}},
      {{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "2"}}, {"TUTTI_RANK is '2'", "TUTTI_SIZE is '2'", "from 0 to 1"}},
      {{{"TUTTI_RANK", "x"}, {"TUTTI_SIZE", "2"}}, {"TUTTI_RANK is 'x'", "no number"}},
      {{{"TUTTI_RANK", "-1"}, {"TUTTI_SIZE", "2"}}, {"TUTTI_RANK is '-1'"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "0"}}, {"TUTTI_SIZE is '0'", "at least one"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "99999999999"}}, {"TUTTI_SIZE is '99999999999'", "1048576"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}}, {"set TUTTI_RENDEZVOUS=host:port"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_LOCAL_SIZE", "3"}}, {"TUTTI_LOCAL_SIZE is '3'"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_LOCAL_SIZE", "1"}, {"TUTTI_LOCAL_RANK", "1"}},
       {"TUTTI_LOCAL_RANK is '1'", "TUTTI_LOCAL_SIZE is '1'"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_LOBBY", "launcher"}}, {"TUTTI_RENDEZVOUS is not set"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_LOBBY", "me"}}, {"TUTTI_LOBBY is 'me'", "launcher"}},
      {{{"TUTTI_RENDEZVOUS", "a:1"}}, {"TUTTI_RENDEZVOUS is 'a:1'", "which rank", "TUTTI_RANK"}},
      {{{"RANK", "0"}}, {"RANK is '0'", "WORLD_SIZE is not set"}},
      {{{"WORLD_SIZE", "4"}}, {"WORLD_SIZE is '4'", "RANK is not set"}},
      {with(captured("torchrun"), {{"RANK", ""}}), {"TORCHELASTIC_RUN_ID", "RANK is not set", "torchrun"}},
      {with(captured("torchrun"), {{"RANK", "2"}}), {"RANK is '2'", "WORLD_SIZE is '2'"}},
      {with(captured("torchrun"), {{"MASTER_PORT", ""}}), {"MASTER_PORT is not set"}},
      {with(captured("torchrun"), {{"MASTER_PORT", "70000"}}), {"MASTER_PORT is '70000'"}},
      {with(captured("torchrun_two_agents"), {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}),
       {"TORCHELASTIC_USE_AGENT_STORE", "TUTTI_RENDEZVOUS"}},
      {with(captured("open_mpi"), {{"OMPI_COMM_WORLD_SIZE", ""}}), {"OMPI_COMM_WORLD_SIZE is not set", "mpirun"}},
      {with(captured("open_mpi"), {{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", ""}}),
       {"hold no address", "set TUTTI_RENDEZVOUS=host:port on all ranks"}},
      {with(captured("mpich"), {{"PMI_SIZE", "4"}}), {"MPICH", "set TUTTI_RENDEZVOUS=host:port on all ranks"}},
      {with(captured("mpich"), {{"PMI_SIZE", ""}}), {"PMI_SIZE is not set", "mpiexec"}},
      {with(captured("srun"), {{"SLURM_PROCID", ""}}), {"SLURM_PROCID is not set", "srun"}},
      {with(captured("srun"), {{"SLURM_PROCID", "2"}}), {"SLURM_PROCID is '2'", "SLURM_STEP_NUM_TASKS is '2'"}},
      {with(captured("srun"), {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "a[1-"}}), {"'a[1-'"}},
  };
  for (const Wrong& wrong : table) {
    const std::string text = refusal_of(wrong.values);
    for (const char* word : wrong.words) EXPECT_THAT(text, HasSubstr(word));
  }
}

}  // namespace
}  // namespace tutti::rendezvous
