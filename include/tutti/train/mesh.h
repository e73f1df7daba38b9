// A mesh: ranks numbered along several axes, one for each way in which a model is trained on many, and a communicator
// for every axis.
//
//   tutti::train::Mesh mesh(comm, {{"dp", 2}, {"pp", 2}, {"tp", 2}});            // 8 ranks
//   tutti::train::Mesh mesh(comm, tutti::train::parse_mesh("dp2.pp2.tp2"));      // the same
//   tutti::train::Strategy strategy = tutti::train::zero(1, mesh.along("dp"), parameters, tutti::train::AdamW{});
//   std::puts(mesh.to_text().c_str());                                           // who is where
//
// Ranks that differ in one axis alone are a group of it; along(axis) is this rank's, and its rank there is the
// coordinate. Axes that talk most lie nearest: tp first, then ep, cp and sp, then pp, then dp and all others, whatever
// order they are written in; among those the last one written is nearest. Ranks of one host count as near, however
// the job numbers them. So dp2.tp4 on two hosts of four has every tp group on one host.
//
// Collective. Error(mismatch) on all ranks where one gave other axes; it names the rank.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti::train {

struct MeshAxis {
  std::string name;
  int size = 1;

  bool operator==(const MeshAxis&) const = default;
};

// "dp2.tp8". Throws Error(invalid_argument) where it is none: a name without a size, a size below 1, a name twice.
TUTTI_API std::vector<MeshAxis> parse_mesh(std::string_view text);
TUTTI_API std::string to_text(std::span<const MeshAxis> axes);

struct MeshOptions {
  // The axes by name, the nearest first, in the place of the order above: all of them.
  std::vector<std::string> nearest = {};
};

class TUTTI_API Mesh {
 public:
  Mesh(Communicator& communicator, std::vector<MeshAxis> axes, const MeshOptions& options = {});

  // As they were written.
  const std::vector<MeshAxis>& axes() const { return axes_; }
  // By number of an axis, the nearest first.
  const std::vector<std::size_t>& nearest() const { return nearest_; }
  bool has(std::string_view axis) const;
  int size(std::string_view axis) const;
  // Of this rank, or of a rank of the communicator that the mesh was made of.
  int coordinate(std::string_view axis) const;
  int coordinate(std::string_view axis, int rank) const;

  // This rank's group of an axis, which the mesh owns. Throws Error(invalid_argument) with the names there are where
  // the mesh has no such axis.
  Communicator& along(std::string_view axis);
  // Collective over the whole mesh, with the same names everywhere: this rank's group of ranks that differ in these
  // axes alone, in the order of the axes as they are given, the last one fastest.
  Communicator group(const std::vector<std::string_view>& axes);
  // All ranks, with calls of its own.
  Communicator& all() { return all_; }

  std::string to_text() const;

 private:
  std::size_t number_of(std::string_view axis) const;

  std::vector<MeshAxis> axes_;
  std::vector<std::size_t> nearest_;
  std::vector<std::vector<int>> coordinates_;  // by rank, by axis
  Communicator all_;
  std::vector<Communicator> groups_;  // by axis
};

}  // namespace tutti::train
