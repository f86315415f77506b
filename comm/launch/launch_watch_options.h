// How long ranks wait for one another while MPI starts and ends (comm/launch/launch_watch.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace isochron::comm {

struct LaunchWatchOptions {
  /// How long it takes before a rank tells; again after twice as long, four times, ...
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  /// How long it takes before the rank ends itself, whereupon its launcher ends the others; 0: never.
  std::chrono::nanoseconds end_after = std::chrono::nanoseconds(0);
  /// How long MPI's start goes on while a rank of this machine has no process, before this one ends itself.
  std::chrono::nanoseconds end_after_loss = std::chrono::seconds(8);
  /// Gets each message, on a thread of the watch's. Null: to standard error, behind "isochron: ".
  std::function<void(const std::string& text)> tell = {};
  /// Ends the run, on a thread of the watch's, with what there is to say; empty where a lower rank says it.
  /// Null: tells it, and ends this process with the exit status of kCommunication, 6.
  std::function<void(const std::string& text)> end = {};
};

}  // namespace isochron::comm
