// The verbs of the `tutti` command, one file each. Each adds its subcommand; running it leaves the exit code.
//
// Exit codes: 0 fine; 1 what was asked for failed (a program that does not verify, a run that broke); 2 wrong usage.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::tools {

inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

void add_demo(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);

}  // namespace tutti::tools
