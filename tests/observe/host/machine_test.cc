#include "isochron/observe/host/machine.h"
#include "isochron/observe/host/machine_load.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/threads.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

TEST(Machine, DescribesThisOne) {
  const MachineDescription machine = describe_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GE(machine.usable_cores, 1);
  EXPECT_GT(machine.memory_bytes, int64_t{64} << 20);
  EXPECT_THAT(machine.kernel, ::testing::StartsWith("Linux"));
  EXPECT_THAT(machine_text(machine), ::testing::HasSubstr("GB"));
}

TEST(Machine, ParsesTheKernelsTables) {
  EXPECT_EQ(internal::parse_stolen_ns("cpu  1 2 3 4 5 6 7 42 0 0\ncpu0 1 2 3 4 5 6 7 21 0 0\n", 10), 420);
  EXPECT_EQ(internal::parse_stolen_ns("cpu  1 2 3 4\ncpu0 9 9 9 9 9 9 9 9\n", 10), 0);
  EXPECT_EQ(internal::parse_stolen_ns("", 10), 0);
  EXPECT_EQ(internal::parse_resident_pages("765 437 409 5 0 123 0\n"), 437);
  EXPECT_EQ(internal::parse_resident_pages("765"), 0);
  EXPECT_EQ(internal::parse_resident_pages("a b"), 0);
}

TEST(Machine, TheLowestMemoryLimitOfTheOwnGroupAndThoseAboveCounts) {
  const TempFolder folder;
  const auto limit_of = [&](const std::string& group) {
    std::ofstream(folder.path() / "own") << group;
    return internal::memory_limit(folder.path(), folder.path() / "own");
  };
  EXPECT_EQ(limit_of("0::/a/b\n"), std::nullopt);
  std::filesystem::create_directories(folder.path() / "a" / "b");
  std::ofstream(folder.path() / "a" / "b" / "memory.max") << "max\n";
  std::ofstream(folder.path() / "a" / "memory.max") << "1000\n";
  EXPECT_EQ(limit_of("0::/a/b\n"), 1000);
  EXPECT_EQ(limit_of("0::/other\n"), std::nullopt);
  std::filesystem::create_directories(folder.path() / "memory" / "c");
  std::ofstream(folder.path() / "memory" / "c" / "memory.limit_in_bytes") << "500\n";
  EXPECT_EQ(limit_of("7:memory:/c\n0::/a\n"), 500);
}

TEST(Sensors, TakeTheTimeOfAQuotaFromTheCoresThatShareIt) {
  EXPECT_EQ(internal::quota_cores(2.5, 64), 3);
  EXPECT_EQ(internal::quota_cores(0.5, 64), 1);
  EXPECT_EQ(internal::quota_cores(16, 4), 4);
  EXPECT_EQ(internal::quota_cores(std::nullopt, 8), 8);
  EXPECT_EQ(internal::quota_cores(std::nullopt, 0), 1);
}

TEST(Sensors, SeeResidentMemoryAndFaultsGrow) {
  Sensors sensors;
  const SensorReading before = sensors.read();
  constexpr size_t kBytes = size_t{64} << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const SensorReading after = sensors.read();
  munmap(memory, kBytes);
  EXPECT_GT(after.rss_bytes - before.rss_bytes, static_cast<int64_t>(kBytes / 2));
  EXPECT_GT(after.minor_faults, before.minor_faults);
}

TEST(Sensors, FindNumbersByTheirName) {
  constexpr std::string_view kIo = "rchar: 6976\nwchar: 12\nsyscr: 10\n";
  EXPECT_EQ(internal::parse_named(kIo, "rchar: "), 6976);
  EXPECT_EQ(internal::parse_named(kIo, "wchar: "), 12);
  EXPECT_EQ(internal::parse_named(kIo, "char: "), std::nullopt) << "a name begins a line";
  EXPECT_EQ(internal::parse_named("VmSwap:\t    2048 kB\n", "VmSwap:"), 2048);
  EXPECT_EQ(internal::parse_named("VmSwap:", "VmSwap:"), std::nullopt);
  EXPECT_EQ(internal::parse_named("", "rchar: "), std::nullopt);
}

