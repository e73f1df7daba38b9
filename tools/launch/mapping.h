// In which order the ranks of a job go over hosts, and over the cores of a host. In the words of mpirun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::tools {

// X(name, meaning)
#define TUTTI_MAP_BY(X)                                                       \
  X(slot, "host after host, and there core after core")                       \
  X(node, "round the hosts: neighbouring ranks are on different ones")        \
  X(socket, "host after host, and there round the sockets that cores are in") \
  X(l3cache, "host after host, and there round the last caches that cores have")

enum class MapBy : std::uint8_t {
#define X(name, meaning) name,
  TUTTI_MAP_BY(X)
#undef X
};

std::vector<std::string_view> map_by_names();
std::optional<MapBy> map_by_named(std::string_view name);

// Numbers 0, 1, ... of things that are in groups, one of each group in turns, groups in the order of their first.
std::vector<std::size_t> round_groups(const std::vector<int>& group_of);

}  // namespace tutti::tools
