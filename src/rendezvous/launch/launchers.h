// What each launcher's variables say; launch.h puts them in order.
//
// Each function returns nothing where its launcher did not start this process, and throws where it did but left
// variables that do not fit together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "rendezvous/launch/launch.h"

namespace tutti::rendezvous {

// The variables of one launcher, read with errors that tell what to do about them.
class Variables {
 public:
  // `remedy` ends every complaint: "start the program again with mpirun".
  Variables(const Environment& environment, std::string_view remedy) : environment_(environment), remedy_(remedy) {}

  bool has(std::string_view name) const { return environment_.get(name).has_value(); }
  std::string text(std::string_view name) const { return environment_.get(name).value_or(""); }
  // A number from 0 up to, not including, kMostRanks; `otherwise` where it is not set.
  int number(std::string_view name, int otherwise) const;
  // ... that has to be set, because `because` is.
  int needed(std::string_view name, std::string_view because) const;
  std::string needed_text(std::string_view name, std::string_view because) const;

  // Reads rank and size, and their local pair where it is set, and holds them against each other.
  struct Names {
    std::string_view rank, size, local_rank, local_size;
  };
  void read_ranks(const Names& names, Launch& launch) const;

  // "NAME is 'value', <what>; <remedy>"
  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

 private:
  const Environment& environment_;
  std::string_view remedy_;
};

std::optional<Launch> from_options(const Environment& environment);
std::optional<Launch> from_torchrun(const Environment& environment);
std::optional<Launch> from_torch_variables(const Environment& environment);
std::optional<Launch> from_open_mpi(const Environment& environment);
std::optional<Launch> from_mpich(const Environment& environment);
std::optional<Launch> from_slurm(const Environment& environment);

}  // namespace tutti::rendezvous
