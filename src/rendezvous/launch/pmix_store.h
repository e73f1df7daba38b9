// The PMIx server that started this process, as a Store: a rank posts words, the others fetch them from rank 0.
//
// libpmix is loaded when it is first needed, so neither building nor running Tutti depends on it. PMIx lets in only
// processes that the runtime started for the same user.
#pragma once

#include <memory>

#include "base/deadline.h"
#include "rendezvous/launch/store.h"

namespace tutti::rendezvous {

// Keys are read from rank 0, so only rank 0 may set. Throws Error with a remedy where PMIx is missing or silent.
std::unique_ptr<Store> make_pmix_store(const Deadline& deadline);

}  // namespace tutti::rendezvous
