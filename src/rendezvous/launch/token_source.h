// Where a rank's token comes from: a pure decision over launch and environment.
//
// No connection is made without the job's token, except where the kernel vouches for the other end's user.
#pragma once

#include <string_view>

#include "base/environment.h"
#include "rendezvous/launch/launch.h"

namespace tutti::rendezvous {

enum class TokenSource : unsigned char {
  nobody_to_meet,  // a group of one
  environment,     // TUTTI_TOKEN
  file,            // TUTTI_TOKEN_FILE
  kernel,          // none needed: a UNIX socket tells the user at its other end
  torch_store,     // rank 0 makes one and leaves it in torchrun's store, which anyone who reaches it can read
  pmix,            // rank 0 makes one and leaves it with PMIx, which lets in the processes of this job
  own_store        // ... and leaves it in the program's store until all have met
};

// Throws Error(invalid_argument) with the remedy where there is none to be had: ranks on several hosts need a file.
TokenSource token_source(const Launch& launch, const Environment& environment);

// One line for the log. For torch_store it is a warning.
std::string_view describe(TokenSource source);

}  // namespace tutti::rendezvous
