// Meshes: who is where, groups along axes, hosts, and what is refused.
#include "tutti/train/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "check.h"
#include "train/ones.h"
#include "train/some_axes.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::on_ranks;
using testing::Ranks;
using testing::require;
using testing::run_ranks;
using train::Mesh;
using train::MeshAxis;
using train::parse_mesh;
using Axes = std::vector<MeshAxis>;

TEST(Mesh, IsParsed) {
  EXPECT_EQ(parse_mesh("dp2.tp16.pp1"), (Axes{{"dp", 2}, {"tp", 16}, {"pp", 1}}));
  EXPECT_EQ(to_text(parse_mesh("dp2.tp16")), "dp2.tp16");
  const auto refused = [](std::string_view text) { return std::string(error_of([&] { parse_mesh(text); }).what()); };
  EXPECT_EQ(
      refused("dp2.tp"),
      "the mesh \"dp2.tp\": axis \"tp\" has no size from 1 on; axes with their sizes belong there, such as dp2.tp8");
  EXPECT_THAT(refused("dp2.tp0"), ::testing::HasSubstr("axis \"tp\" has no size"));
  EXPECT_THAT(refused("dp2x"), ::testing::HasSubstr("axis \"dp\" has no size"));
  EXPECT_THAT(refused("dp2.2"), ::testing::HasSubstr("\"2\" has no name"));
  EXPECT_THAT(refused("dp2.dp2"), ::testing::HasSubstr("axis \"dp\" is there twice"));
  EXPECT_THAT(refused(""), ::testing::HasSubstr("has no name"));
  EXPECT_THAT(refused("dp99999999999"), ::testing::HasSubstr("axis \"dp\" has no size"));
}

TEST(Mesh, PutsWhoTalksMostNearest) {
  on_ranks(8, [](Communicator& comm) {
    for (const char* text : {"tp2.pp2.dp2", "dp2.pp2.tp2", "pp2.tp2.dp2"}) {
      Mesh mesh(comm, parse_mesh(text));
      const int rank = comm.rank();
      require(mesh.coordinate("tp") == rank % 2, "tp is nearest");
      require(mesh.coordinate("pp") == rank / 2 % 2, "then pp");
      require(mesh.coordinate("dp") == rank / 4, "then dp");
      require(mesh.coordinate("dp", 5) == 1 && mesh.coordinate("tp", 5) == 1, "of others");
    }
    Mesh others(comm, parse_mesh("a2.b2.ep2"));
    require(others.coordinate("ep") == comm.rank() % 2 && others.coordinate("b") == comm.rank() / 2 % 2, "others");
    Mesh asked(comm, parse_mesh("dp2.pp2.tp2"), {.nearest = {"dp", "tp", "pp"}});
    require(asked.coordinate("dp") == comm.rank() % 2 && asked.coordinate("pp") == comm.rank() / 4, "as asked");
  });
}

TEST(Mesh, TellsWhoIsWhere) {
  on_ranks(4, [](Communicator& comm) {
    Mesh mesh(comm, {{"pp", 2}, {"tp", 2}});
    require(mesh.to_text() ==
                "mesh pp2.tp2, 4 ranks; nearest to each other: tp, then pp\n"
                "  rank  host    pp    tp\n"
                "     0     0     0     0\n"
                "     1     0     0     1\n"
                "     2     0     1     0\n"
                "     3     0     1     1\n",
            mesh.to_text());
  });
}

// Ranks 2 and 5 are on another host than the rest.
TEST(Mesh, KeepsNearAxesInsideHosts) {
  testing::expect_all_ok(run_ranks(Ranks::mixed, 6, [](Communicator& comm) {
    Mesh mesh(comm, parse_mesh("dp3.tp2"));
    const std::vector<int> hosts = comm.hosts();
    for (const int rank : {0, 1, 2, 3, 4, 5}) {
      for (const int other : {0, 1, 2, 3, 4, 5}) {
        if (mesh.coordinate("dp", rank) != mesh.coordinate("dp", other)) continue;
        require(hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(other)], "tp inside a host");
      }
    }
    std::vector<int> sum{comm.rank()};
    mesh.along("tp").all_reduce(sum);
    require(sum[0] == (comm.rank() % 3 == 2 ? 2 + 5 : comm.rank() < 2 ? 0 + 1 : 3 + 4), "groups are those");
  }));
}

