#include "isochron/core/process/cores.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "isochron/core/process/threads.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;

TEST(Cores, AreThoseThatTheThreadIsBoundTo) {
  const std::vector<int> before = usable_cores();
  ASSERT_FALSE(before.empty());
  EXPECT_TRUE(std::ranges::is_sorted(before));
  std::thread([&] {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(before.back(), &last);
    ASSERT_EQ(sched_setaffinity(0, sizeof last, &last), 0);
    EXPECT_THAT(usable_cores(), ElementsAre(before.back()));
  }).join();
  EXPECT_EQ(usable_cores(), before);
}

TEST(Cores, AShareOfThemIsToldOrAllThatAreUsable) {
  const int before = core_share();
  EXPECT_GE(before, 1);
  EXPECT_LE(before, static_cast<int>(usable_cores().size()));
  set_core_share(3);
  EXPECT_EQ(core_share(), 3);
  EXPECT_ERROR(set_core_share(0), ErrorCode::kInvalidArgument, "at least 1 core, got 0");
  set_core_share(before);
}

TEST(Cores, OfAProcessThatIsNotThereAreNone) { EXPECT_THAT(usable_cores(-1), ElementsAre()); }

TEST(Cores, TheTimeWaitedForOneIsTheSecondNumber) {
  EXPECT_EQ(parse_core_wait_ns("1184033 3112046 17\n"), 3112046);
  for (const char* malformed : {"", "1184033", "1184033 ", "1184033 x 17"}) {
    EXPECT_EQ(parse_core_wait_ns(malformed), 0) << malformed;
  }
  EXPECT_EQ(core_wait_ns(-1), 0);
}

}  // namespace
}  // namespace isochron
