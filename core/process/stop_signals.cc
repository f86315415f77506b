#include "isochron/core/process/stop_signals.h"

#include <utility>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"

namespace isochron {
namespace {

// A second signal within this time is an echo of the first: for example, `timeout` sends it to the process
// and to its group.
constexpr int64_t kSameRequestNs = 300'000'000;
bool g_alive = false;
volatile int64_t g_first_ns = 0;

bool ignores(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

volatile std::sig_atomic_t StopSignals::pending_ = 0;
bool StopSignals::answered_ = false;
std::array<struct sigaction, StopSignals::kSignals.size()> StopSignals::previous_;

std::string_view StopSignals::name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGTERM";
  }
}

void StopSignals::note(int signal) {
  if (pending_ == 0) {
    g_first_ns = now_ns();
    pending_ = signal;
  } else if (now_ns() - g_first_ns >= kSameRequestNs) {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      if (kSignals[i] != signal) continue;
      if (ignores(previous_[i])) previous_[i].sa_handler = SIG_DFL;
      ::sigaction(signal, &previous_[i], nullptr);
    }
    std::raise(signal);  // delivered when this returns
  }
}

StopSignals::StopSignals() {
  require(!g_alive, ErrorCode::kInvalidArgument, "signals",
          "another loop of this process already waits for SIGINT and SIGTERM");
  g_alive = true;
  pending_ = 0;
  answered_ = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (kSignals[i] != SIGHUP || !ignores(previous_[i])) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous_[i], nullptr);
  const int signal = pending_;
  pending_ = 0;
  g_alive = false;
  if (signal != 0 && !answered_) std::raise(signal);
}

}  // namespace isochron
