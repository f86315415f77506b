// A simulated machine, with a clock that only the loop advances, for faults that can't be planted.
#pragma once

#include <functional>

#include "causes/planted.h"
#include "isochron/core/base/rng.h"

namespace isochron::causes {

class PlayedMachine final : public observe::SensorSource {
 public:
  /// `change` sets the readings that differ from those of a quiet machine after `part` of the run.
  using Change = std::function<void(observe::SensorReading& reading, double part)>;
  explicit PlayedMachine(Change change) : change_(std::move(change)) {}

  /// A loop whose steps take 1 ms on this machine, and up to `slowdown` times as long after the first two
  /// fifths. The reference kernel slows down equally, unless a device does the work.
  observe::RunReport run(double slowdown = 1, bool on_device = false);

  void read(observe::SensorReading& reading) override {
    reading = {};
    reading.rss_bytes = int64_t{1} << 30;
    change_(reading, part_);
  }
  void read_slow(observe::SensorReading&) override {}  // `read` has set everything
  int64_t waited_ns() override { return 0; }
  void watch_team(bool) override {}
  std::optional<double> reference_ns() override { return 1000 * (on_device_ ? 1 : speed_); }

 private:
  static int64_t now();

  Change change_;
  double part_ = 0;
  double speed_ = 1;
  bool on_device_ = false;
};

}  // namespace isochron::causes
