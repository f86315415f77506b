#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "causes/planted.h"
#include "isochron/observe/diagnose/cause.h"
#include "isochron/observe/host/machine_load.h"

namespace isochron::causes {

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.what; }

namespace {

class FaultMatrix : public ::testing::TestWithParam<Planted> {};

TEST_P(FaultMatrix, NamesThisFaultAndNoOther) {
  const Planted& planted = GetParam();
  std::vector<std::string> expected;
  if (!planted.cause.empty()) expected.emplace_back(planted.cause);
  // Other work on the machine may slow down a run while it is in progress. A run with an unexpected finding
  // is repeated; if the other work is still there, the result says nothing.
  constexpr int kAttempts = 5;
  constexpr double kBusyCores = 0.25, kLookSeconds = 0.2;
  std::string found;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const observe::RunReport report = planted.run();
    if (named(report, planted.cause) == expected) return;
    found += observe::summary_text({&report, 1});
  }
  const observe::MachineLoad load = observe::measure_load(kLookSeconds);
  if (const double others = load.busy_cores - load.own_cores; others > kBusyCores) {
    GTEST_SKIP() << fmt::format("other programs use {:.1f} cores; found was\n{}", others, found);
  }
  FAIL() << found;
}

std::string test_name(const ::testing::TestParamInfo<Planted>& info) {
  std::string name = info.param.cause.empty() ? "none" : std::string(info.param.cause);
  name += fmt::format("_{}", info.index);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Planted, FaultMatrix, ::testing::ValuesIn(all_planted()), test_name);

TEST(FaultMatrix, PlantsEveryCauseOfTheCatalogue) {
  std::set<std::string_view> planted;
  for (const Planted& one : all_planted()) planted.insert(one.cause);
  for (const observe::CatalogueEntry& entry : observe::catalogue()) {
    EXPECT_TRUE(planted.contains(entry.cause)) << entry.cause;
  }
}

}  // namespace
}  // namespace isochron::causes
