// Messages that start together: neighbours exchange borders without caring who sends first.
//
//   tutti::Batch batch(comm);
//   batch.send(right_border, right).recv(left_halo, left);
//   batch.run();
#pragma once

#include <utility>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

class Batch {
 public:
  explicit Batch(Communicator& communicator) : communicator_(&communicator) {}

  template <Lasting Buffer>
  Batch& send(Buffer&& buffer, int peer, int tag = 0) {
    requests_.push_back(Communicator::message(Direction::send, buffer, peer, tag));
    return *this;
  }
  template <Writable Buffer>
  requires Lasting<Buffer> Batch& recv(Buffer&& buffer, int source, int tag = 0) {
    requests_.push_back(Communicator::message(Direction::receive, buffer, source, tag));
    return *this;
  }
  // Starts all that was added, and forgets it: one Work each, in the order they were added.
  [[nodiscard]] std::vector<Work> start() {
    const std::vector<Request> requests = std::exchange(requests_, {});  // forgotten even where one is refused
    return communicator_->submit_all(requests);
  }
  void run() {
    std::vector<Work> works = start();
    wait_all(works);
  }

 private:
  Communicator* communicator_;
  std::vector<Request> requests_;
};

}  // namespace tutti
