// The text form of a table of costs: what is written is read again, and what is wrong is told.
#include "topology/rates.h"

#include <gtest/gtest.h>

#include <functional>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(costs_from_text(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Rates, AreReadAsTheyWereWritten) {
  CostTable costs = usual_costs(7);
  costs.memory.step = 1.25e-8;
  costs.streams.turn = 3.5e-6;
  EXPECT_EQ(costs_from_text(to_text(costs)), costs);
}

TEST(Rates, WrongTextsAreRefusedWithTheReason) {
  const std::string text = to_text(usual_costs(2));
  EXPECT_NE(complaint("").find("not a JSON object"), std::string::npos);
  EXPECT_NE(complaint("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"version\": 1", "\"version\": 9")).find("version 1"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"version\": 1", "\"version\": \"1\"")).find("version 1"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"cores\": 2", "\"cores\": 1e300")).find("'cores'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"message\": ", "\"massage\": ")).find("'message'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"cores\": 2", "\"cores\": 0")).find("'cores'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"far\": 1.0", "\"far\": -1.0")).find("'far'"), std::string::npos);
  EXPECT_NE(complaint(replaced(text, "\"streams\"", "\"brooks\"")).find("'streams'"), std::string::npos);
}

}  // namespace
}  // namespace tutti::topology
