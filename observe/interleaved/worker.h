// Work that is done in a process of its own, a turn at a time, so that several can take turns on one machine:
// each has its own heap, counters, threads and files, stands still between its turns (SIGSTOP, all its
// threads), and meets the same moods of the machine as the others. What it prints is kept for its end.
//
// The caller must not have computed anything in parallel before: the threads of OpenMP don't outlive a fork.
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

/// Monotonic ns without those that this process stood still: between a worker's turns, and in StandStill.
int64_t running_ns();

/// While it lives, others have their turns and `running_ns` doesn't go on.
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
  TurnLog() : durations_ns_(kMost) {}
  /// The latest 4096 are kept.
  void add(int64_t duration_ns) {
    durations_ns_[added_ % kMost] = static_cast<double>(duration_ns);
    ++added_;
  }
  /// What was added, which goes.
  TurnTimes take() {
    return turn_times(std::span(durations_ns_).first(std::min(std::exchange(added_, 0), kMost)));
  }

 private:
  static constexpr size_t kMost = 4096;
  std::vector<double> durations_ns_;
  size_t added_ = 0;
};

/// The machine's own sensors, but of the totals of the whole machine only what they rise by between two
/// readings within a turn: the rest may be others' turns.
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

/// The worker's side: `work` asks between its iterations.
class Turns {
 public:
  explicit Turns(int channel) : channel_(channel) {}

  /// An iteration of this turn that counts for its times.
  void add(int64_t duration_ns) { log_.add(duration_ns); }

  /// Whether the present turn is over. Costs a reading of `running_ns`, unless the caller has one.
  bool over(int64_t now_ns) const { return now_ns >= until_ns_; }
  /// Waits for the next turn; false: there is none, the work is to end. `snapshot` tells what is known so
  /// far, if it is asked for: in a copy of the process, so that it leaves no trace in this one.
  bool wait(const std::function<std::string()>& snapshot);
  /// Whether the present turn begins the run anew: what was before it was warm-up. Once for each such turn.
  bool take_anew() { return std::exchange(anew_, false); }
  /// The work has come to what it was to do; turns from now on are for comparison alone.
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
/// This process's first thread stays on `core`, its others on the rest of `cores` where there are more; -1:
/// all of them go where they like among `cores`.
void stay_on(int core, const std::vector<int>& cores);

class Worker {
 public:
  /// What it returns is the result. It begins with the first turn.
  using Work = std::function<std::string(Turns&)>;
  /// Forks. The other process has none of the memory that is free in this one's heap, so that what it takes
  /// shows. Throws kIo.
  explicit Worker(const Work& work);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Kills it where it hasn't ended.
  ~Worker();

  /// A turn; returns the times of what it added (Turns::add) when it is over, nothing when the work has
  /// ended. `anew`: see Turns. Throws what the work has thrown, as text, and kIo where the process died.
  TurnTimes run(double seconds, bool anew = false);
  /// From the next turn on, as the function of that name.
  void stay_on(int core, const std::vector<int>& cores);
  bool ended() const { return ended_; }
  /// Whether it has, or has said so (Turns::end_run).
  bool run_ended() const { return ended_ || run_ended_; }
  /// What is known of the work so far; not once it has ended.
  std::string snapshot();
  /// Lets it end where it hasn't; its result.
  std::string finish();
  /// What it has printed.
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
