// Work that is done in a process of its own, a turn at a time, so that several can take turns on one machine:
// each has its own heap, counters, threads and files, stands still between its turns (SIGSTOP, all its
// threads), and meets the same moods of the machine as the others. What it prints is kept for its end.
//
// The caller must not have computed anything in parallel before: the threads of OpenMP don't outlive a fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace isochron::apps {

/// Monotonic ns of the turns that this process has had; where it is no worker, those of the clock.
int64_t running_ns();

/// The worker's side: `work` asks between its iterations.
class Turns {
 public:
  explicit Turns(int channel) : channel_(channel) {}

  /// Whether the present turn is over. Costs a reading of `running_ns`, unless the caller has one.
  bool over(int64_t now_ns) const { return now_ns >= until_ns_; }
  /// Waits for the next turn; false: there is none, the work is to end. `snapshot` tells what is known so
  /// far, if it is asked for: in a copy of the process, so that it leaves no trace in this one.
  bool wait(const std::function<std::string()>& snapshot);

 private:
  int channel_;
  int64_t until_ns_ = 0;
};

class Worker {
 public:
  /// What it returns is the result. It begins with the first turn.
  using Work = std::function<std::string(Turns&)>;
  /// Forks. Throws kIo.
  explicit Worker(const Work& work);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Kills it where it hasn't ended.
  ~Worker();

  /// A turn; returns when it is over, or the work has ended. Throws what the work has thrown, as text, and
  /// kIo where the process died.
  void run(double seconds);
  bool ended() const { return ended_; }
  /// What is known of the work so far; not once it has ended.
  std::string snapshot();
  /// Lets it end where it hasn't; its result.
  std::string finish();
  /// What it has printed.
  std::string printed() const;

 private:
  struct Message;
  void send(int64_t turn_ns);
  Message receive();
  void await();

  pid_t process_ = 0;
  int channel_ = -1;
  int output_ = -1;
  bool ended_ = false;
  std::string result_;
};

}  // namespace isochron::apps
