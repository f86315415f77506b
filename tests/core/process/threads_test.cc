#include "isochron/core/process/threads.h"

#include <gmock/gmock.h>
#include <immintrin.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace isochron {
namespace {

/// Puts the thread setting back when a test ends.
class ThreadSetting {
 public:
  explicit ThreadSetting(int threads) : before_(compute_threads()) { set_compute_threads(threads); }
  ~ThreadSetting() { set_compute_threads(before_); }

 private:
  int before_;
};

TEST(Threads, ParallelForCoversEachIndexOnce) {
  for (int threads : {1, 2, 3}) {
    const ThreadSetting setting(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      std::atomic<int> ranges{0};
      parallel_for(threads, count, [&](int64_t begin, int64_t end) {
        ++ranges;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
      EXPECT_LE(ranges.load(), threads);
    }
  }
}

TEST(Threads, ParallelForFlushesSubnormalsInEveryThread) {
  const ThreadSetting setting(2);
  std::atomic<int> flushed{0}, ranges{0};
  parallel_for(2, 2, [&](int64_t, int64_t) {
    ++ranges;
    flushed += subnormals_flushed();
  });
  EXPECT_EQ(ranges.load(), 2);
  EXPECT_EQ(flushed.load(), 2);
}

TEST(Threads, FlushingTurnsSubnormalsIntoZero) {
  std::thread([] {
    _mm_setcsr(0x1f80);  // a new thread inherits its creator's setting: begin with the default
    volatile float tiny = std::numeric_limits<float>::min();
    EXPECT_FALSE(subnormals_flushed());
    EXPECT_GT(tiny / 2, 0.0f);
    flush_subnormals_to_zero();
    EXPECT_TRUE(subnormals_flushed());
    EXPECT_EQ(tiny / 2, 0.0f);
  }).join();
}

/// Also run with OpenMP's thread limit, which a process reads when it starts (tests/CMakeLists.txt).
TEST(Threads, CountIsAtLeastOneAndBounded) {
  const char* limit = std::getenv("OMP_THREAD_LIMIT");
  const int most = limit ? std::atoi(limit) : 256;
  EXPECT_GE(compute_threads(), 1);
  EXPECT_LE(compute_threads(), most);
  const int before = compute_threads();
  EXPECT_ERROR(set_compute_threads(0), ErrorCode::kInvalidArgument, "got 0");
  EXPECT_ERROR(set_compute_threads(most + 1), ErrorCode::kInvalidArgument, fmt::format("[1, {}]", most));
  EXPECT_EQ(compute_threads(), before);
}

}  // namespace
}  // namespace isochron
