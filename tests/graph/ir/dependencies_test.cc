#include "isochron/graph/ir/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isochron/core/base/rng.h"

namespace isochron::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Steps = std::vector<std::vector<MemoryUse>>;

MemoryUse reads(uintptr_t begin, uintptr_t end, int space = 0) { return {space, begin, end, false}; }
MemoryUse writes(uintptr_t begin, uintptr_t end, int space = 0) { return {space, begin, end, true}; }

TEST(Dependencies, WhatIsReadWasWrittenAndWhatIsOverwrittenWasRead) {
  const Steps steps = {{writes(0, 8)},
                       {reads(0, 8), writes(8, 16)},
                       {reads(4, 6), writes(16, 24)},
                       {reads(8, 24), writes(24, 32)},
                       {writes(0, 4)}};
  const auto found = dependencies(steps);
  EXPECT_THAT(found[0], IsEmpty());
  EXPECT_THAT(found[1], ElementsAre(0));
  EXPECT_THAT(found[2], ElementsAre(0));
  EXPECT_THAT(found[3], ElementsAre(1, 2));
  EXPECT_THAT(found[4], ElementsAre(1)) << "the other read what this leaves alone";
  EXPECT_EQ(longest_chain(found), 3u);
}

TEST(Dependencies, ReadersDontWaitForEachOtherNorForOtherMemory) {
  const Steps steps = {{reads(0, 8)}, {reads(0, 8)}, {writes(0, 8, 1)}, {writes(8, 16)}, {writes(4, 4)}};
  EXPECT_THAT(dependencies(steps), testing::Each(IsEmpty()));
  EXPECT_EQ(longest_chain(dependencies(steps)), 1u);
  EXPECT_EQ(longest_chain({}), 0u);
}

/// A number of all that a step reads, written to all that it writes.
void run(const std::vector<MemoryUse>& step, size_t number, std::vector<std::vector<uint64_t>>& memory) {
  uint64_t mixed = number + 1;
  for (const MemoryUse& use : step) {
    for (uintptr_t at = use.begin; !use.writes && at < use.end; ++at)
      mixed = mixed * 6364136223846793005u + memory[static_cast<size_t>(use.space)][at];
  }
  for (const MemoryUse& use : step) {
    for (uintptr_t at = use.begin; use.writes && at < use.end; ++at)
      memory[static_cast<size_t>(use.space)][at] = mixed + at;
  }
}

TEST(Dependencies, AnyOrderThatKeepsThemEndsWithTheSameBytes) {
  constexpr uint64_t kBytes = 40;
  Rng rng(1);
  size_t waits = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Steps steps(1 + rng.below(30));
    for (auto& step : steps) {
      const uint64_t uses = rng.below(5);
      for (uint64_t u = 0; u < uses; ++u) {
        const uintptr_t begin = rng.below(kBytes),
                        end = begin + rng.below(std::min<uint64_t>(9, kBytes - begin));
        step.push_back({static_cast<int>(rng.below(2)), begin, end, rng.below(2) == 1});
      }
    }
    const auto found = dependencies(steps);
    std::vector<std::vector<uint64_t>> want(2, std::vector<uint64_t>(kBytes)), got = want;
    for (size_t i = 0; i < steps.size(); ++i) run(steps[i], i, want);
    std::vector<bool> done(steps.size());
    for (size_t count = 0; count < steps.size(); ++count) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < steps.size(); ++i) {
        if (!done[i] && std::ranges::all_of(found[i], [&](size_t before) { return done[before]; }))
          ready.push_back(i);
      }
      ASSERT_FALSE(ready.empty());
      const size_t chosen = ready[rng.below(ready.size())];
      run(steps[chosen], chosen, got);
      done[chosen] = true;
      waits += found[chosen].size();
    }
    ASSERT_EQ(got, want) << trial;
  }
  EXPECT_GT(waits, 0u);
}

}  // namespace
}  // namespace isochron::graph
