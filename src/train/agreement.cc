#include "train/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "base/mix.h"
#include "strategy/pipeline_sentence.h"

namespace tutti::train {
namespace {

using Words = std::array<char, 512>;
using Outcome = std::array<std::uint32_t, 2>;  // length of the words of an error, or 0; its code
static_assert(sizeof(Outcome) == strategy::kOutcomeBytes);

// What one rank has to say, known to all.
std::string words_from(Communicator& communicator, int root, const std::string& own) {
  Words words{};
  if (communicator.rank() == root) std::memcpy(words.data(), own.data(), std::min(own.size(), words.size() - 1));
  communicator.broadcast(words, root);
  return words.data();
}

}  // namespace

void all_or_none(Communicator& communicator, const std::function<void()>& part) {
  std::string words;  // none where all is well
  ErrorCode code = ErrorCode::system;
  try {
    part();
  } catch (const Error& error) {
    words = error.what();
    code = error.code();
  } catch (const std::exception& error) {
    words = *error.what() == '\0' ? "an error that does not say what it is" : error.what();
  }
  const Outcome own{static_cast<std::uint32_t>(words.size()), static_cast<std::uint32_t>(code)};
  std::vector<std::uint32_t> all(2 * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(own, all);
  for (std::size_t rank = 0; 2 * rank < all.size(); ++rank) {
    if (all[2 * rank] == 0) continue;
    words.resize(all[2 * rank]);
    communicator.broadcast(words, static_cast<int>(rank));
    throw Error(static_cast<ErrorCode>(all[2 * rank + 1]), "rank " + std::to_string(rank) + ": " + words,
                static_cast<int>(rank));
  }
}

std::uint64_t hash_of_bytes(std::span<const std::byte> bytes) {
  std::uint64_t hash = tutti::mix(0, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    hash = tutti::mix(hash, word);
  }
  return hash;
}

std::uint64_t hash_of_text(std::string_view text) { return hash_of_bytes(std::as_bytes(std::span(text))); }

void require_alike(Communicator& communicator, std::span<const std::uint64_t> hashes,
                   const std::function<std::string(std::size_t)>& describe, std::string_view remedy, Sentence& said) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::uint64_t> counts(ranks);
  const std::uint64_t count = hashes.size();
  communicator.all_gather(std::span(&count, 1), counts);
  said.push_back({Verb::all_gather, "how many things to compare", ranks * sizeof count, 1, communicator.size()});

  const std::size_t longest = *std::max_element(counts.begin(), counts.end());
  std::vector<std::uint64_t> own(hashes.begin(), hashes.end()), all(ranks * longest);
  own.resize(longest);
  communicator.all_gather(own, all);
  said.push_back({Verb::all_gather, "hashes of them", all.size() * sizeof(std::uint64_t), 1, communicator.size()});

  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const auto other = all.begin() + static_cast<std::ptrdiff_t>(rank * longest);
    std::size_t place =
        static_cast<std::size_t>(std::mismatch(all.begin(), all.begin() + longest, other).first - all.begin());
    if (place == longest && counts[rank] == counts[0]) continue;
    const std::string mine = place < count ? describe(place) : "nothing more";
    const std::string first = words_from(communicator, 0, mine);
    const std::string differs = words_from(communicator, static_cast<int>(rank), mine);
    throw Error(
        ErrorCode::mismatch,
        "rank " + std::to_string(rank) + " has " + differs + " where rank 0 has " + first + "; " + std::string(remedy),
        static_cast<int>(rank));
  }
}

}  // namespace tutti::train
