// Autotuner: chooses how many workers make elements ahead. It adds a worker while the consumer waits, and
// keeps it only if elements then arrive faster. Pauses of the consumer, and the elements made during them,
// don't count.
#pragma once

#include <cstdint>

#include "isochron/core/base/clock.h"

namespace isochron::data {

/// The resources that a pipeline uses now.
struct PipelineStats {
  int workers = 0;             // threads that make elements; 0: the calling thread does
  int64_t elements_ahead = 0;  // room for finished elements, including the consumer's
  int64_t waits = 0;           // how often the consumer found no finished element
  int64_t delivered = 0;
};

class Autotuner {
 public:
  using Clock = int64_t (*)();  // as now_ns

  /// `most` of 1 turns it off.
  explicit Autotuner(int most, Clock clock = now_ns) : clock_(clock), most_(most) {}

  /// Called when the consumer finds nothing finished.
  void on_wait() {
    if (most_ > 1) wait_began_ns_ = clock_();
  }
  /// Called at every delivery; returns how many workers should be active.
  int on_delivery(bool waited);
  /// Reports that the consumer does other work before the next delivery. A pause far longer than its usual
  /// time between deliveries is noticed without this call.
  void on_pause() { paused_ = true; }
  int64_t waits() const { return waits_; }
  int64_t delivered() const { return delivered_; }

 private:
  /// What has been counted at a moment.
  struct Counts {
    int64_t ns = 0, delivered = 0, waits = 0;
  };

  void look(const Counts& now, bool waited);
  bool is_pause(int64_t delivered, int64_t away_ns) const;
  void end_period(const Counts& now);

  Clock clock_;
  int most_ = 1;
  int workers_ = 1;
  int64_t waits_ = 0, delivered_ = 0;
  int64_t wait_began_ns_ = 0;
  Counts looked_;             // at the look before
  Counts period_;             // at the beginning of the period; what doesn't count is added to it
  double usual_away_ns_ = 0;  // from one delivery to the consumer's next call
  int64_t drained_at_ = 0;    // deliveries before this one may be elements made during a pause
  double rate_before_ = 0;    // elements per second, before the worker on trial
  bool paused_ = false;
  bool on_trial_ = false;
  bool settling_ = false;      // the period after a change doesn't count
  int64_t rest_until_ns_ = 0;  // no trial before
};

}  // namespace isochron::data
