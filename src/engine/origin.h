// How the ranks of a group came together, kept for the groups that will be made of them. A value.
#pragma once

#include <memory>

#include "rendezvous/meeting.h"
#include "transport/memory/mapper.h"

namespace tutti::engine {

struct Origin {
  std::shared_ptr<transport::Regrouping> threads;  // the ranks are threads of this process and never met
  rendezvous::Again again = {};                    // otherwise
};

}  // namespace tutti::engine
