// Autotuner: how many threads make elements ahead. It adds one while the consumer waits and keeps it only
// where elements then come faster.
#pragma once

#include <cstdint>

namespace isochron::data {

/// What a pipeline uses at the moment.
struct PipelineStats {
  int workers = 0;             // threads that make elements; 0: the calling thread does
  int64_t elements_ahead = 0;  // room for finished elements, that at hand included
  int64_t waits = 0;           // times the consumer found nothing finished
  int64_t delivered = 0;
};

class Autotuner {
 public:
  Autotuner() = default;
  /// `most` of 1 turns it off.
  explicit Autotuner(int most) : most_(most) {}

  /// Called at every delivery; returns how many workers shall be at work.
  int on_delivery(bool waited);
  int64_t waits() const { return waits_; }
  int64_t delivered() const { return delivered_; }

 private:
  void end_period(int64_t now_ns);

  int most_ = 1;
  int workers_ = 1;
  int64_t waits_ = 0, delivered_ = 0;
  int64_t period_began_ns_ = 0, period_delivered_ = 0, period_waits_ = 0;
  double rate_before_ = 0;  // elements per second, before the worker on trial
  bool on_trial_ = false;
  bool settling_ = false;      // the period after a change doesn't count
  int64_t rest_until_ns_ = 0;  // no trial before
};

}  // namespace isochron::data
