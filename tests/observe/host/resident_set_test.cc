#include "isochron/observe/host/resident_set.h"

#include <gmock/gmock.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace isochron::observe {
namespace {

constexpr int64_t kKb = 1024, kMb = 1024 * kKb;

/// As the system writes it: a header a mapping, and the lines of it that matter here.
constexpr std::string_view kSmaps =
    "55d000000000-55d000100000 r-xp 00000000 fd:00 100    /usr/bin/program\n"
    "Size:               1024 kB\nRss:                 700 kB\nAnonymous:             0 kB\n"
    "VmFlags: rd ex mr mw me\n"
    "55d000100000-55d000110000 rw-p 00100000 fd:00 100    /usr/bin/program\nRss:                  64 kB\n"
    "55d000110000-55d000120000 rw-p 00000000 00:00 0 \nRss:                  20 kB\n"  // its .bss
    "55d001000000-55d001200000 rw-p 00000000 00:00 0      [heap]\nRss:                2000 kB\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \nRss:                 100 kB\n"  // a thread's arena
    "7f0000021000-7f0004000000 ---p 00000000 00:00 0 \nRss:                   0 kB\n"
    "7f0010000000-7f0010001000 ---p 00000000 00:00 0 \nRss:                   0 kB\n"
    "7f0010001000-7f0010801000 rw-p 00000000 00:00 0 \nRss:                  40 kB\n"  // a stack
    "7f0020000000-7f0020001000 ---p 00000000 00:00 0 \nRss:                   0 kB\n"
    "7f0020001000-7f0021001000 rw-p 00000000 00:00 0 \nRss:                8200 kB\n"  // a stack, and joined
                                                                                       // to it a block
    "7f0030000000-7f0030400000 rw-p 00000000 00:00 0      [anon:pool]\nRss:                4096 kB\n"
    "7f0031000000-7f0031010000 rwxp 00000000 00:00 0 \nRss:                  48 kB\n"  // made while running
    "7f0032000000-7f0032100000 r--p 00000000 fd:00 7      /data/tokens.bin\nRss:                 512 kB\n"
    "7f0033000000-7f0033100000 r--p 00000000 fd:00 8      /usr/lib/a name with spaces.so\nRss:               "
    "  256 kB\n"
    "7f0033100000-7f0033200000 r-xp 00100000 fd:00 8      /usr/lib/a name with spaces.so\nRss:               "
    "  128 kB\n"
    "7f0034000000-7f0034010000 rw-p 00000000 00:00 0 \nRss:                  12 kB\n"  // whose it is, nobody
                                                                                       // says
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0      [stack]\nRss:                  60 kB\n"
    "7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0      [vdso]\nRss:                   8 kB\n";

ResidentSet reconciled(const OwnMemory& own, const HeapTotals& heap) {
  std::istringstream smaps{std::string(kSmaps)};
  return internal::reconcile(smaps, own, heap, 8 * kMb, [](uint64_t begin, uint64_t end) {
    EXPECT_EQ(begin, 0x7f0020001000u);
    EXPECT_EQ(end - begin, static_cast<uint64_t>(8 * kMb - 4096));
    return 100 * kKb;
  });
}

TEST(ResidentSet, NamesEveryMapping) {
  const OwnMemory own{.planned = 3 * kMb, .in_use = 7 * kMb, .reserved = 11 * kMb, .mapped = 10 * kMb};
  const ResidentSet set = reconciled(own, {.in_use = 1800 * kKb, .mapped = 1900 * kKb});
  EXPECT_EQ(set.program, (700 + 64 + 20 + 256 + 128 + 8) * kKb);
  EXPECT_EQ(set.mapped_files, 512 * kKb);
  EXPECT_EQ(set.generated_code, 48 * kKb);
  EXPECT_EQ(set.stacks, (40 + 100 + 60) * kKb);
  EXPECT_EQ(set.planned, 3 * kMb);
  EXPECT_EQ(set.tensors, 4 * kMb);
  EXPECT_EQ(set.pool_slack, 4 * kMb) << "1 MB of them from malloc";
  EXPECT_EQ(set.heap, (1800 + 1900 - 1024) * kKb) << "less what our allocators have of it";
  EXPECT_EQ(set.heap_slack, (2000 + 100 + 1900 - 1024) * kKb - set.heap);
  EXPECT_EQ(set.unexplained, (8200 - 100 + 4096 + 12 - 1900) * kKb - 10 * kMb);
  int64_t sum = 0;
  for (const ResidentPart& part : resident_parts()) sum += set.*part.bytes;
  EXPECT_EQ(sum, set.total) << "nothing twice, nothing left out";
}

TEST(ResidentSet, BlocksOfMallocThatAreNotResidentAreNotClaimed) {
  const ResidentSet set = reconciled({}, {.in_use = 900 * kMb, .mapped = 900 * kMb});
  EXPECT_EQ(set.unexplained, 0);
  EXPECT_EQ(set.heap, (2000 + 100 + 8100 + 4096 + 12) * kKb) << "what is resident of them";
  EXPECT_EQ(set.heap_slack, 0);
}

TEST(ResidentSet, WhatIsFreeShowsBesideBlocksThatAreNotResident) {
  const ResidentSet set = reconciled({}, {.in_use = 1200 * kKb, .mapped = 900 * kMb});
  EXPECT_EQ(set.heap_slack, (2000 + 100 - 1200) * kKb);
  EXPECT_EQ(set.heap, (1200 + 8100 + 4096 + 12) * kKb);
}

TEST(ResidentSet, SurvivesAnyText) {
  const auto nothing = [](uint64_t, uint64_t) { return int64_t{0}; };
  for (const std::string text :
       {"", "\n\n", "Rss: 5 kB\n", "zz-yy\nRss: x kB", "1-2", "7f-80 rw-p 0 0:0 0\nRss:"}) {
    std::istringstream smaps(text);
    EXPECT_EQ(internal::reconcile(smaps, {}, {}, 0, nothing).total, 0) << text;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ResidentSet, FindsWhatThisProcessDoes) {
  constexpr int64_t kBytes = 16 * kMb;
  static_cast<void>(read_resident_set({}));
  malloc_trim(0);  // what is free in the heap would be used again
  const ResidentSet before = read_resident_set({});
  EXPECT_GT(before.total, 0);
  EXPECT_GT(before.program, 100 * kKb);
  EXPECT_GT(before.stacks, 0);
  const auto expect_grown = [&](int64_t ResidentSet::*part, const ResidentSet& now, const char* what) {
    EXPECT_GE(now.*part - before.*part, kBytes - kMb) << what;
    EXPECT_LE(now.*part - before.*part, kBytes + 2 * kMb) << what;
    EXPECT_NEAR(static_cast<double>(now.total - before.total), kBytes, 4.0 * kMb) << what;
  };
  {
    const std::unique_ptr<char, void (*)(void*)> block(static_cast<char*>(std::malloc(kBytes)), std::free);
    std::memset(block.get(), 1, kBytes);
    expect_grown(&ResidentSet::heap, read_resident_set({}), "a block of malloc's with a mapping of its own");
  }
  {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int64_t i = 0; i < kBytes / 1000; ++i) {
      blocks.push_back(std::make_unique<char[]>(1000 - 16));
      blocks.back()[0] = 1;
    }
    expect_grown(&ResidentSet::heap, read_resident_set({}), "many small blocks");
    for (size_t i = 0; i + 1 < blocks.size(); ++i)
      blocks[i].reset();  // the last one keeps the heap from shrinking
    const ResidentSet freed = read_resident_set({});
    EXPECT_GE(freed.heap_slack - before.heap_slack, kBytes - 2 * kMb) << "free, and still resident";
  }
  malloc_trim(0);
  void* mapping = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  std::memset(mapping, 1, kBytes);
  expect_grown(&ResidentSet::unexplained, read_resident_set({}), "a mapping that nobody claims");
  const ResidentSet claimed =
      read_resident_set({.planned = kBytes, .in_use = kBytes, .reserved = kBytes, .mapped = kBytes});
  EXPECT_EQ(claimed.planned, kBytes);
  EXPECT_LT(claimed.unexplained - before.unexplained, kMb);
  munmap(mapping, kBytes);
}

TEST(ResidentSet, AThreadsStackIsAStack) {
  const ResidentSet before = read_resident_set({});
  ResidentSet within;
  std::thread([&] {
    volatile char used[2 * kMb];
    for (size_t i = 0; i < sizeof used; i += 4096) used[i] = 1;
    within = read_resident_set({});
  }).join();
  EXPECT_GE(within.stacks - before.stacks, 2 * kMb);
  EXPECT_LT(within.stacks - before.stacks, 3 * kMb);
}
#endif

}  // namespace
}  // namespace isochron::observe
