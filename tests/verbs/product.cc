#include "verbs/product.h"

#include <algorithm>

namespace tutti::testing {
namespace {

// Coprime to the number of sizes times places, so that a stride meets them all.
constexpr int kStride = 11;
constexpr std::size_t kLargeBytes = 640 << 10;
// Inputs begin at different elements of what the model holds.
constexpr std::size_t kFirsts = 61;

bool runs_in_place(Verb verb) { return verb != Verb::barrier && verb != Verb::send_recv; }

}  // namespace

std::size_t count_of(SizeClass size, Verb verb, DType type, int ranks) {
  switch (size) {
    case SizeClass::none: return 0;
    case SizeClass::one: return 1;
    case SizeClass::odd: return 1009;
    case SizeClass::large: break;
  }
  return (kLargeBytes / size_of(type) / (takes_chunks(verb) ? static_cast<std::size_t>(ranks) : 1)) | 1;
}

std::vector<Listed> product_of(DType type, int ranks) {
  std::vector<Listed> list;
  for (std::size_t v = 0; v < kVerbs; ++v) {
    const auto verb = static_cast<Verb>(v);
    if (verb == Verb::send_recv && ranks == 1) continue;
    if (verb == Verb::barrier && type != DType::int8) continue;  // it has no elements
    for (std::size_t o = 0; o < kReduceOps; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      if (reduces(verb) ? !has_operator(verb, type, op) : op != ReduceOp::sum) continue;
      for (const SizeClass size : kSizeClasses) {
        for (const bool in_place : {false, true}) {
          if (in_place && !runs_in_place(verb)) continue;
          const int root = static_cast<int>(list.size()) % ranks;
          list.push_back({{verb, type, op, count_of(size, verb, type, ranks), root, in_place}, size});
        }
      }
    }
  }
  return list;
}

std::vector<Listed> part_of_product(DType type, int ranks, int group) {
  const std::vector<Listed> all = product_of(type, ranks);
  std::vector<Listed> part;
  // One transport's group of as many ranks as another's begins four further on.
  const int begin = (10 * group + 3 * static_cast<int>(type)) % kStride;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Verb verb = all[i].test.verb;
    // Those with few cases are cheap, and always there.
    const bool few = verb == Verb::barrier || verb == Verb::send_recv;
    if (few || static_cast<int>(i) % kStride == begin) part.push_back(all[i]);
  }
  return part;
}

void run_product(Ranks kind, int ranks, const std::function<std::vector<Listed>(DType)>& list) {
  // Made once, for all groups of this program.
  static const auto kInputs = [] {
    constexpr std::size_t kMostRanks = 8;
    std::vector<std::shared_ptr<const Model::Inputs>> inputs;
    for (std::size_t t = 0; t < kDTypes; ++t) {
      const auto type = static_cast<DType>(t);
      const std::size_t count = std::max(kLargeBytes / size_of(type), 1009 * kMostRanks) + kMostRanks + kFirsts;
      inputs.push_back(Model::make_inputs(type, static_cast<int>(kMostRanks), count));
    }
    return inputs;
  }();
  const auto body = [&](Communicator& comm) {
    // The longest buffer: all chunks of a large case, or of an odd one of the largest elements.
    const auto p = static_cast<std::size_t>(ranks);
    OrdinaryAreas memory(std::max(kLargeBytes, 1009 * 16 * p) + 16 * p);
    for (std::size_t t = 0; t < kDTypes; ++t) {
      const auto type = static_cast<DType>(t);
      Model model(type, ranks, kInputs[t]);
      std::size_t number = 0;
      for (const Listed& listed : list(type))
        run_case(comm, model, listed.test, memory.areas(), 7 * ++number % kFirsts);
    }
  };
  expect_all_ok(run_ranks(kind, ranks, body));
}

}  // namespace tutti::testing
