// Who called what: the first difference is found among statements that may be old, missing or many.
#include "engine/failures/difference.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/failures/diagnosis.h"

namespace tutti::engine {
namespace {

constexpr int kChannels = 4;

// Statements by (channel, rank); collectives are put where the engine puts them.
class Said {
 public:
  Said& collective(int rank, std::uint64_t number, Verb verb, std::uint64_t count, int root = 0) {
    said_[{static_cast<int>(number % kChannels), rank}] = {
        number + 1, Statement::kinds_of(verb, static_cast<std::uint8_t>(DType::float32), 0, root, -1), count};
    return *this;
  }
  Said& message(int rank, std::uint64_t number, int from, int to, std::uint64_t count) {
    said_[{kChannels, rank}] = {
        number + 1, Statement::kinds_of(Verb::send_recv, static_cast<std::uint8_t>(DType::float32), 0, from, to),
        count};
    return *this;
  }
  Difference among(int ranks, std::uint64_t about = 0) const {
    const auto stated = [&](int channel, int rank) {
      const auto found = said_.find({channel, rank});
      return found == said_.end() ? Statement{} : found->second;
    };
    return find_difference(ranks, kChannels, stated, about);
  }

 private:
  std::map<std::pair<int, int>, Statement> said_;
};

// Only what is certain is said for certain: a link that broke is not the end of a process.
TEST(WordsOfALoss, SayWhatIsKnown) {
  const auto words = [](Loss loss) { return words_of(loss, std::chrono::milliseconds(1500)); };
  EXPECT_EQ(words(Loss::ended), " has ended");
  EXPECT_EQ(words(Loss::reset), " has ended, or the network has reset its connection");
  EXPECT_EQ(words(Loss::unreachable), " cannot be reached any more: the network has given its connection up");
  EXPECT_EQ(words(Loss::silent).find(" has been silent for 1.5 s: it is stopped, its host is down or the network"), 0u);
}

// Statements come from other processes: whatever they say, they are told in words.
TEST(FindDifference, StatementsOfUnknownKindsAreToldAsSuch) {
  const auto type = static_cast<std::uint8_t>(DType::float32);
  const Statement known{6, Statement::kinds_of(Verb::all_reduce, type, 0, 0, -1), 4};
  const Statement unknown[] = {{6, Statement::kinds_of(static_cast<Verb>(200), type, 0, 0, -1), 4},
                               {6, Statement::kinds_of(Verb::all_reduce, 99, 0, 0, -1), 4},
                               {6, Statement::kinds_of(Verb::all_reduce, type, 77, 0, -1), 4}};
  for (const Statement& strange : unknown) {
    const auto stated = [&](int channel, int rank) { return channel != 1 ? Statement{} : rank == 1 ? strange : known; };
    EXPECT_EQ(find_difference(3, kChannels, stated).words,
              "ranks 0, 2 called all_reduce #5 of 4 float32, sum; rank 1 called a call of an unknown kind");
  }
}

TEST(FindDifference, KnowsWhoHasSaidNothingOfACallThatNobodyDiffersIn) {
  const Said said = Said()
                        .collective(0, 5, Verb::all_to_all, 0)
                        .collective(1, 6, Verb::barrier, 0)
                        .collective(2, 4, Verb::all_to_all, 0);
  EXPECT_EQ(said.among(4).silent, 0);
  const Difference about = said.among(4, 5 + 1);
  EXPECT_EQ(about.words, "");
  EXPECT_EQ(about.silent, 2);
}

TEST(FindDifference, NamesTheRanksOfEachCall) {
  const Difference found = Said()
                               .collective(0, 5, Verb::all_reduce, 4)
                               .collective(1, 5, Verb::broadcast, 4, 2)
                               .collective(2, 5, Verb::all_reduce, 4)
                               .collective(3, 5, Verb::all_reduce, 4)
                               .among(4);
  EXPECT_EQ(found.words,
            "ranks 0, 2-3 called all_reduce #5 of 4 float32, sum; rank 1 called broadcast #5 of 4 float32, root 2");
  EXPECT_EQ(found.silent, 0);
  EXPECT_EQ(found.odd, 1);
}

TEST(FindDifference, CountsRanksThatHaveNotComeToTheCall) {
  const Difference found = Said()
                               .collective(0, 5, Verb::all_reduce, 4)
                               .collective(1, 5, Verb::all_reduce, 5)
                               .collective(2, 4, Verb::all_reduce, 4)
                               .collective(3, 6, Verb::all_reduce, 4)
                               .among(5);
  EXPECT_EQ(found.silent, 2) << "rank 2 is behind, rank 4 has said nothing";
}

TEST(FindDifference, TellsTheFirstOfSeveral) {
  const Difference found = Said()
                               .collective(0, 7, Verb::all_reduce, 1)
                               .collective(1, 7, Verb::all_reduce, 2)
                               .collective(0, 6, Verb::broadcast, 8, 0)
                               .collective(1, 6, Verb::broadcast, 8, 1)
                               .among(2);
  EXPECT_NE(found.words.find("broadcast #6"), std::string::npos) << found.words;
}

TEST(FindDifference, SeesNoneWhereCallsAgreeOrCannotBeCompared) {
  EXPECT_EQ(Said().collective(0, 5, Verb::all_reduce, 4).collective(1, 5, Verb::all_reduce, 4).among(2).words, "");
  EXPECT_EQ(Said().collective(0, 5, Verb::all_reduce, 4).collective(1, 9, Verb::broadcast, 4).among(2).words, "");
  EXPECT_EQ(Said().among(3).words, "");
}

TEST(FindDifference, ComparesTheTwoEndsOfAMessageOnly) {
  EXPECT_EQ(Said().message(0, 3, 0, 1, 8).message(1, 3, 0, 1, 4).among(3).words,
            "rank 0 called send_recv #3 of 8 float32 from rank 0 to rank 1; "
            "rank 1 called send_recv #3 of 4 float32 from rank 0 to rank 1");
  EXPECT_EQ(Said().message(0, 3, 0, 1, 8).message(1, 3, 2, 1, 4).among(3).words, "") << "another sender";
  EXPECT_EQ(Said().message(0, 3, 0, 1, 8).message(1, 2, 0, 1, 4).among(3).words, "") << "an earlier message";
}

}  // namespace
}  // namespace tutti::engine
