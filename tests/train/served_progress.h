// A table of what every worker of a parameter server has pushed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/train/parameter_server.h"

namespace tutti::testing {

// Each worker adds 1 to its own row in every clock.
struct Progress {
  Progress(Communicator& comm, const train::ServerOptions& options)
      : workers(comm.size() - static_cast<int>(options.servers.size())),
        server(comm, {{.name = "progress", .shape = {workers, 1}, .table = true}},
               train::Sgd{.learning_rate = static_cast<double>(workers)}, options) {}

  // Of a worker, from 0 on.
  void push(int worker) {
    const std::int64_t row = worker;
    const float step = -1;
    server.push_rows(0, std::span(&row, 1), std::span(&step, 1));
  }
  std::vector<float> pull() {
    std::vector<float> progress(static_cast<std::size_t>(workers));
    server.pull(0, progress);
    return progress;
  }

  int workers;
  train::ParameterServer server;
};

}  // namespace tutti::testing
