// tutti tune: measures what this machine, or the hosts of a job, take for the parts of a schedule, and keeps it where
// later jobs find it.
#include "tutti/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "base/json_text.h"
#include "base/system_error.h"
#include "rendezvous/host.h"
#include "tools/bench/progress.h"
#include "tools/step_times.h"
#include "tools/tune_told.h"
#include "tools/verbs.h"
#include "topology/discover/cores.h"
#include "topology/discover/cost_file.h"
#include "tutti/init.h"
#include "tutti/local.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTuneExamples = R"(Examples:
  tutti tune                           this host: shared memory and TCP; two minutes or so, on an idle machine
  tutti tune -n 4 --show               four ranks only, and every call that was timed beside its prediction
  tutti tune --json                    what was found, for scripts
  tutti run -n 8 -- tutti tune --job   a job, as the ranks of one; across hosts start it on each, with --nnodes
Where ranks have a GPU, the first of each is measured as well: one launch for all ranks and what it reads and writes a
second, staging in host memory each way, a copy within the device; with calls on its memory beside their predictions.
Where ranks share memory, steps of data parallel and ZeRO come last, which `tutti plan --cluster here` goes by.
Groups of other sizes go by the nearest one that was timed. Jobs on the same hosts find the result by themselves;
TUTTI_COSTS names another file. Without one, built-in costs hold.)";

struct TuneOptions {
  std::vector<int> ranks;
  bool job = false;
  bool show = false;
  bool quick = false;
  bool json = false;
  std::string file;

  bool with_calls() const { return show || json; }
};

// Measures, and says on the terminal how far it is.
template <class Measure>
auto shown(const std::string& headline, const char* what, const Measure& measure) {
  bench::Progress progress;
  progress.headline(headline);
  auto found =
      measure([&](double part) { progress.show(static_cast<std::size_t>(std::lround(part * 100)), 100, what); });
  progress.clear();
  return found;
}

// Times the group.
Tuned tune_shown(Communicator& comm, const std::string& what, bool quick) {
  return shown(what, "every algorithm, every size", [&](const auto& say) { return tune(comm, say, quick); });
}
std::vector<topology::MeasuredStep> steps_shown(Communicator& comm, const std::string& what, bool quick) {
  return shown(what, "steps of training", [&](const auto& say) { return measure_steps(comm, say, quick); });
}

// For people a group at a time, for scripts all of them at the end.
class Teller {
 public:
  explicit Teller(bool json) : json_(json) {}

  // What is told to people only.
  template <class... Values>
  void say(fmt::format_string<Values...> words, Values&&... values) const {
    if (!json_) fmt::print(words, std::forward<Values>(values)...);
  }
  void tell(Json told) {
    say("{}", words_of_tuned(told));
    groups_.push_back(std::move(told));
  }
  void end(const std::string& file) {
    say("wrote {}\n", file);
    if (json_) fmt::print("{}\n", json_text(Json{{"file", file}, {"groups", groups_}}, 2));
  }

 private:
  bool json_;
  Json groups_ = Json::array();
};

// The file that will hold the costs, begun before anything is measured, so that a path which cannot be written costs no
// time. It takes its name once it is whole: a job that starts meanwhile finds the one before.
class Kept {
 public:
  explicit Kept(const std::string& path) : path_(path), beside_(fmt::format("{}.new-{}", path, ::getpid())) {
    if (path.empty()) refuse("there is no HOME to keep the costs in; name a file with --file");
    std::error_code refused;
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, refused);
    std::error_code ignored;
    if (!refused && fs::is_directory(path, ignored)) refused = std::make_error_code(std::errc::is_a_directory);
    if (!refused) file_.open(beside_);
    if (!refused && !file_) refused = std::error_code(errno, std::generic_category());
    if (refused) {
      refuse(fmt::format("cannot write '{}': {}; name another file with --file", path, refused.message()));
    }
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { static_cast<void>(::unlink(beside_.c_str())); }

  // With what the file said so far: groups of other sizes are not measured anew.
  void add(const topology::CostTable& found) {
    if (!costs_) costs_ = topology::costs_kept_in(path_).value_or(found);
    costs_->speeds = found.speeds;
    topology::put_survey(*costs_, found.surveys.front());
  }

  const std::string& path() const { return path_; }
  void write() {
    file_ << topology::to_text(*costs_);
    file_.close();
    if (!file_ || std::rename(beside_.c_str(), path_.c_str()) != 0)
      throw_errno(fmt::format("cannot write '{}'", path_));
  }

 private:
  std::string path_, beside_;
  std::ofstream file_;
  std::optional<topology::CostTable> costs_;
};

// The file that was named, or nothing. What TUTTI_COSTS names need not be there yet, so no rank is to look for it.
std::string named_file(const TuneOptions& asked) {
  const std::string variable = Environment::of_process().get("TUTTI_COSTS").value_or("");
  ::unsetenv("TUTTI_COSTS");
  if (!asked.file.empty()) return asked.file;
  return variable == topology::kBuiltIn ? "" : variable;
}

// What rank 0 of forked ranks has found comes back through a pipe.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0) throw_errno("cannot hand back what was measured");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

