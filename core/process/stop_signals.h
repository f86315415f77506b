// SIGINT, SIGTERM and SIGHUP as a request that a loop answers when it is ready: it finishes what it is doing,
// saves, and returns normally.
#pragma once

#include <array>
#include <csignal>
#include <string_view>

namespace isochron {

/// While it exists, the first of these signals is only noted. A second one, at least 0.3 s later, ends the
/// process as it would without this object. Afterwards the previous handlers are restored, and a noted signal
/// that nobody has answered by then is passed to them. An ignored SIGHUP, as under `nohup`, stays ignored.
/// Only one may exist in a process at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The signal that has come since the construction, or 0. Costs one load.
  static int pending() { return pending_; }
  /// Says that the loop ends because of the signal, so that the signal isn't passed to the previous handlers.
  static void answer() { answered_ = true; }
  /// "SIGINT".
  static std::string_view name(int signal);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  static void note(int signal);

  static volatile std::sig_atomic_t pending_;
  static bool answered_;
  static std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace isochron
