// The `tutti` command: see, prove and try collectives.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/nearest_names.h"
#include "tools/bench/rank.h"
#include "tools/launch/descriptors.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace {

constexpr const char* kAbout = R"(Tutti: collective communication for distributed training.
A collective is a schedule, plain data: this command draws it, proves it and runs it.)";

constexpr const char* kExamples = R"(Examples:
  tutti demo                                          a first look, about ten seconds
  tutti run -n 4 -- ./train --epochs 3                a program as four ranks of this host
  tutti bench all_reduce -n 2 --against all           how fast it is here, beside other libraries
  tutti tune                                          measure this machine, so that choices fit it
  tutti env                                           the variables there are, and their values here
  tutti list                                          the algorithms there are
  tutti show all_reduce --algorithm ring -n 4         how it plays, round by round
  tutti verify all_reduce --algorithm ring -n 7       prove it for seven ranks
  tutti view all_reduce --algorithm ring -n 8         play it in a browser
  tutti topo dgx-h100:4                               a cluster: parts, links, the way between ranks
  tutti sim all_reduce --topology dgx-h100:4 -b 256M  what it would take there
  tutti trace run.json                                where the time of a job went
  tutti plan gamma                                    does a training job wait for its gradients?
  tutti study straggler -n 4 --slow 2:2x              one slow rank: who is named, and what it costs
  tutti show all_reduce -a ring -n 4 --json > p.json  take it home ...
  tutti verify --file p.json                          ... edit it, and see whether it still holds)";

// A standard error that takes nothing must not change how the command ends.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

int usage(const std::string& what, const std::string& command) {
  say(fmt::format("{}: {}\n  for examples: {} --help\n", command, what, command));
  return tutti::tools::kUsage;
}

int failure(const std::string& what, const std::string& command) {
  say(fmt::format("{}: {}\n", command, what));
  return tutti::tools::kFailed;
}

// What was printed may still wait in a buffer, and then fail to reach a full disk.
int with_output_written(int exit_code, const std::string& command) {
  if (std::fflush(stdout) == 0 || exit_code != 0) return exit_code;
  return failure(fmt::format("cannot write to standard output: {}", std::strerror(errno)), command);
}

}  // namespace

// Only a failing print could throw past the handlers below, and then there is nobody left to tell.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  tutti::tools::open_closed_streams();
  if (argc == 2 && std::strcmp(argv[1], tutti::bench::kRankCommand) == 0) return tutti::bench::run_rank();
  CLI::App app(kAbout, "tutti");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int exit_code = 0;
  std::vector<std::string> program;  // of `tutti run`
  tutti::tools::add_bench(app, exit_code);
  tutti::tools::add_cost(app, exit_code);
  tutti::tools::add_demo(app, exit_code);
  tutti::tools::add_env(app, exit_code);
  tutti::tools::add_export(app, exit_code);
  tutti::tools::add_list(app, exit_code);
  tutti::tools::add_plan(app, exit_code);
  tutti::tools::add_run(app, exit_code, program);
  tutti::tools::add_show(app, exit_code);
  tutti::tools::add_sim(app, exit_code);
  tutti::tools::add_study(app, exit_code, program);
  tutti::tools::add_token(app, exit_code);
  tutti::tools::add_topo(app, exit_code);
  tutti::tools::add_trace(app, exit_code);
  tutti::tools::add_tune(app, exit_code);
  tutti::tools::add_verify(app, exit_code);
  tutti::tools::add_view(app, exit_code);
  tutti::tools::add_version(app);

  if (argc == 1) {
    fmt::print("{}", app.help());
    return with_output_written(0, "tutti");
  }
  const auto command = [&] {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? std::string("tutti") : "tutti " + chosen.front()->get_name();
  };
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  const std::string asked = argv[1];
  const bool is_option = app.get_option_no_throw(asked) != nullptr;  // --help, --version
  if (!is_option && std::find(verbs.begin(), verbs.end(), asked) == verbs.end()) {
    return usage(tutti::none_called("command", asked, {verbs.begin(), verbs.end()}), "tutti");
  }
  std::vector<std::string> arguments(argv + 1, argv + argc);
  program = tutti::tools::split_off_program(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // as parse takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}", version.what());  // and not by the parser, which would not notice a full disk
    return with_output_written(0, command());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return with_output_written(app.exit(error), command());  // --help
    return usage(error.what(), command());
  } catch (const tutti::Error& error) {
    const bool asked_wrongly =
        error.code() == tutti::ErrorCode::invalid_argument || error.code() == tutti::ErrorCode::unsupported;
    if (asked_wrongly) return usage(error.what(), command());
    return failure(error.what(), command());
  } catch (const std::exception& error) {
    return failure(error.what(), command());
  }
  return with_output_written(exit_code, command());
}