// What `body` returns on rank 0.
template <class Body>
std::string found_by_ranks(int ranks, TransportKind transport, bool pinned, const Body& body) {
  int ends[2];
  if (::pipe(ends) != 0) throw_errno("cannot make a pipe");
  const FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  Options options;
  options.transport = transport;
  std::string found;
  // The pipe holds little, and ranks are waited for elsewhere.
  std::thread reader([&] { found = read_all(from.get()); });
  const auto run = [&](Communicator& comm) {
    const std::string text = body(comm);
    if (comm.rank() == 0) write_all(to.get(), text);
  };
  std::vector<tutti::RankEnd> ends_of_ranks;
  try {
    ends_of_ranks = run_processes(ranks, run, options, pinned);
  } catch (...) {
    to.reset();
    reader.join();
    throw;
  }
  to.reset();
  reader.join();
  for (std::size_t rank = 0; rank < ends_of_ranks.size(); ++rank) {
    if (!ends_of_ranks[rank].ok())
      throw Error(ErrorCode::system, fmt::format("rank {}: {}", rank, ends_of_ranks[rank].message));
  }
  return found;
}

topology::CostTable tune_here(const TuneOptions& asked, int ranks, TransportKind transport, const std::string& what,
                              Teller& teller) {
  // Where tutti bench puts them.
  const std::vector<int> processors = topology::first_processors();
  const std::string found = found_by_ranks(ranks, transport, true, [&](Communicator& comm) {
    topology::pin_process(processors[static_cast<std::size_t>(comm.rank()) % processors.size()]);
    const Tuned tuned = tune_shown(comm, what, asked.quick);
    return tuned.costs + '\0' + told_of(tuned, what, asked.with_calls()).dump();  // a table has no zero
  });
  const std::size_t zero = found.find('\0');
  topology::CostTable costs = topology::costs_from_text(found.substr(0, zero));
  Json told = Json::parse(found.substr(zero + 1));
  if (transport == TransportKind::shm) {
    const std::string steps = found_by_ranks(ranks, transport, false, [&](Communicator& comm) {
      return topology::to_text(steps_shown(comm, what, asked.quick));
    });
    costs.surveys.front().steps = topology::steps_from_text(steps);
    told["steps"] = Json::parse(steps);
  }
  teller.tell(std::move(told));
  return costs;
}

void tune_host(const TuneOptions& asked) {
  const std::string named = named_file(asked);
  Kept kept(named.empty() ? topology::cost_file(Environment::of_process(), {rendezvous::host_name()}) : named);
  Teller teller(asked.json);
  teller.say("{} ranks on {}; other work on it would be measured, too\n", fmt::join(asked.ranks, ", "),
             rendezvous::host_name());
  for (const int ranks : asked.ranks) {
    for (const auto& [transport, what] :
         {std::pair{TransportKind::shm, "shared memory"}, {TransportKind::tcp, "TCP"}}) {
      std::fflush(stdout);  // before ranks are forked
      kept.add(tune_here(asked, ranks, transport, fmt::format("{} ranks, {}", ranks, what), teller));
    }
  }
  kept.write();
  teller.end(kept.path());
}

void tune_job(const TuneOptions& asked) {
  const std::string named = named_file(asked);
  Communicator comm = init();
  using Name = std::array<char, 256>;
  Name mine{};
  const std::string name = rendezvous::host_name();
  std::memcpy(mine.data(), name.data(), std::min(name.size(), mine.size() - 1));
  std::vector<Name> names(static_cast<std::size_t>(comm.size()));
  comm.all_gather(one(mine), names);
  std::optional<Kept> kept;
  if (comm.rank() == 0) {
    std::vector<std::string> hosts;
    for (const Name& each : names) hosts.emplace_back(each.data());
    kept.emplace(named.empty() ? topology::cost_file(Environment::of_process(), hosts) : named);
  }
  const Tuned tuned = tune_shown(comm, "the job", asked.quick);
  topology::CostTable costs = topology::costs_from_text(tuned.costs);
  topology::Survey& survey = costs.surveys.front();
  if (survey.memory && survey.hosts == 1) survey.steps = steps_shown(comm, "the job", asked.quick);
  if (!kept) return;
  Teller teller(asked.json);
  Json told = told_of(tuned, "the job", asked.with_calls());
  if (!survey.steps.empty()) told["steps"] = Json::parse(topology::to_text(survey.steps));
  teller.tell(std::move(told));
  kept->add(costs);
  kept->write();
  teller.end(kept->path());
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("tune", "Measure this machine, so that algorithms are chosen by real prices");
  verb->footer(kTuneExamples);
  const auto asked = std::make_shared<TuneOptions>();
  asked->ranks = {2, 4, 8};
  if (std::thread::hardware_concurrency() >= 16) asked->ranks.push_back(16);
  verb->add_option(
          "-n,--ranks", asked->ranks,
          "Sizes of the groups that are timed, with commas between; 2,4,8 if left out (with 16 processors also 16)")
      ->type_name("N")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  verb->add_flag("--job", asked->job, "This process is a rank of a launched job: measure all of it");
  verb->add_flag("--show", asked->show, "Every call that was timed, and what it is predicted to take");
  verb->add_flag("--json", asked->json, "As JSON, for scripts: what --show shows, and the rates of GPUs");
  verb->add_flag("--quick", asked->quick, "Few sizes, once each: a rough idea, in a moment");
  verb->add_option("--file", asked->file, "Where to keep the result, instead of the cache folder")->type_name("FILE");
  verb->callback([asked, &exit_code] {
    asked->job ? tune_job(*asked) : tune_host(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
