// LaunchWatch: names the rank that the others wait for while MPI starts, and while it ends. Both need all
// ranks. If a rank hangs, or has ended in a way that its launcher doesn't see as a failure, the others wait
// forever, and there is no collective call to watch (comm/watch/watchdog.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "isochron/comm/launch/launch.h"
#include "isochron/comm/launch/launch_watch_options.h"
#include "isochron/comm/launch/local_ranks.h"

namespace isochron::comm {

enum class LaunchPhase { kStart, kEnd };
/// "starting MPI", "ending MPI". The watching thread bears this name, so it has at most 15 characters.
const char* phase_name(LaunchPhase phase);

/// What is known about the other ranks.
struct LaunchView {
  const Launch& launch;
  LaunchPhase phase;
  double waited_s = 0;
  std::span<const LocalRank> ranks;  // on this machine, including this rank
};
/// How many ranks of this machine have no process; 0 if no process is known.
int absent_ranks(const LaunchView& view);
/// "rank 0 of 3 has been starting MPI for 60 s, which takes all ranks: rank 2 (process 4711) is stopped".
std::string launch_wait_text(const LaunchView& view);

class LaunchWatch {
 public:
  /// Watches until it is destroyed. `launch` must outlive it. `launcher`: the process that started the ranks
  /// of this machine, 0 if unknown.
  LaunchWatch(LaunchPhase phase, const Launch& launch, LaunchWatchOptions options,
              pid_t launcher = launcher_process());
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;
  ~LaunchWatch();

 private:
  void watch();
  /// False once it has ended the run.
  bool look(std::chrono::nanoseconds waited);

  const LaunchPhase phase_;
  const Launch& launch_;
  LaunchWatchOptions options_;
  const pid_t launcher_;

  // Used only by the thread.
  std::chrono::nanoseconds all_there_{0};  // when all ranks of this machine were last seen
  std::chrono::nanoseconds next_tell_;

  std::mutex mutex_;
  std::condition_variable over_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace isochron::comm
