// The autotuner with a simulated clock.
#include "isochron/data/pipeline/autotune.h"

#include <gmock/gmock.h>

#include <deque>

namespace isochron::data {
namespace {

int64_t g_now_ns = 0;

constexpr int64_t kMs = 1'000'000;

/// A consumer, and workers that take turns making elements for a few slots.
class Pipeline {
 public:
  Pipeline(int most, int64_t make_ns, int64_t use_ns)
      : tuner_(most, [] { return g_now_ns; }), make_ns_(make_ns), use_ns_(use_ns) {
    g_now_ns = kMs;
  }

  void take(int64_t elems) {
    for (int64_t i = 0; i < elems; ++i) {
      // Workers that share a core's worth of work each: elements come every make / workers.
      while (ready_.size() < kSlots) {
        last_made_ns_ = std::max(last_made_ns_, slot_free_ns_) + make_ns_ / workers_;
        ready_.push_back(last_made_ns_);
      }
      const bool waited = ready_.front() > g_now_ns;
      if (waited) {
        tuner_.on_wait();
        g_now_ns = ready_.front();
      }
      ready_.pop_front();
      slot_free_ns_ = g_now_ns;
      workers_ = tuner_.on_delivery(waited);
      g_now_ns += use_ns_;
    }
  }
  void pause(int64_t ns, bool said) {
    g_now_ns += ns;
    if (said) tuner_.on_pause();
  }
  int workers() const { return workers_; }

 private:
  static constexpr size_t kSlots = 12;

  Autotuner tuner_;
  int64_t make_ns_, use_ns_;
  std::deque<int64_t> ready_;
  int64_t last_made_ns_ = kMs, slot_free_ns_ = kMs;
  int workers_ = 1;
};

TEST(Autotune, AddsWorkersWhileTheyHelp) {
  Pipeline slow(8, 4 * kMs, kMs);
  slow.take(4000);
  EXPECT_EQ(slow.workers(), 4);
  Pipeline fast(8, kMs / 2, kMs);
  fast.take(4000);
  EXPECT_EQ(fast.workers(), 1);
}

TEST(Autotune, PausesOfTheConsumerDoNotCount) {
  for (const bool said : {true, false}) {
    for (const int64_t elems_between : {5, 40, 150, 700}) {
      SCOPED_TRACE(testing::Message() << elems_between << " elements between pauses, said: " << said);
      Pipeline pipeline(8, 16 * kMs, kMs);
      int most = 0;
      for (int64_t taken = 0; taken < 8000; taken += elems_between) {
        pipeline.take(elems_between);
        pipeline.pause(3000 * kMs, said);
        most = std::max(most, pipeline.workers());
      }
      if (elems_between > 12) {
        EXPECT_EQ(pipeline.workers(), 8) << "it takes 16 to keep up";
      } else {
        EXPECT_EQ(most, 1) << "all that is taken was made in a pause";
      }
    }
  }
}

}  // namespace
}  // namespace isochron::data
