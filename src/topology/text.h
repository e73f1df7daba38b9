// The text form of a topology, which people write and read:
//
//   # four hosts of 8 GPUs on one rail-optimised fabric
//   topology example
//   hosts 4
//   routing fixed                                  among equal ways: ecmp, which is the default, or fixed
//   device gpu 8                                   parts, from below: KIND NAME COUNT
//   bridge nvswitch 1
//   nic nic 8
//   switch leaf 8 per 32                           of switches so many in all, or per so many hosts
//   link gpu nvswitch each 450 GB/s 0.5 us         LOWER UPPER PATTERN, and how fast
//   link gpu nic each 63 GB/s 0.7 us
//   link nic leaf each 400 Gbit/s 1 us back 200 Gbit/s 1 us
//
// Hosts of several kinds have a number and a name each; behind a count or a speed, a kind's name says where it differs:
//
//   hosts 4 fat 2 thin
//   device gpu 8 thin 4
//   link gpu nic each 63 GB/s 0.7 us thin 32 GB/s 1 us
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.h"

namespace tutti::topology {

// Throws Error(invalid_argument): "FILE:3:7: ...", what is wrong and what may stand there. `file` is for the words.
Topology parse_topology(std::string_view text, const std::string& file);
// What parse_topology() makes the same of.
std::string to_text(const Topology& topology);

// "450 GB/s", "0.5 us"
std::string words_of_bandwidth(double bytes_per_s);
std::string words_of_latency(double seconds);

}  // namespace tutti::topology
