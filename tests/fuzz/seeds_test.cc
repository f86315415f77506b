// Runs the fuzz targets on the stored inputs: valid inputs of each kind, and inputs that once exposed a bug.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "fuzz/targets.h"
#include "isochron/core/files/file.h"

namespace isochron::fuzz {
namespace {

std::vector<std::filesystem::path> seeds_of(const std::string& target) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(ISOCHRON_SOURCE_DIR "/tests/fuzz/seeds/" + target)) {
    found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

class FuzzTargets : public testing::TestWithParam<Target> {};

TEST_P(FuzzTargets, RunOverTheirSeeds) {
  int accepted = 0;
  for (const auto& path : seeds_of(GetParam().name)) {
    SCOPED_TRACE(path);
    const auto input = read_file(path);
    const bool good = accepts(GetParam(), input);
    EXPECT_TRUE(good || !path.filename().string().starts_with("good")) << "is refused";
    accepted += good;
  }
  EXPECT_GT(accepted, 0) << "no seed gets through, so the target tests little";
}

TEST_P(FuzzTargets, RunOverTheirSeedsCutShortAndChanged) {
  for (const auto& path : seeds_of(GetParam().name)) {
    SCOPED_TRACE(path);
    const auto whole = read_file(path);
    const size_t step = whole.size() / 200 + 1;
    for (size_t at = 0; at < whole.size(); at += step) {
      accepts(GetParam(), std::span(whole).first(at));
      auto changed = whole;
      changed[at] ^= static_cast<std::byte>(1 << at % 8);
      accepts(GetParam(), changed);
      changed[at] = std::byte{0xff};
      accepts(GetParam(), changed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, testing::ValuesIn(targets()),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace isochron::fuzz
