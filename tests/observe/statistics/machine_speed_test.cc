#include "isochron/observe/statistics/machine_speed.h"

#include <gmock/gmock.h>

#include <cmath>

namespace isochron::observe {
namespace {

using Values = std::vector<double>;
using Indices = std::vector<size_t>;
using testing::ElementsAre;

/// A hundred windows in which the kernel takes 100, except in those of `others`.
Values hundred(const std::vector<std::pair<size_t, double>>& others) {
  Values values(100, 100);
  for (const auto& [at, value] : others) values[at] = value;
  return values;
}

Indices left_out(const Indices& kept) {
  Indices out;
  for (size_t i = 0; i < 100; ++i) {
    if (!std::ranges::binary_search(kept, i)) out.push_back(i);
  }
  return out;
}

TEST(MachineSpeed, DisturbedWindowsAreSlowerByMoreThan15Percent) {
  const Values means = hundred({{40, 114}, {50, 116}, {60, 300}});
  EXPECT_THAT(left_out(undisturbed({means, means})), ElementsAre(50u, 60u));
}

TEST(MachineSpeed, MixedWindowsHaveAMean15PercentOffTheTypicalTime) {
  const Values typical = hundred({{60, 300}});
  const Values means = hundred({{40, 114}, {50, 116}, {55, 84}, {60, 300}});
  EXPECT_THAT(left_out(unmixed({typical, means})), ElementsAre(50u, 55u)) << "slow throughout isn't mixed";
}

TEST(MachineSpeed, TheEndsKeepAllWhereFewAreFit) {
  Values means = hundred({});
  for (size_t i = 0; i < 8; ++i) means[i] = 200;    // of the first tenth two are fit
  for (size_t i = 92; i < 99; ++i) means[i] = 200;  // and of the last three
  EXPECT_THAT(left_out(undisturbed({means, means})), ElementsAre(92u, 93u, 94u, 95u, 96u, 97u, 98u));
}

TEST(MachineSpeed, AllAreKeptWhereLessThanAThirdIsFit) {
  const auto kept = [](size_t fit) {
    Values typical(100, 100), means(100, 200);
    for (size_t i = 0; i < fit; ++i) means[20 + i] = 100;
    return unmixed({typical, means}).size();
  };
  EXPECT_EQ(kept(14), 34u) << "with both ends";
  EXPECT_EQ(kept(13), 100u);
}

TEST(MachineSpeed, ASeriesThatFollowsTheKernelIsEven) {
  Values kernel, values;
  for (int i = 0; i < 100; ++i) {
    kernel.push_back(100 * (1 + 0.04 * (i % 5)));
    values.push_back(7 * kernel.back() * kernel.back());
  }
  for (const double value : at_even_speed(values, kernel, {kernel, kernel})) EXPECT_NEAR(value, 7e4, 8e3);
  EXPECT_EQ(at_even_speed(Values(100, 3), kernel, {kernel, kernel}), Values(100, 3)) << "follows nothing";
}

TEST(MachineSpeed, ASharedCoreAndCoresMovedApartHaveExponentsOfTheirOwn) {
  Values kernel, values;
  for (int i = 0; i < 200; ++i) {
    const bool shared = i % 10 == 3 || i % 10 == 4, apart = i % 10 == 7 || i % 10 == 8;
    kernel.push_back(shared ? 130 : apart ? 300 : 100);
    values.push_back(1000 * (shared ? std::pow(1.3, 1.2) : apart ? std::pow(3, 0.5) : 1));
  }
  for (const double value : at_even_speed(values, kernel, {kernel, kernel})) EXPECT_NEAR(value, 1000, 20);
}

}  // namespace
}  // namespace isochron::observe
