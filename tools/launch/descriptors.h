// The standard streams, and the limit on open descriptors, which the launcher of many ranks may have to raise.
#pragma once

#include <cstddef>

namespace tutti::tools {

// Opens /dev/null for each standard stream that is closed: otherwise the next descriptor that is opened for something
// else would take its number. To be called before anything else is opened.
void open_closed_streams();

// Makes room for the launcher of `ranks` ranks. Returns the limit that was in force, which the ranks shall have:
// programs that use select() break where it is high. Throws Error(invalid_argument) with the remedy.
unsigned long provide_descriptors(std::size_t ranks);

}  // namespace tutti::tools
