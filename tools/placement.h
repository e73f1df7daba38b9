// Which rank of a mesh belongs on which device of a cluster: every order in which the mesh's dimensions can be laid
// along the devices, simulated.
//
// A mesh such as dp2.tp8 numbers its ranks as PyTorch does, the last dimension fastest. Ranks that differ in one
// dimension alone are a group of it; all groups of a dimension call at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/simulation.h"
#include "topology/topology.h"

namespace tutti::tools {

struct MeshDimension {
  std::string name;
  int size = 1;
  // What its groups do in a step of training.
  std::string verb = "all_reduce";
  std::uint64_t bytes = std::uint64_t{2} << 30;
  int times = 1;
};

class Mesh {
 public:
  // "dp2.tp8", with traffic that is usual for dimensions of such names. Ends the command, in words, where it is none.
  explicit Mesh(const std::string& text);
  // "tp=all_gather:32M" or "tp=all_gather:32Mx4": what groups of a dimension do, and how often.
  void set_traffic(const std::string& text);

  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  int ranks() const;
  // The coordinate of a rank in each dimension.
  std::vector<int> coordinates(int rank) const;
  // The groups of a dimension, each with its ranks in order.
  std::vector<std::vector<int>> groups(std::size_t dimension) const;

 private:
  std::vector<MeshDimension> dimensions_;
};

// Dimensions by number, the one first whose neighbours lie on neighbouring devices.
using DimensionOrder = std::vector<std::size_t>;

// By rank of the mesh.
std::vector<int> devices_of(const Mesh& mesh, const DimensionOrder& order);

struct Placement {
  DimensionOrder order;
  std::vector<int> devices;  // by rank
  struct Phase {
    const schedule::Algorithm* row = nullptr;  // the quickest
    double seconds = 0;                        // once
  };
  std::vector<Phase> phases;  // by dimension
  double seconds = 0;         // of all, as often as they are called
};

// The quickest first; among equals the one that ranks have by their numbers.
std::vector<Placement> placements(const Mesh& mesh, const topology::Topology& topology);

}  // namespace tutti::tools
