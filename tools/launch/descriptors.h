// The limit on open descriptors, which the launcher of many ranks may have to raise for itself.
#pragma once

#include <cstddef>

namespace tutti::tools {

// Makes room for the launcher of `ranks` ranks. Returns the limit that was in force, which the ranks shall have:
// programs that use select() break where it is high. Throws Error(invalid_argument) with the remedy.
unsigned long provide_descriptors(std::size_t ranks);

}  // namespace tutti::tools
