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
  template <Writable Buffer>
  requires Lasting<Buffer> Batch& recv_up_to(Buffer&& buffer, int source, int tag = 0) {
    requests_.push_back(Communicator::up_to(Communicator::message(Direction::receive, buffer, source, tag)));
    return *this;
  }
  // Starts all that was added, and forgets it: one Work each, in the order they were added.
  [[nodiscard]] std::vector<Work> start() {
    const std::vector<Request> requests = std::exchange(requests_, {});  // forgotten even where one is refused
    return communicator_->submit_all(requests);
  }
  // What each of them has received, in the order they were added; of sends, nothing (source -1).
  std::vector<Received> run() {
    std::vector<Work> works = start();
    wait_all(works);
    std::vector<Received> received;
    for (const Work& work : works) received.push_back(work.received());
    return received;
  }

 private:
  Communicator* communicator_;
  std::vector<Request> requests_;
};

}  // namespace tutti
