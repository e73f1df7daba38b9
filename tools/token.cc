// tutti token: makes the secret that the ranks of a job on several hosts share.
#include "rendezvous/token.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/system_error.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenExamples = R"(Examples:
  tutti token                        writes ./tutti.token
  tutti token ~/.secrets/job.token   writes there; the folder has to exist
The token is never printed. Every host of a job needs the same file, readable by you alone.)";

struct TokenOptions {
  std::string file = "tutti.token";
  bool force = false;
};

// The new file takes the old one's place in one step: whoever reads it sees one or the other.
void replace(const std::string& file, const rendezvous::Token& token) {
  const std::string beside = fmt::format("{}.new-{}", file, ::getpid());
  token.write_file(beside);
  if (std::rename(beside.c_str(), file.c_str()) == 0) return;
  const int number = errno;
  ::unlink(beside.c_str());
  errno = number;
  throw_errno(fmt::format("cannot replace '{}'", file));
}

void write(const TokenOptions& asked) {
  const auto token = rendezvous::Token::random();
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(asked.file, ignored);
  if (fs::exists(there) && !asked.force) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is there already, and jobs may be using it; name another file, or --force", asked.file));
  }
  asked.force&& fs::exists(there) ? replace(asked.file, token) : token.write_file(asked.file);
  const std::string path = fs::absolute(asked.file).lexically_normal();
  fmt::print(
      "wrote {}: a new token of 256 bits, readable by you alone\n"
      "next: copy it to the same place on every host of the job, and say where it is on each of them\n"
      "  scp -p {} HOST:{}\n"
      "  export TUTTI_TOKEN_FILE={}\n",
      path, path, path, path);
}

}  // namespace

void add_token(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("token", "Make the secret that the hosts of a job share");
  verb->footer(kTokenExamples);
  const auto asked = std::make_shared<TokenOptions>();
  verb->add_option("file", asked->file, "Where to write it, mode 0600; tutti.token if left out")->type_name("FILE");
  verb->add_flag("--force", asked->force, "Replace a file that is there");
  verb->callback([asked, &exit_code] {
    write(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
