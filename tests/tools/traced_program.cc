// What a test records: some calls of each rank. "kill": rank 1 is killed behind the first. "leave": ends by exit(),
// with the communicator open. "twice": meets again. "stop": the same, and one of the two stops the trace. "pairs
// FOLDER" and "late FOLDER": four processes meet two by two, or two of them, and then all.
// "threads [FILE]": two ranks of one process, and the file is where they say so themselves.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tutti/error.h"
#include "tutti/init.h"
#include "tutti/local.h"
#include "tutti/trace.h"

namespace {

// A file for each key.
class FileStore : public tutti::Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value, std::chrono::milliseconds /*timeout*/) override {
    const std::string draft = path(key) + ".draft-" + std::to_string(::getpid());  // both ranks of a pair may set it
    std::ofstream(draft) << value;
    std::filesystem::rename(draft, path(key));
  }
  std::string get(const std::string& key, std::chrono::milliseconds /*timeout*/) override {
    while (!std::filesystem::exists(path(key))) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::ifstream file(path(key));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void remove(const std::string& key) override { std::filesystem::remove(path(key)); }

 private:
  std::string path(const std::string& key) const {
    std::string name;
    for (const char letter : key) name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '-';
    return folder_ + "/" + name;
  }

  std::string folder_;
};

int meet_in_parts(bool pairs, const std::string& folder) {
  const auto store = std::make_shared<FileStore>(folder);
  const int rank = std::atoi(std::getenv("TUTTI_RANK"));
  const auto meet = [&](int as, int size, const std::string& job) {
    tutti::Launch launch;
    launch.rank = as;
    launch.size = size;
    launch.job = job;
    return tutti::init_with_store({}, launch, store);
  };
  std::vector<float> values(1000, 1.0f);
  std::vector<tutti::Communicator> groups;
  if (rank < 2) {
    groups.push_back(meet(rank, 2, "first"));
    groups.back().all_reduce(values);
    groups.back().all_reduce(values);
    store->set("first is recorded", "", {});
  } else if (pairs) {
    store->get("first is recorded", {});
    groups.push_back(meet(rank - 2, 2, "second"));
    groups.back().all_reduce(values);
  }
  groups.push_back(meet(rank, 4, "all"));
  const std::vector<float> own(1, 1.0f);
  std::vector<float> all(4);
  groups.back().all_gather(own, all);
  return groups.back().trace().on() ? 0 : 4;
}

int run_as_threads(const std::string& file) {
  const auto ends = tutti::run_threads(2, [&](tutti::Communicator& comm) {
    if (!file.empty()) comm.trace().start(file);
    comm.barrier();
    if (!file.empty()) comm.trace().stop();
  });
  return ends[0].ok() && ends[1].ok() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  try {
    if (word == "threads") return run_as_threads(argc > 2 ? argv[2] : "");
    if (argc > 2) return meet_in_parts(word == "pairs", argv[2]);
    tutti::Communicator comm = tutti::init();
    const tutti::Span whole("whole");
    std::vector<float> values(100'000, 1.0f);
    comm.all_reduce(values);
    if (word == "kill" && comm.rank() == 1) ::raise(SIGKILL);
    for (int i = 0; i < 3; ++i) {
      const tutti::Span turn("turn");
      comm.all_reduce(values);
    }
    if (word == "twice") {
      tutti::Communicator again = tutti::init();
      again.barrier();
      std::thread([] { const tutti::Span span("elsewhere"); }).join();
    }
    if (word == "stop") {
      tutti::Communicator again = tutti::init();
      again.barrier();
      comm.trace().stop();
      if (comm.trace().on() || again.trace().on()) return 4;
      again.barrier();
    }
    if (word == "leave") std::exit(0);
  } catch (const tutti::Error&) {
    return 3;
  }
}
