// The rings that the ranks of a job left become its trace, for `tutti run --trace` and `tutti trace --merge`.
#include "tools/trace_merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "tools/verbs.h"
#include "trace/merge.h"
#include "trace/ring_folder.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

void tell(const char* verb, const std::string& file, const trace::Merged& merged) {
  say(verb, fmt::format("{}: {} events of {} ranks", file, merged.events, merged.ranks));
  for (const std::string& sentence : merged.sentences) say(verb, sentence);
}

std::string file_for(const std::string& folder) {
  constexpr std::string_view kEnding = ".rings";
  std::string name = folder;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (name.size() > kEnding.size() && name.ends_with(kEnding)) return name.substr(0, name.size() - kEnding.size());
  refuse(fmt::format("{} does not end in {}: name the file to write with -o", folder, kEnding));
}

}  // namespace

void clear_trace(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty() && ::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(fmt::format("--trace {}: there is no folder {} to write to", file, folder.string()));
  if (fs::is_directory(file)) refuse(fmt::format("--trace {}: that is a folder; name a file", file));
  if (trace::is_in_use(trace::rings_of(file)))
    refuse(fmt::format("--trace {}: another job still records to it; name another file", file));
  trace::remove_rings(trace::rings_of(file));
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) fs::remove(file, ignored);
}

bool finish_trace(const char* verb, const std::string& file, bool all_here) {
  const std::string folder = trace::rings_of(file);
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    if (fs::exists(file, ignored)) return true;
    say(verb, fmt::format("nothing was recorded for {}: no process has joined a group of Tutti's by init; groups of "
                          "run_threads and run_processes are recorded where the program itself starts the trace",
                          file));
    return false;
  }
  try {
    const trace::Merged merged = trace::merge(folder, file);
    tell(verb, file, merged);
    if (all_here || merged.all_ended) trace::remove_rings(folder);
    return true;
  } catch (const Error& error) {
    say(verb, fmt::format("the trace is left as rings in {}: {}", folder, error.what()));
    return false;
  }
}

int merge_trace(const std::string& folder, std::string file) {
  if (file.empty()) file = file_for(folder);
  tell("trace", file, trace::merge(folder, file));
  return 0;
}

}  // namespace tutti::tools
