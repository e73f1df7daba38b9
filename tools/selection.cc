#include "tools/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedule/algorithms/lower_row.h"
#include "tools/verbs.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

constexpr int kMostRanks = 1024;

std::vector<std::string_view> verbs() {
  return {
#define X(name) #name,
      TUTTI_VERBS(X)
#undef X
  };
}

std::vector<std::string_view> algorithms_of(std::string_view verb) {
  std::vector<std::string_view> names;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (name_of(row.verb) == verb) names.push_back(row.name);
  }
  return names;
}

Offers offers_of(const std::string& transport, std::uint32_t credits) {
  Offers offers;
  offers.credits = credits;
  if (transport == "memory") {
    offers.windows_to_scratch = true;
    offers.windows_to_user = true;
    offers.operands_in_slots = true;
    offers.lends = true;
  } else if (transport != "stream") {
    refuse(fmt::format("no transport '{}'; there are: memory, stream", transport));
  }
  return offers;
}

}  // namespace

void Selection::add_to(CLI::App& app) {
  app.add_option("verb", verb, fmt::format("The collective: {}", fmt::join(verbs(), ", ")))->type_name("VERB");
  app.add_option("-a,--algorithm", algorithm, "A name from `tutti list`; the first for the verb if left out")
      ->type_name("NAME");
  app.add_option("-n,--ranks", ranks, "How many ranks take part; 4 if left out")->type_name("N");
  app.add_option("--root", root, "The rank that a rooted verb starts from or ends at")->type_name("RANK");
  app.add_option("--transport", transport, "What it runs over: memory (shared), stream (such as TCP)")
      ->type_name("NAME");
  app.add_option("--credits", credits, "Messages under way per pair of ranks before the sender waits; 4 if left out")
      ->type_name("N");
}

const schedule::Algorithm& Selection::row() const {
  if (verb.empty()) refuse(fmt::format("name a verb: {}", fmt::join(verbs(), ", ")));
  const std::vector<std::string_view> names = algorithms_of(verb);
  if (names.empty()) refuse(fmt::format("no verb '{}'; there are: {}", verb, fmt::join(verbs(), ", ")));
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (name_of(row.verb) == verb && (algorithm.empty() || row.name == algorithm)) return row;
  }
  refuse(fmt::format("no algorithm '{}' for {}; there are: {}", algorithm, verb, fmt::join(names, ", ")));
}

std::vector<schedule::Lowered> Selection::programs() const {
  const schedule::Algorithm& chosen = row();
  const bool pair = chosen.verb == Verb::send_recv;
  const int count = ranks.value_or(pair ? 2 : 4);
  if (count < 1 || count > kMostRanks) refuse(fmt::format("-n must be 1 to {}, not {}", kMostRanks, count));
  if (pair && count != 2) refuse(fmt::format("send_recv is between two ranks: use -n 2, not {}", count));
  if (root < 0 || root >= count)
    refuse(fmt::format("--root must be one of the ranks 0 to {}, not {}", count - 1, root));
  if (credits < 1) refuse("--credits must be at least 1: without one no message can ever leave");

  const Offers offers = offers_of(transport, credits);
  for (int rank = 0; rank < count; ++rank) {
    if (const std::string reason = schedule::why_not(chosen, {count, rank, root}, offers); !reason.empty()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} by {} {}, which --transport {} does not have", verb, chosen.name, reason, transport));
    }
  }
  return schedule::lower_all(chosen, count, offers, root);
}

}  // namespace tutti::tools
