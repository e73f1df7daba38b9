#include "engine/factory.h"

#include "schedule/algorithms/table.h"
#include "transport/memory/memory_transport.h"
#include "transport/threads/threads_mapper.h"

namespace tutti::engine {
namespace {

void require_usable_algorithm(const Options& options) {
  if (options.algorithm.empty()) return;
  std::string known;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (row.name == options.algorithm) {
      if (row.canonical || !options.deterministic) return;
      throw Error(ErrorCode::invalid_argument, "'" + options.algorithm + "' does not reduce in canonical order; set " +
                                                   "Options::deterministic to false to run it");
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorCode::invalid_argument, "no algorithm is called '" + options.algorithm + "'; there are: " + known);
}

}  // namespace

std::vector<std::unique_ptr<transport::Mapper>> make_threads_group(int ranks) {
  return transport::make_threads_mappers(ranks);
}

std::unique_ptr<transport::Mapper> make_shm_member(transport::ShmLinks links) {
  return transport::make_shm_mapper(std::move(links));
}

std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options) {
  require_usable_algorithm(options);
  const Deadline deadline = Deadline::after(options.timeout);
  auto transport = std::make_unique<transport::MemoryTransport>(std::move(mapper), Engine::kTracks + 1, deadline);
  return std::make_unique<Engine>(std::move(transport), options);
}

}  // namespace tutti::engine
