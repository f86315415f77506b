// The wall-clock time that all loops and tables of a `compare` share. Every loop has its own least time; what
// is left goes to those whose verdict isn't settled then: a share each while the others are still to come,
// and all that remains at the end, when they are run once more from the beginning. (Resident memory and
// counts are the process's: a loop that paused while others run could not be judged on them.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "isochron/core/clock.h"

namespace isochron::apps {

class Budget {
 public:
  /// `seconds` from now on for `loops` loops, each of which will need about `least_seconds`. `clock`:
  /// monotonic ns; a simulated one makes it exact.
  Budget(double seconds, int64_t loops, double least_seconds, int64_t (*clock)() = now_ns)
      : clock_(clock),
        began_ns_(clock()),
        seconds_(seconds),
        to_come_(loops),
        least_seconds_(least_seconds) {}

  double seconds() const { return seconds_; }
  double spent() const { return static_cast<double>(clock_() - began_ns_) * 1e-9; }
  double left() const { return seconds_ - spent(); }

  /// The next loop begins.
  void begin_loop() { --to_come_; }
  /// How much longer, in seconds, the present loop may go on beyond its least time while others are to come:
  /// an eighth of what they will not need, at most twice a loop's least time.
  double to_go_on() const {
    const double spare = left() - static_cast<double>(to_come_) * least_seconds_;
    return std::clamp(spare / 8, 0.0, 2 * least_seconds_);
  }
  /// For each of `loops` that are to be run again; 0 where that is less than one needs.
  double to_run_again(int64_t loops) const {
    const double share = left() / static_cast<double>(std::max<int64_t>(1, loops));
    return share >= least_seconds_ ? share : 0;
  }

 private:
  int64_t (*clock_)();
  int64_t began_ns_;
  double seconds_;
  int64_t to_come_;
  double least_seconds_;
};

}  // namespace isochron::apps
