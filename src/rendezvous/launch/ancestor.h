// The process that started the ranks of this host, for launchers whose variables name no job.
#pragma once

#include <string>
#include <string_view>

namespace tutti::rendezvous {

// "pid@start" of the nearest ancestor of this process whose program has that name, or of the parent where none has;
// start is in ticks since boot, so that a reused process id is another one. Empty where the system does not tell.
std::string ancestor(std::string_view program);

}  // namespace tutti::rendezvous
