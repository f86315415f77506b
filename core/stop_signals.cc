#include "isochron/core/stop_signals.h"

#include "isochron/core/error.h"

namespace isochron {
namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
bool g_alive = false;

}  // namespace

volatile std::sig_atomic_t StopSignals::pending_ = 0;

void StopSignals::note(int signal) {
  pending_ = signal;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

StopSignals::StopSignals() {
  require(!g_alive, ErrorCode::kInvalidArgument, "signals",
          "another loop of this process waits for SIGINT and SIGTERM already");
  g_alive = true;
  pending_ = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &previous_[i]);
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous_[i], nullptr);
  pending_ = 0;
  g_alive = false;
}

}  // namespace isochron
