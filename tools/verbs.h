// The verbs of the `tutti` command, one file each. Each adds its subcommand; running it leaves the exit code.
//
// Exit codes: 0 fine; 1 what was asked for failed (a program that does not verify, a run that broke); 2 wrong usage;
// 3 a job that was planned does not fit into memory.
// `tutti run` ends with the code of the rank that failed first; 127 and 126 where the program cannot be run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kDoesNotFit = 3;

void add_bench(CLI::App& app, int& exit_code);
void add_cost(CLI::App& app, int& exit_code);
void add_demo(CLI::App& app, int& exit_code);
void add_env(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
// Within plan.
void add_plan_gamma(CLI::App& plan, int& exit_code);
void add_plan_compare(CLI::App& plan, int& exit_code);
void add_plan_scale(CLI::App& plan, int& exit_code);
// `program` is what split_off_program found, and is read when the verb runs.
void add_run(CLI::App& app, int& exit_code, const std::vector<std::string>& program);
void add_show(CLI::App& app, int& exit_code);
// `tutti show pipeline` and the others, within show.
void add_show_pipeline(CLI::App& show, int& exit_code);
void add_show_cheatsheet(CLI::App& show, int& exit_code);
void add_show_topology(CLI::App& show, int& exit_code);
void add_show_buckets(CLI::App& show, int& exit_code);
void add_sim(CLI::App& app, int& exit_code);
// `program` as add_run has it.
void add_study(CLI::App& app, int& exit_code, const std::vector<std::string>& program);
void add_token(CLI::App& app, int& exit_code);
void add_topo(CLI::App& app, int& exit_code);
// `tutti topo place`, within topo.
void add_topo_place(CLI::App& topo, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_view(CLI::App& app, int& exit_code);

// Wrong usage, with the remedy.
[[noreturn]] void refuse(const std::string& why);
// For options: what is no number between these, both included, is refused in words. NaN is none either, which CLI11's
// own checks let pass.
CLI::Validator number_between(double least, double most);
// "tutti run: ..." on standard error. One that takes nothing must not change how the command ends.
void say(const char* verb, const std::string& sentence);

// --version, which is no verb but stands where one would.
void add_version(CLI::App& app);

// Takes the program and its arguments off the end of `tutti run`'s arguments, so that nobody mistakes them for options
// of the launcher; the arguments of other verbs are left alone.
std::vector<std::string> split_off_program(const CLI::App& app, std::vector<std::string>& arguments);

}  // namespace tutti::tools