TEST(Sensors, SeeWhatTheProgramReadsAndNotWhatTheyRead) {
  Sensors sensors;
  const int64_t before = sensors.read().read_bytes;
  for (int i = 0; i < 50; ++i) {
    sensors.read();
    sensors.waited_ns();
  }
  EXPECT_LT(sensors.read().read_bytes - before, 2000);
  std::vector<char> bytes(100'000);
  std::ifstream("/dev/zero", std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_GE(sensors.read().read_bytes - before, 100'000);
}

TEST(Sensors, NoteSubnormalNumbers) {
  std::fenv_t before;
  ASSERT_EQ(std::fegetenv(&before), 0);
  ASSERT_EQ(std::fesetenv(FE_DFL_ENV), 0);  // nothing is flushed
  static_cast<void>(take_subnormal_note());
  volatile float small = 1e-37F;
  const volatile float normal = small * 2.0F;
  static_cast<void>(normal);
  EXPECT_FALSE(take_subnormal_note());
  small = small * 1e-3F;
  EXPECT_TRUE(take_subnormal_note());
  EXPECT_FALSE(take_subnormal_note()) << "the note is taken";
  ASSERT_EQ(std::fesetenv(&before), 0);
}

TEST(Sensors, CountFileHandles) {
  const int64_t before = open_file_handles();
  ASSERT_GT(before, 0);
  const int fd = ::open("/dev/null", O_RDONLY);
  EXPECT_EQ(open_file_handles(), before + 1);
  ::close(fd);
  EXPECT_EQ(open_file_handles(), before);
}

TEST(Sensors, WatchTheWholeTeamWithAsManyHandles) {
  const int before = compute_threads();
  set_compute_threads(3);
  each_thread(3, [](int64_t) {});
  Sensors sensors;
  const int64_t handles = open_file_handles();
  for (const bool team : {true, false, true}) {
    sensors.watch_team(team);
    EXPECT_GE(sensors.waited_ns(), 0);
    EXPECT_EQ(open_file_handles(), handles);
  }
  // Three threads that keep one or two cores busy wait for each other.
  const int64_t waited = sensors.waited_ns();
  if (describe_machine().usable_cores < 3) {
    each_thread(3, [](int64_t) {
      for (const int64_t end = now_ns() + 50'000'000; now_ns() < end;) {
      }
    });
    EXPECT_GT(sensors.waited_ns(), waited + 10'000'000);
  }
  set_compute_threads(2);
  sensors.watch_team(true);  // another team: this thread alone
  EXPECT_EQ(open_file_handles(), handles);
  set_compute_threads(before);
}

TEST(ReferenceKernel, TakesTime) {
  ReferenceKernel kernel;
  for (int i = 0; i < 100; ++i) EXPECT_GT(kernel.time_ns(), 100);
}

TEST(ReferenceKernel, RunsOnTheTeamAndBackOnOneThread) {
  const int before = compute_threads();
  set_compute_threads(2);
  ReferenceKernel kernel;
  EXPECT_EQ(kernel.threads(), 1);
  kernel.use_team(true);  // the team may not come together: asleep, or other programs have the cores
  for (int i = 0; i < 100; ++i) {
    const double ns = kernel.time_ns();
    EXPECT_GT(ns, 100);
    EXPECT_TRUE(std::isfinite(ns));
  }
  EXPECT_TRUE(std::isfinite(kernel.quiet_ns()));
  set_compute_threads(3);
  kernel.use_team(true);
  EXPECT_EQ(kernel.threads(), 1) << "a team of another size than it has memory for";
  kernel.use_team(false);
  EXPECT_EQ(kernel.threads(), 1);
  set_compute_threads(before);
}

TEST(ReferenceKernel, IsFiniteWhereTheTeamHasTooFewCores) {
  const int before = compute_threads();
  set_compute_threads(16);
  ReferenceKernel kernel;
  kernel.use_team(true);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(std::isfinite(kernel.time_ns()));
  set_compute_threads(before);
}

TEST(MachineLoad, ReadsTheSystemsTexts) {
  const auto ticks = internal::parse_cpu_ticks("cpu  10 20 30 1000 5 2 3 7 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n");
  EXPECT_EQ(ticks.busy, 65);
  EXPECT_EQ(ticks.stolen, 7);
  EXPECT_EQ(internal::parse_cpu_ticks("cpu  10 20\n").busy, 0);
  EXPECT_EQ(internal::parse_cpu_ticks("").busy, 0);
  constexpr std::string_view kMemory = "MemTotal:  100 kB\nMemAvailable:   42 kB\nSwapFree: 7 kB";
  EXPECT_EQ(internal::parse_memory_field(kMemory, "MemAvailable"), 42 * 1024);
  EXPECT_EQ(internal::parse_memory_field(kMemory, "SwapFree"), 7 * 1024);
  EXPECT_EQ(internal::parse_memory_field(kMemory, "Mem"), 0);
  EXPECT_EQ(internal::parse_memory_field(kMemory, "SwapTotal"), 0);
}

TEST(MachineLoad, LooksAtThisMachine) {
  const MachineLoad load = measure_load(0.05);
  EXPECT_GE(load.busy_cores, 0);
  EXPECT_GE(load.own_cores, 0);
  EXPECT_GT(load.available_bytes, 1'000'000);
  EXPECT_GE(load.swap_bytes, 0);
}

}  // namespace
}  // namespace isochron::observe
