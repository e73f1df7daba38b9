// What the programs of a call must share before anything else about them can be said, and the layout they run under.
#pragma once

#include <span>

#include "schedule/layout.h"
#include "schedule/readers/verify.h"
#include "schedule/readers/verify_problems.h"

namespace tutti::schedule::verification {

// Whether the programs are those of ranks 0..p-1 of one call.
bool check_shape(std::span<const Lowered> programs, const VerifyOptions& options, Problems& problems);

// The same of one program that stands for all.
bool check_shape_of_one(const Lowered& lowered, const VerifyOptions& options, Problems& problems);

Layout layout_of(const Lowered& lowered, const VerifyOptions& options);

// Whether scratch fits what the transport offers, and all of it into a run.
bool check_bounds(std::span<const Lowered> programs, const Layout& layout, Problems& problems);

}  // namespace tutti::schedule::verification
