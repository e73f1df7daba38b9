// The `tutti` command as a process that a test talks to: its streams, its signals, its end. Every wait is for an event
// and has a bound; whatever is still running when the object goes is killed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tutti::testing {

struct LaunchedEnd {
  int exit_code = -1;  // 128 + signal where a signal ended it; -1 where it did not end in time
  std::string output;
  std::string errors;
};

class Launched {
 public:
  struct Setup {
    std::map<std::string, std::string> environment;  // beside that of the test
    std::string input;                               // standard input; then it ends
    bool on_terminal = false;                        // all three streams are a terminal; output() shows all of it
    unsigned long most_descriptors = 0;              // hard limit; 0 = as it is
    bool close_output = false;                       // nobody reads standard output
    std::string output_file;                         // standard output goes there; empty = to the test
    std::string errors_file;                         // and standard error
    std::vector<int> closed;                         // descriptors that it starts without
  };

  explicit Launched(const std::vector<std::string>& arguments) : Launched(arguments, Setup()) {}
  Launched(const std::vector<std::string>& arguments, const Setup& setup);
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& output() const { return output_; }
  // What a person types, where it runs on a terminal.
  void type(const std::string& text) const;
  void signal(int number) const;
  // Waits until standard output holds `text` so many times; false where it ends or takes too long.
  bool shows(const std::string& text, int times = 1);
  LaunchedEnd finish();

 private:
  bool read_more();

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool on_terminal_;
  std::string output_;
  std::string errors_;
};

// Runs it from start to end.
LaunchedEnd launch(const std::vector<std::string>& arguments);
LaunchedEnd launch(const std::vector<std::string>& arguments, const Launched::Setup& setup);

// Waits until the process has ended, whoever its parent is; false where it takes too long.
bool ends(pid_t pid);

using Words = std::vector<std::string>;

// tutti run -n `ranks` `options` -- sh -c `script`
Words run_shell(int ranks, const std::string& script, const Words& options = {});

// A folder for the files of one test, removed in the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return path_ / name; }
  // A named pipe: how ranks of a test wait for each other.
  std::string pipe(const std::string& name) const;
  std::string with(const std::string& name, const std::string& text, mode_t mode) const;

 private:
  std::filesystem::path path_;
};

int count_of(const std::string& text, const std::string& part);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace tutti::testing
