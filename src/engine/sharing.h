// Which ranks share a socket or its cache, in words, from what each of them said when they met.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/roster.h"

namespace tutti::engine {

// "sharing a socket and its cache: ranks 0-3; ranks 4-7". `hosts`: the ranks of each.
std::string words_of_sharing(const std::vector<rendezvous::Member>& members,
                             const std::vector<std::vector<int>>& hosts);

}  // namespace tutti::engine
