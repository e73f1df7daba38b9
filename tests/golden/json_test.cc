// The JSON form: nothing is lost, and what cannot be right is refused with the place that is wrong.
#include "schedule/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "golden/programs.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/verify.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using testing::HasSubstr;

TEST(Json, RoundTripKeepsEveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16, 33}) {
      if (!takes(algorithm, ranks)) continue;
      for (const Offers& offers : {offers_everything(), offers_streams(), offers_on_two_hosts(ranks)}) {
        if (!why_not(algorithm, {ranks, 0, 0}, offers).empty()) continue;
        const std::vector<Lowered> programs = programs_of(algorithm, ranks, offers, ranks - 1);
        EXPECT_TRUE(from_json(to_json(programs)) == programs) << algorithm.name << " with " << ranks << " ranks";
      }
    }
  }
}

TEST(Json, ExtremeNumbersSurvive) {
  std::vector<Lowered> programs = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 3, offers_everything());
  programs[1].program.lanes[0].steps[0].destinations = {
      Operand::window(Index::exclusive_or(2147483647), Buffer::scratch, {Index::plus(-2147483647), -7, 2147483647},
                      255),
      Operand::slot(Index::absolute(-1))};
  programs[1].program.lanes[0].name = "ünïcode \"quoted\"\n";
  for (Lowered& lowered : programs) {
    lowered.offers.inside.slot_bytes = ~std::uint64_t{0};
    lowered.segment_bytes = ~std::uint64_t{0};
  }
  EXPECT_TRUE(from_json(to_json(programs)) == programs) << to_json(programs);
}

TEST(Json, EqualRanksShareTheirText) {
  const auto ring = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 16, offers_everything());
  EXPECT_THAT(to_json(ring), HasSubstr(R"("ranks": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15])"));
}

TEST(Json, OnlyAWholeProgramSetIsWritten) {
  auto programs = programs_of(*find_algorithm(Verb::all_reduce, "ring"), 4, offers_everything());
  EXPECT_THROW(to_json({}), Error);
  EXPECT_THROW(to_json(std::span(programs).first(3)), Error);
  programs[2].program.blocks = 9;
  EXPECT_THROW(to_json(programs), Error);
}

struct Edit {
  std::string from, to, complaint;
};

const std::vector<Edit> kEdits{
    Edit{"{", "", "not JSON from line 2, column 12"},
    Edit{R"("version": 6)", R"("version": 1)", "version is 1; this program reads version 6"},
    Edit{R"("version": 6)", R"("version": 6, "colour": 3)", "the document has the unknown key 'colour'"},
    Edit{R"("verb": "all_reduce",)", "", "the document lacks the key 'verb'"},
    Edit{R"("verb": "all_reduce")", R"("verb": "sing")", "verb is 'sing', should be one of: all_reduce"},
    Edit{R"("ranks": 2)", R"("ranks": 0)", "ranks is out of range: 0"},
    Edit{R"("ranks": 2)", R"("ranks": 4000000000)", "ranks is out of range"},
    Edit{R"("ranks": 2)", R"("ranks": 2000000000)", "ranks is more than"},
    Edit{R"("ranks": 2)", R"("ranks": 70000)", "ranks is more than 65536"},
    Edit{R"("ranks": 2)", R"("ranks": 3)", "programs has no program for rank 2"},
    Edit{R"("ranks": 2)", R"("ranks": 1)", "programs[1].ranks[0] is rank 1 of 1"},
    Edit{R"("ranks": [1])", R"("ranks": [0])", "programs[1].ranks[0] names rank 0 a second time"},
    Edit{R"("blocks": 2)", R"("blocks": "2")", "blocks should be an integer, but is of type string"},
    Edit{R"("scratch_bytes": 0)", R"("scratch_bytes": 0, "hosts": [0, 1])", "offers should have both of the keys"},
    Edit{R"("scratch_bytes": 0)", R"("scratch_bytes": 0, "across": {}, "hosts": [0])",
         "offers.hosts names the hosts of 1 ranks, and there are 2"},
    Edit{R"("credits": 2)", R"("credits": -2)", "offers.inside.credits is out of range: -2"},
    Edit{R"("planes":1)", R"("planes":null)", "programs[0].scratch.planes should be an integer, but is null"},
    Edit{R"("op": "copy")", R"("op": "swap")",
         "programs[0].lanes[0].steps[0].op is 'swap', should be one of: copy, reduce, wait"},
    Edit{R"("kind":"own")", R"("kind":"hole")", "programs[0].lanes[0].steps[0].to[0].kind is 'hole'"},
    Edit{R"("kind":"own")", R"("kind":"slot")", "programs[0].lanes[0].steps[0].to[0] lacks the key 'rank'"},
    Edit{R"("plane":0)", R"("plane":256)", "programs[0].lanes[0].steps[0].to[0].plane is out of range: 256"},
    Edit{R"("count":1)", R"("count":0)", "to[0].blocks.count is out of range: 0"},
    Edit{R"({"plus":1})", R"({"plus":1,"at":1})", "should have one of the keys 'at', 'plus', 'xor'"},
    Edit{R"("published": true)", R"("published": 1)", "programs[0].lanes[0].published should be true or false"}};

void expect_refused(std::string text, const Edit& edit) {
  const std::size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << edit.from << " is not in\n" << text;
  text.replace(at, edit.from.size(), edit.to);
  try {
    from_json(text);
    FAIL() << "accepted: " << edit.to;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(edit.complaint));
  }
}

TEST(Json, RefusesWhatIsWrongAndNamesThePlace) {
  const auto programs = programs_of(*find_algorithm(Verb::all_reduce, "staged"), 2, offers_everything());
  for (const Edit& edit : kEdits) expect_refused(to_json(programs), edit);
}

// Seeded edits of a right document: each is refused in words, or read and judged by the verifier.
class Editor {
 public:
  Editor(std::string text, std::uint64_t seed) : text_(std::move(text)), random_(seed) {}

  std::string edited() {
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) edit();
    return text_;
  }

 private:
  static constexpr const char* kNumbers[] = {"0",          "-1",         "1",           "2",
                                             "255",        "256",        "1048576",     "2147483647",
                                             "4294967296", "1073741824", "-2147483648", "18446744073709551615"};
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void edit() {
    const std::size_t at = below(text_.size());
    switch (below(4)) {
      case 0: text_[at] = static_cast<char>(below(256)); break;
      case 1: text_.erase(at, 1 + below(20)); break;
      case 2: text_.insert(at, text_.substr(below(text_.size()), below(200))); break;
      default: replace_number(at);
    }
    if (text_.empty()) text_ = "0";
  }

  void replace_number(std::size_t from) {
    constexpr const char* kDigits = "0123456789";
    const std::size_t begin = text_.find_first_of(kDigits, from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text_.find_first_not_of(kDigits, begin), text_.size());
    text_.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
  }

  std::string text_;
  std::mt19937_64 random_;
};

TEST(Json, NoEditOfADocumentEndsTheProcess) {
  int refused = 0, read = 0;
  for (const char* name : {"staged", "ring", "recursive_halving"}) {
    const std::string text = to_json(programs_of(*find_algorithm(Verb::all_reduce, name), 4, offers_everything()));
    for (std::uint64_t seed = 0; seed < 1500; ++seed) {
      try {
        const std::vector<Lowered> programs = from_json(Editor(text, seed).edited());
        ++read;
        static_cast<void>(verify(programs, {187, 4, 2, 0, seed % 2 == 0}));
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 300);
}

}  // namespace
}  // namespace tutti::schedule
