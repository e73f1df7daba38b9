// What a trace of Tutti says of its job: its member `tutti` (docs/trace.md). Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/event_file.h"

namespace tutti::analysis {

// Why a trace with this member `tutti` cannot be read, in words that go on behind "is no trace that can be shown: ";
// empty where it can.
std::string why_unreadable(const Json& facts);

// What a reader has to know of its hosts and ranks before believing the figures: clocks that may be off, ranks that
// were killed, that lost events, or had no room for names. Of what can be read.
std::vector<std::string> notes_of(const Json& facts);

}  // namespace tutti::analysis
