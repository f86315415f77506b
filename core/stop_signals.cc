#include "isochron/core/stop_signals.h"

#include "isochron/core/clock.h"
#include "isochron/core/error.h"

namespace isochron {
namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
// Within this a second signal is the first one's echo: `timeout`, for one, sends it to the process and to its
// group.
constexpr int64_t kSameRequestNs = 300'000'000;
bool g_alive = false;
volatile int64_t g_first_ns = 0;

}  // namespace

volatile std::sig_atomic_t StopSignals::pending_ = 0;

void StopSignals::note(int signal) {
  if (pending_ == 0) {
    g_first_ns = now_ns();
    pending_ = signal;
  } else if (now_ns() - g_first_ns >= kSameRequestNs) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this returns
  }
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
