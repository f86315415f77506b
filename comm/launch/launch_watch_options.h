// How long ranks wait for one another while MPI starts and ends (comm/launch/launch_watch.h).
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace isochron::comm {

struct LaunchWatchOptions {
  /// How long a rank waits before it reports; it reports again after twice as long, four times, ...
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  /// How long a rank waits before it ends itself, which makes its launcher end the others; 0: never.
  std::chrono::nanoseconds end_after = std::chrono::nanoseconds(0);
  /// While MPI starts: how long a rank of this machine may have no process before this rank ends itself.
  std::chrono::nanoseconds end_after_loss = std::chrono::seconds(8);
  /// Receives each message, on a thread of the watch. Null: writes to standard error, prefixed with
  /// "isochron: ".
  std::function<void(const std::string& text)> tell = {};
  /// Ends the run, on a thread of the watch. The text is the message, which is empty if a lower rank reports
  /// it. Null: passes the message to `tell` and ends this process with the exit status of kCommunication, 6.
  std::function<void(const std::string& text)> end = {};
};

}  // namespace isochron::comm
