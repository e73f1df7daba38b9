// What a device makes, as surveys keep it: read as it was written, refused where it is damaged, and found for groups of
// other sizes.
#include "topology/device_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "topology/rates.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr DeviceRates kMeasured{.launch_s = 1.19e-5,
                                .touch_bytes_per_s = 3.87e12,
                                .to_host_s = 7.6e-6,
                                .to_host_bytes_per_s = 5.5e10,
                                .to_device_s = 6.8e-6,
                                .to_device_bytes_per_s = 5.4e10,
                                .copy_bytes_per_s = 1.94e12};

template <class Read>
std::string complaint(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

CostTable costs_with(const std::optional<DeviceRates>& device) {
  CostTable costs = usual_costs(4);
  put_survey(costs, {true, 2, 1, costs.memory, {}, device});
  return costs;
}

TEST(DeviceRates, AreReadAsTheyWereWritten) {
  EXPECT_EQ(device_rates_from_text(to_text(kMeasured)), kMeasured);
  EXPECT_THAT(to_text(kMeasured), HasSubstr("\"touch_bytes_per_s\":3870000000000.0"));
  EXPECT_THAT(to_text(kMeasured), Not(HasSubstr("\n")));
  DeviceRates staged_only = kMeasured;
  staged_only.launch_s = staged_only.touch_bytes_per_s = 0;
  EXPECT_FALSE(device_rates_from_text(to_text(staged_only)).launches());
  EXPECT_TRUE(kMeasured.launches());
  EXPECT_TRUE(kMeasured.known());
  EXPECT_FALSE(DeviceRates().known());
}

TEST(DeviceRates, ATableOfCostsHasThemOrNot) {
  const CostTable with = costs_with(kMeasured), without = costs_with(std::nullopt);
  EXPECT_EQ(costs_from_text(to_text(with)), with);
  EXPECT_EQ(costs_from_text(to_text(with)).surveys.front().device, kMeasured);
  EXPECT_THAT(to_text(without), Not(HasSubstr("device"))) << "as files were before there were any";
  EXPECT_EQ(costs_from_text(to_text(without)), without);
}

TEST(DeviceRates, DamagedOnesAreRefusedWithTheReason) {
  const std::string whole = to_text(costs_with(kMeasured));
  const auto read = [&](const std::string& from, const std::string& to) {
    return complaint([&] { static_cast<void>(costs_from_text(replaced(whole, from, to))); });
  };
  const std::string object = to_text(kMeasured);
  for (const char* damage : {"null", "3", "[]", "\"fast\""}) {
    EXPECT_THAT(read(object, damage), HasSubstr("rates of a device: not a JSON object")) << damage;
  }
  EXPECT_THAT(read("\"launch_s\":", "\"lunch_s\":"), HasSubstr("'launch_s' is not a number"));
  EXPECT_THAT(read("\"to_host_s\":", "\"to_host_s\":-"), HasSubstr("'to_host_s' is negative or not finite"));
  EXPECT_THAT(read("\"copy_bytes_per_s\":1940000000000.0", "\"copy_bytes_per_s\":\"quick\""),
              HasSubstr("'copy_bytes_per_s' is not a number"));
  EXPECT_THAT(read("\"to_device_bytes_per_s\":54000000000.0", "\"to_device_bytes_per_s\":0"),
              HasSubstr("nothing can be copied"));
  EXPECT_THAT(read("\"touch_bytes_per_s\":3870000000000.0", "\"touch_bytes_per_s\":0"),
              HasSubstr("'launch_s' and 'touch_bytes_per_s' are known both or not at all"));
  EXPECT_THAT(read("\"launch_s\":", "\"lunch_s\":"), HasSubstr("`tutti tune` measures them anew"));
  EXPECT_THAT(complaint([] { static_cast<void>(device_rates_from_text("{")); }), HasSubstr("not a JSON object"));
}

TEST(DeviceRates, AreThoseOfTheGroupThatIsTheMostAlike) {
  CostTable costs = usual_costs(16);
  EXPECT_EQ(device_rates_for(costs, true, 4), std::nullopt);
  DeviceRates of_eight = kMeasured;
  of_eight.launch_s *= 4;
  put_survey(costs, {true, 2, 1, costs.memory, {}, kMeasured});
  put_survey(costs, {true, 4, 1, costs.memory, {}, std::nullopt});
  put_survey(costs, {true, 8, 1, costs.memory, {}, of_eight});
  EXPECT_EQ(device_rates_for(costs, true, 2), kMeasured);
  EXPECT_EQ(device_rates_for(costs, true, 16), of_eight) << "beyond the last";
  EXPECT_EQ(device_rates_for(costs, false, 2), std::nullopt) << "nothing is known of streams";
  const DeviceRates of_four = device_rates_for(costs, true, 4).value();
  EXPECT_NEAR(of_four.launch_s, 2 * kMeasured.launch_s, 1e-9) << "between the two that had a device";
  EXPECT_EQ(of_four.touch_bytes_per_s, kMeasured.touch_bytes_per_s);
}

}  // namespace
}  // namespace tutti::topology
