// SIGINT and SIGTERM as a request that a loop answers when it is ready: it ends what it is at, saves, and
// returns in good order.
#pragma once

#include <array>
#include <csignal>
#include <string_view>

namespace isochron {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one, 0.3 s later or more, ends the
/// process as usual. What handled them before does so again afterwards. One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The signal that came since the construction, or 0. Costs one load.
  static int pending() { return pending_; }
  /// "SIGINT".
  static std::string_view name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

 private:
  static void note(int signal);

  static volatile std::sig_atomic_t pending_;
  std::array<struct sigaction, 2> previous_;
};

}  // namespace isochron
