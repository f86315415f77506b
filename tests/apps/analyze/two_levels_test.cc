// Times that alternate between two levels: which are told apart, and that a level's growth isn't hidden by
// the other's size.
#include "isochron/apps/analyze/times/two_levels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "apps/command.h"
#include "isochron/core/base/rng.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::HasSubstr;
using testing::Not;
using Values = std::vector<double>;

/// `count` times of about 100 ms; each `every`-th takes `longer` times as long. The shorter ones grow by
/// `growth` over the run, the longer ones by `longer_growth`.
Values times(size_t count, size_t every, double longer, double growth = 0, double longer_growth = 0,
             double noise = 0.01) {
  Rng rng(count * 100 + every);
  Values values;
  for (size_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count);
    const bool is_longer = i % every == every - 1;
    const double level = is_longer ? 1e8 * longer * (1 + longer_growth * part) : 1e8 * (1 + growth * part);
    values.push_back(level * (1 + noise * rng.normal()));
  }
  return values;
}

TEST(TwoLevels, AreToldApartInTheirOrder) {
  Values values;
  for (int i = 0; i < 32; ++i) {
    for (const double one : {10 + 0.1 * i, 11 + 0.1 * i, 100.0 + i}) values.push_back(one);
  }
  const std::optional<TwoLevels> levels = two_levels(values);
  ASSERT_TRUE(levels);
  ASSERT_EQ(levels->shorter.size(), 64u);
  EXPECT_DOUBLE_EQ(levels->shorter[2], 10.1);
  EXPECT_DOUBLE_EQ(levels->shorter[63], 14.1);
  EXPECT_EQ(levels->longer[31], 131);
}

TEST(TwoLevels, OneLevelIsNone) {
  EXPECT_FALSE(two_levels(times(63, 2, 10))) << "too few";
  EXPECT_TRUE(two_levels(times(64, 2, 10)));
  EXPECT_FALSE(two_levels(times(1000, 2, 1)));
  EXPECT_FALSE(two_levels(times(1000, 2, 1.5, 0, 0, 0.3))) << "the levels overlap";
  EXPECT_FALSE(two_levels(times(1000, 30, 10))) << "few are longer";
  EXPECT_TRUE(two_levels(times(1000, 15, 10)));
  EXPECT_FALSE(two_levels(Values(100, 0.0)));
  Rng rng(3);
  Values scattered;  // over two powers of ten, without a gap
  for (int i = 0; i < 2000; ++i) scattered.push_back(1e8 * std::exp(rng.normal()));
  EXPECT_FALSE(two_levels(scattered));
  Values wide;  // each half over a factor of 2.7, with a gap of 1.3 between them
  for (int i = 0; i < 2000; ++i) {
    const double place = 2 * rng.uniform();
    wide.push_back(1e8 * std::exp(place) * (place > 1 ? 1.3 : 1));
  }
  EXPECT_FALSE(two_levels(wide)) << "the levels are wider than what lies between them";
}

TEST(TwoLevels, AStepOfTheWholeIsNone) {
  Values step = times(500, 1000, 1);
  for (size_t i = 250; i < step.size(); ++i) step[i] *= 10;
  EXPECT_FALSE(two_levels(step));
  Values more_often;  // every eighth, later every second
  for (size_t i = 0; i < 512; ++i) more_often.push_back(i % (i < 256 ? 8 : 2) == 0 ? 1e9 : 1e8);
  EXPECT_FALSE(two_levels(more_often));
}

class AnalyzeTwoLevels : public testing::Test {
 protected:
  Outcome analyze(const Values& values, const std::string& options = "") {
    std::ofstream file(folder_.path() / "run.log");
    for (size_t i = 0; i < values.size(); ++i)
      file << fmt::format("step {}: {:.3f} ms, loss 0.3\n", i, values[i] * 1e-6);
    file.close();
    return run_isochron("analyze " + (folder_.path() / "run.log").string() + " " + options);
  }
  TempFolder folder_;
};

TEST_F(AnalyzeTwoLevels, GrowthOfTheShorterOnesIsFound) {
  for (const size_t every : {2, 3, 4, 5}) {
    for (const size_t count : {200, 400, 2000}) {
      const Outcome outcome = analyze(times(count, every, 10, 0.15));
      EXPECT_THAT(outcome.text, HasSubstr("\ngrowing: +1")) << every << " of " << count;
    }
  }
  EXPECT_THAT(analyze(times(400, 4, 10, 0.15), "--require-flat"),
              Ends(1, "of the 300 shorter of 400 values, trend of"));
}

TEST_F(AnalyzeTwoLevels, GrowthOfTheLongerOnesIsFound) {
  EXPECT_THAT(analyze(times(1000, 4, 1.5, 0, 0.12)).text, HasSubstr("of the 250 longer of 1000 values"));
}

TEST_F(AnalyzeTwoLevels, EvenLevelsStayFlat) {
  for (const size_t every : {2, 4}) {
    EXPECT_THAT(analyze(times(1000, every, 10), "--require-flat"), Ends(0, "\nflat: "));
  }
}

TEST_F(AnalyzeTwoLevels, ALevelWithHardlyAnyOfTheTimeIsLeftOut) {
  EXPECT_THAT(analyze(times(1000, 2, 50, 0.15)).text, Not(HasSubstr("growing")));
}

}  // namespace
}  // namespace isochron::apps
