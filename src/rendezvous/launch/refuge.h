// Where the ranks of one host meet when another user holds the name of their meeting place.
//
// Names of abstract sockets belong to whoever binds them first, and that of a job can be guessed. The refuge's follows
// from the job and from a secret in a file of the user's cache folder, which is made when it is first needed.
#pragma once

#include <string>

#include "base/environment.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

// Empty where there is no secret and none is to be made, or none can be kept because there is no home. Throws Error
// where a file is there that is not the user's own, or cannot be made.
Endpoint refuge_of(const std::string& job, const Environment& environment, bool make);

}  // namespace tutti::rendezvous
