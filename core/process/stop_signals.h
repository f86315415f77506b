// SIGINT, SIGTERM and SIGHUP as a request that a loop answers when it is ready: it ends what it is at, saves,
// and returns in good order.
#pragma once

#include <array>
#include <csignal>
#include <string_view>

namespace isochron {

/// While it lives, the first of these signals is only noted; a second one, 0.3 s later or more, ends the
/// process as it would have without. What handled them before does so again afterwards, and is given the one
/// that nobody has asked for by then. A SIGHUP that is ignored, as below `nohup`, stays so. One at a time in
/// a process.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The signal that came since the construction, or 0. Whoever is told of one is to answer it. Costs one
  /// load.
  static int pending() {
    const int signal = pending_;
    if (signal != 0) [[unlikely]]
      told_ = 1;
    return signal;
  }
  /// "SIGINT".
  static std::string_view name(int signal);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  static void note(int signal);

  static volatile std::sig_atomic_t pending_;
  static volatile std::sig_atomic_t told_;
  static std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace isochron
