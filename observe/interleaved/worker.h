// Runs work in a separate process, one turn at a time, so that several processes can alternate on one
// machine. Each process has its own heap, counters, threads and files, is stopped with all its threads
// between its turns (SIGSTOP), and meets the same machine conditions as the others. Its output is kept until
// it ends.
//
// The caller must not have computed anything in parallel before: OpenMP's threads don't survive a fork.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/observe/host/machine.h"
#include "isochron/observe/interleaved/ab_comparison.h"

namespace isochron::observe {

/// Monotonic time in ns, without the time in which this process stood still: between a worker's turns, and
/// while a StandStill exists.
int64_t running_ns();

/// While an object exists, `running_ns` stands still, because other processes have their turns.
class StandStill {
 public:
  StandStill();
  StandStill(const StandStill&) = delete;
  StandStill& operator=(const StandStill&) = delete;
  ~StandStill();

 private:
  int64_t began_ns_;
};

/// The durations of a turn's iterations.
class TurnLog {
 public:
  TurnLog() : durations_ns_(kMax) {}
  /// Adds a duration. Only the latest 4096 are kept.
  void add(int64_t duration_ns) {
    durations_ns_[added_ % kMax] = static_cast<double>(duration_ns);
    ++added_;
  }
  /// Returns what was added, and clears the log.
  TurnTimes take() {
    return turn_times(std::span(durations_ns_).first(std::min(std::exchange(added_, 0), kMax)));
  }

 private:
  static constexpr size_t kMax = 4096;
  std::vector<double> durations_ns_;
  size_t added_ = 0;
};

/// The machine's own sensors. Totals of the whole machine count only their increase between two readings
/// within the same turn, because the rest may be due to other processes' turns.
class TurnSensors final : public SensorSource {
 public:
  void read(SensorReading& reading) override { sensors_.read(reading); }
  void read_slow(SensorReading& reading) override;
  int64_t waited_ns() override { return sensors_.waited_ns(); }
  void watch_team(bool team) override { sensors_.watch_team(team); }

 private:
  Sensors sensors_;
  int64_t turn_ = -1;  // of the latest reading
  SensorReading real_, own_{.thermal_throttles = 0};
};

/// The worker's side of the turns; `work` calls it between iterations.
class Turns {
 public:
  explicit Turns(int channel) : channel_(channel) {}

  /// An iteration of this turn that counts for its times.
  void add(int64_t duration_ns) { log_.add(duration_ns); }

  /// Whether the present turn is over. Costs a reading of `running_ns`, unless the caller has one.
  bool over(int64_t now_ns) const { return now_ns >= until_ns_; }
  /// Waits for the next turn; false if there is none and the work must end. If the caller asks for it,
  /// `snapshot` returns what is known so far. It runs in a copy of the process, so it has no effect on this
  /// one.
  bool wait(const std::function<std::string()>& snapshot);
  /// Whether the present turn restarts the run: everything before was warm-up. True once for each such turn.
  bool take_anew() { return std::exchange(anew_, false); }
  /// The run is complete; further turns are only for comparison.
  void end_run() { run_ended_ = true; }

 private:
  int channel_;
  int64_t until_ns_ = 0;
  bool anew_ = false;
  bool run_ended_ = false;
  TurnLog log_;
};

/// Cores that this process may run on.
std::vector<int> cores();
/// Pins this process's first thread to `core`, and its other threads to the rest of `cores`, if there are
/// any. If `core` is -1, all threads may run on any of `cores`.
void stay_on(int core, const std::vector<int>& cores);

class Worker {
 public:
  /// Starts with the first turn. Its return value is the result.
  using Work = std::function<std::string(Turns&)>;
  /// Forks. The new process starts without this one's free heap memory, so that memory it takes is visible.
  /// Throws kIo.
  explicit Worker(const Work& work);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Kills the process if it hasn't ended.
  ~Worker();

  /// Runs one turn. Returns the times of the iterations that were added (Turns::add), or nothing if the work
  /// has ended. `anew`: see Turns. Rethrows the work's error, as text; throws kIo if the process died.
  TurnTimes run(double seconds, bool anew = false);
  /// Like the function of the same name, for the worker's process; takes effect with its next turn.
  void stay_on(int core, const std::vector<int>& cores);
  bool ended() const { return ended_; }
  /// Whether the work has ended, or has called Turns::end_run.
  bool run_ended() const { return ended_ || run_ended_; }
  /// What is known so far (see Turns::wait). Must not be called once the work has ended.
  std::string snapshot();
  /// Tells the work to end if it hasn't yet, and returns its result.
  std::string finish();
  /// The output of the work so far.
  std::string printed() const;

 private:
  struct Message;
  void send(int64_t turn_ns, bool anew = false);
  Message receive();
  TurnTimes await();

  pid_t process_ = 0;
  int channel_ = -1;
  int output_ = -1;
  bool ended_ = false;
  bool run_ended_ = false;
  std::string result_;
};

}  // namespace isochron::observe
