// A control plane for tests: one UNIX socket per pair of ranks, which tells the news and, when it ends, of a death.
#pragma once

#include <memory>
#include <vector>

#include "base/control.h"
#include "base/file_descriptor.h"
#include "base/links.h"

namespace tutti::testing {

// Both ends of a connection for a TestControl. Throws Error(system).
std::pair<FileDescriptor, FileDescriptor> make_control_pair();

// `peers`: by rank, invalid for this rank itself.
std::unique_ptr<Control> make_test_control(int rank, std::vector<FileDescriptor> peers);

// For connections that are there already: tells of `made`, and of what happens at them.
std::shared_ptr<Links> make_test_links(std::vector<Links::Made> made = {});

}  // namespace tutti::testing
