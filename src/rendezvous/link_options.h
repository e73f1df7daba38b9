// What a rank needs to make links with the others once they have met.
#pragma once

#include <functional>

#include "rendezvous/dialer.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

struct LinkOptions {
  Token token = Token::zero();
  JobHash job{};
  std::function<Endpoint(int rank)> endpoint_of;
  std::uint32_t channels = 0;  // data links of a pair of ranks

  Dialer dialer_to(Network& network, Purpose purpose, std::uint32_t channel, int from, int to) const {
    Hello hello;
    hello.purpose = purpose;
    hello.channel = channel;
    hello.from = static_cast<std::uint32_t>(from);
    hello.to = static_cast<std::uint32_t>(to);
    hello.job = job;
    return {network, endpoint_of(to), token, hello};
  }
};

}  // namespace tutti::rendezvous
