// Runs a fuzz target without libFuzzer: `fuzz_x FOLDER [RUNS [SEED]]` replays the inputs of a folder, then runs
// mutations of them. An input that ends the process is left in crash-<name of the program>.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "fuzz/target.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes current;
std::string crash_file;

extern "C" void leave_input(int signal) {
  const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && ::write(file, current.data(), current.size()) >= 0) ::close(file);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void run(Bytes input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

class Mutator {
 public:
  Mutator(std::vector<Bytes> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  Bytes next() {
    Bytes bytes = corpus_[below(corpus_.size())];
    for (std::size_t i = 1 + below(4); i-- > 0;) mutate(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t most) { return most == 0 ? 0 : random_() % most; }

  void mutate(Bytes& bytes) {
    static constexpr std::uint32_t kOdd[] = {0,    1,     2,        3,          127,        255,        256,       4096,
                                             4097, 65535, 1u << 20, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(bytes.size() - at, 32));
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (bytes.empty() ? 1 : below(6)) {
      case 0: bytes[at] ^= static_cast<std::uint8_t>(1u << below(8)); break;
      case 1: bytes.insert(place, 1 + below(8), static_cast<std::uint8_t>(random_())); break;
      case 2: bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min(length, bytes.size() - at))); break;
      case 3: {
        const std::uint32_t odd = kOdd[below(std::size(kOdd))];
        for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i) bytes[at + i] = odd >> (8 * i) & 0xff;
        break;
      }
      case 4: {
        const Bytes& other = corpus_[below(corpus_.size())];
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
        break;
      }
      default: bytes[at] = static_cast<std::uint8_t>(random_());
    }
  }

  std::vector<Bytes> corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  crash_file = "crash-" + std::filesystem::path(argv[0]).filename().string();
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, leave_input);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) return 2;
  for (const Bytes& input : corpus) run(input);
  const std::size_t runs = argc > 2 ? std::stoul(argv[2]) : 0;
  Mutator mutator(std::move(corpus), argc > 3 ? std::stoull(argv[3]) : 1);
  for (std::size_t i = 0; i < runs; ++i) run(mutator.next());
}