TEST(Mesh, GroupsAreThoseThatDifferInOneAxis) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_ranks(ranks, [&](Communicator& comm) {
      std::mt19937 random(static_cast<unsigned>(ranks));
      for (int round = 0; round < 3; ++round) {
        Mesh mesh(comm, testing::some_axes(ranks, random));
        std::set<std::vector<int>> places;
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<int> place;
          for (const MeshAxis& axis : mesh.axes()) place.push_back(mesh.coordinate(axis.name, rank));
          places.insert(place);
        }
        require(places.size() == static_cast<std::size_t>(ranks), "each rank has a place of its own");
        for (const MeshAxis& axis : mesh.axes()) {
          Communicator& group = mesh.along(axis.name);
          require(group.size() == axis.size && group.rank() == mesh.coordinate(axis.name), "of " + axis.name);
          std::vector<int> members(static_cast<std::size_t>(axis.size));
          group.all_gather(std::vector<int>{comm.rank()}, members);
          for (int i = 0; i < axis.size; ++i) {
            const int member = members[static_cast<std::size_t>(i)];
            for (const MeshAxis& other : mesh.axes())
              require(mesh.coordinate(other.name, member) == (other == axis ? i : mesh.coordinate(other.name)),
                      "alike");
          }
        }
      }
    });
  }
}

TEST(Mesh, GroupsAlongSeveralAxes) {
  on_ranks(8, [](Communicator& comm) {
    Mesh mesh(comm, parse_mesh("dp2.pp2.tp2"));
    Communicator group = mesh.group({"dp", "tp"});
    require(group.size() == 4 && group.rank() == 2 * mesh.coordinate("dp") + mesh.coordinate("tp"), "rank");
    std::vector<int> stages{mesh.coordinate("pp")};
    group.all_reduce(stages);
    require(stages[0] == 4 * mesh.coordinate("pp"), "one stage");
    require(contains(error_of([&] { mesh.group({"dp", "dp"}); }).what(), "axis \"dp\" twice"), "twice");
  });
}

TEST(Mesh, MistakesNameTheAxis) {
  on_ranks(4, [](Communicator& comm) {
    const auto refused = [&](Axes axes, const train::MeshOptions& options = {}) {
      const Error error = error_of([&] { Mesh(comm, std::move(axes), options); });
      require(error.code() == ErrorCode::invalid_argument, error.what());
      return std::string(error.what());
    };
    const auto expect = [](const std::string& words, const std::string& part) {
      require(contains(words, part), words);
    };
    expect(refused({{"dp", 2}, {"tp", 4}}),
           "the mesh dp2.tp4 has 8 ranks, and the communicator 4; give dp 1, or start 8");
    expect(refused({{"pp", 3}}), "the mesh pp3 has 3 ranks, and the communicator 4; sizes must multiply to that");
    expect(refused({{"dp", 2}, {"dp", 2}}), "two axes named \"dp\"");
    expect(refused({{"dp", 4}, {"tp", 0}}), "axis \"tp\" of 0; a size is 1 at least");
    expect(refused({{"", 4}}), "axis 0 of the mesh has no name");
    expect(refused({}), "a mesh needs axes");
    expect(refused({{"dp", 2}, {"tp", 2}}, {.nearest = {"tp"}}), "names 1 axes, and the mesh dp2.tp2 has 2");
    expect(refused({{"dp", 2}, {"tp", 2}}, {.nearest = {"tp", "pp"}}), "names \"pp\", and the mesh is dp2.tp2");
    expect(refused({{"dp", 2}, {"tp", 2}}, {.nearest = {"tp", "tp"}}), "names \"tp\" twice");
    Mesh mesh(comm, parse_mesh("dp2.tp2"));
    expect(error_of([&] { mesh.along("pp"); }).what(), "the mesh dp2.tp2: no axis 'pp'");
    expect(error_of([&] { mesh.coordinate("dp", 4); }).what(), "has no rank 4");
  });
}

TEST(Mesh, OfOtherAxesOnOneRankIsAMismatchEverywhere) {
  on_ranks(4, [](Communicator& comm) {
    const Error error = error_of([&] { Mesh(comm, parse_mesh(comm.rank() == 2 ? "dp2.tp2" : "dp4.tp1")); });
    require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
    require(contains(error.what(), "rank 2 has axis \"dp\" of 2 where rank 0 has axis \"dp\" of 4"), error.what());
    Mesh again(comm, parse_mesh("dp4"));  // the communicator is as it was
    require(again.along("dp").size() == 4, "again");
  });
}

}  // namespace
}  // namespace tutti
