// Messages between two ranks, and batches of them.
#include <string>
#include <vector>

#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/operators.h"

using namespace tutti::capi;
using tutti::Direction;
using tutti::Request;

namespace {

constexpr const char* kWhere = "send_recv";  // the verb's name in every message of the library

Request sending(const void* buffer, size_t count, tutti_type type, int peer, int tag) {
  Request request{.verb = tutti::Verb::send_recv, .input = buffer, .input_count = count};
  request.element = element_of(type, kWhere);
  request.direction = Direction::send;
  request.peer = peer;
  request.tag = tag;
  return request;
}

Request receiving(void* buffer, size_t count, tutti_type type, int source, int tag) {
  Request request{.verb = tutti::Verb::send_recv, .output = buffer, .output_count = count};
  request.element = element_of(type, kWhere);
  request.direction = Direction::receive;
  request.peer = source;
  request.tag = tag;
  return request;
}

Request message_of(const tutti_message& message, size_t index) {
  if ((message.sent == nullptr) == (message.buffer == nullptr)) {
    reject("tutti_batch: message " + std::to_string(index) + " has " +
           (message.sent == nullptr ? "neither sent nor buffer" : "both sent and buffer") + "; set one of them");
  }
  Request request = message.sent != nullptr
                        ? sending(message.sent, message.count, message.type, message.peer, message.tag)
                        : receiving(message.buffer, message.count, message.type, message.peer, message.tag);
  request.up_to = message.up_to != 0;
  return request;
}

void receive(tutti_comm comm, const Request& request, tutti_received* received, tutti_work* work) {
  if (work != nullptr) {
    carry_out(comm, request, work);
    (*work)->received = received;
    return;
  }
  const tutti::Received got = communicator_of(comm).run(request);
  if (received != nullptr) *received = to_c(got);
}

}  // namespace

extern "C" {

tutti_code tutti_send(tutti_comm comm, const void* buffer, size_t count, tutti_type type, int peer, int tag,
                      tutti_work* work) {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    carry_out(comm, sending(buffer, count, type, peer, tag), work);
  });
}

tutti_code tutti_recv(tutti_comm comm, void* buffer, size_t count, tutti_type type, int source, int tag,
                      tutti_received* received, tutti_work* work) {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    receive(comm, receiving(buffer, count, type, source, tag), received, work);
  });
}

tutti_code tutti_recv_up_to(tutti_comm comm, void* buffer, size_t count, tutti_type type, int source, int tag,
                            tutti_received* received, tutti_work* work) {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    Request request = receiving(buffer, count, type, source, tag);
    request.up_to = true;
    receive(comm, request, received, work);
  });
}

tutti_code tutti_send_recv(tutti_comm comm, const void* sent, size_t sent_count, int destination, void* buffer,
                           size_t count, int source, tutti_type type, int tag, tutti_received* received) {
  return guarded([&] {
    tutti::Communicator& communicator = communicator_of(comm);
    const tutti::Received got = communicator.exchange(sending(sent, sent_count, type, destination, tag),
                                                      receiving(buffer, count, type, source, tag));
    if (received != nullptr) *received = to_c(got);
  });
}

tutti_code tutti_probe(tutti_comm comm, int source, int tag, tutti_type type, tutti_received* received) {
  return guarded([&] {
    tutti_received& found = place(received, "tutti_probe: received");
    found = to_c(communicator_of(comm).probe(source, tag, element_of(type, "probe")));
  });
}

tutti_code tutti_iprobe(tutti_comm comm, int source, int tag, tutti_type type, int* found, tutti_received* received) {
  return guarded([&] {
    int& is_there = place(found, "tutti_iprobe: found");
    is_there = 0;
    const auto seen = communicator_of(comm).iprobe(source, tag, element_of(type, "iprobe"));
    if (!seen) return;
    is_there = 1;
    if (received != nullptr) *received = to_c(*seen);
  });
}

tutti_code tutti_batch(tutti_comm comm, const tutti_message* messages, size_t count, tutti_work* works) {
  return guarded([&] {
    for (size_t i = 0; works != nullptr && i < count; ++i) works[i] = nullptr;
    tutti::Communicator& communicator = communicator_of(comm);
    if (count != 0) place(messages, "tutti_batch: messages");
    std::vector<Request> requests;
    requests.reserve(count);
    for (size_t i = 0; i < count; ++i) requests.push_back(message_of(messages[i], i));
    const auto report_to = [&](size_t i) { return messages[i].sent == nullptr ? messages[i].received : nullptr; };
    // Made before anything starts: a started call needs its handle.
    std::vector<std::unique_ptr<tutti_work_s>> records(works == nullptr ? 0 : count);
    for (auto& record : records) record = std::make_unique<tutti_work_s>();
    std::vector<tutti::Work> started = communicator.submit_all(requests);
    if (works == nullptr) tutti::wait_all(started);
    for (size_t i = 0; i < count; ++i) {
      if (works != nullptr) {
        records[i]->group = comm->group;
        records[i]->work = std::move(started[i]);
        records[i]->received = report_to(i);
        works[i] = records[i].release();
      } else if (report_to(i) != nullptr) {
        *report_to(i) = to_c(started[i].received());
      }
    }
  });
}

}  // extern "C"
