#include "isochron/core/process/cores.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "isochron/core/process/threads.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

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

TEST(Cores, OfAMachineWithThousandsAreAllTold) {
  const AffinityFunction large = [](pid_t, size_t bytes, cpu_set_t* set) {
    if (8 * bytes < 5000) {
      errno = EINVAL;
      return -1;
    }
    CPU_ZERO_S(bytes, set);
    for (const int core : {3, 1024, 4999}) CPU_SET_S(static_cast<size_t>(core), bytes, set);
    return 0;
  };
  EXPECT_THAT(usable_cores(0, large), ElementsAre(3, 1024, 4999));
  EXPECT_EQ(usable_core_count(large), 3);
}

TEST(Cores, ThatAreOnlineCountWhereTheSystemTellsNoMore) {
  const AffinityFunction silent = [](pid_t, size_t, cpu_set_t*) {
    errno = EINVAL;
    return -1;
  };
  EXPECT_THAT(usable_cores(0, silent), ElementsAre());
  EXPECT_EQ(usable_core_count(silent), sysconf(_SC_NPROCESSORS_ONLN));
}

/// Files of control groups by name.
using GroupFiles = std::vector<std::pair<std::string, std::string>>;

void write_groups(const TempFolder& folder, const GroupFiles& files, const std::string& own) {
  for (const auto& [name, content] : files) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << content;
  }
  std::ofstream(folder.path() / "own") << own;
}

/// The quotas of control groups as a system shows them. `own`: the content of /proc/self/cgroup.
std::optional<double> quota_of(const GroupFiles& files, const std::string& own) {
  const TempFolder folder;
  write_groups(folder, files, own);
  return core_quota(folder.path(), folder.path() / "own");
}

/// The throttling file of such control groups, below their folder.
std::string throttling_of(const GroupFiles& files, const std::string& own) {
  const TempFolder folder;
  write_groups(folder, files, own);
  const std::filesystem::path file = throttling_file(folder.path(), folder.path() / "own");
  return file.empty() ? "" : file.lexically_relative(folder.path()).string();
}

TEST(Cores, TheLeastQuotaOfTheOwnGroupAndThoseAboveCounts) {
  EXPECT_EQ(quota_of({}, ""), std::nullopt);
  EXPECT_EQ(quota_of({{"cpu.max", "max 100000"}}, "0::/\n"), std::nullopt);
  EXPECT_EQ(quota_of({{"cpu.max", "150000 100000"}}, "0::/\n"), 1.5) << "as in a container";
  EXPECT_EQ(quota_of({{"a.slice/cpu.max", "200000 100000"}, {"a.slice/b/cpu.max", "max 100000"}},
                     "0::/a.slice/b\n"),
            2);
  EXPECT_EQ(quota_of({{"a/cpu.max", "200000 100000"}, {"a/b/cpu.max", "50000 100000"}}, "0::/a/b\n"), 0.5);
  EXPECT_EQ(quota_of({{"a/cpu.max", "200000 100000"}}, "0::/other\n"), std::nullopt);
  const std::vector<std::pair<std::string, std::string>> first = {{"cpu/d/cpu.cfs_quota_us", "300000"},
                                                                  {"cpu/d/cpu.cfs_period_us", "100000"},
                                                                  {"cpu/cpu.cfs_quota_us", "-1"},
                                                                  {"cpu/cpu.cfs_period_us", "100000"}};
  EXPECT_EQ(quota_of(first, "5:memory:/d\n4:cpu,cpuacct:/d\n"), 3);
  EXPECT_EQ(quota_of(first, "4:cpuset:/d\n"), std::nullopt);
}

TEST(Cores, ThrottlingIsThatOfTheGroupWithTheLowestQuota) {
  const std::string counts = "usage_usec 7\nthrottled_usec 5\n";
  EXPECT_EQ(throttling_of({}, "0::/a/b\n"), "");
  EXPECT_EQ(throttling_of({{"cpu.stat", "usage_usec 7\n"}}, "0::/\n"), "") << "the whole machine";
  const GroupFiles above = {{"a/cpu.max", "200000 100000"},
                            {"a/cpu.stat", counts},
                            {"a/b/cpu.max", "max 100000"},
                            {"a/b/cpu.stat", counts}};
  EXPECT_EQ(throttling_of(above, "0::/a/b\n"), "a/cpu.stat");
  EXPECT_EQ(throttling_of({{"a/cpu.stat", counts}, {"a/b/cpu.stat", counts}}, "0::/a/b\n"), "a/b/cpu.stat");
  EXPECT_EQ(throttling_of({{"cpu.max", "150000 100000"}, {"cpu.stat", counts}}, "0::/not/shown\n"),
            "cpu.stat")
      << "as in a container";
  EXPECT_EQ(throttling_of({{"cpu/d/cpu.cfs_quota_us", "300000"},
                           {"cpu/d/cpu.cfs_period_us", "100000"},
                           {"cpu/d/cpu.stat", "nr_throttled 3\nthrottled_time 9\n"},
                           {"cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n"}},
                          "4:cpu,cpuacct:/d\n"),
            "cpu/d/cpu.stat");
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
