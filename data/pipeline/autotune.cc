#include "isochron/data/pipeline/autotune.h"

#include <utility>

namespace isochron::data {
namespace {

constexpr int64_t kCheckEvery =
    16;  // deliveries between looks at the clock, waits aside; the least in a period
constexpr int64_t kPeriodNs = 50'000'000;
constexpr int64_t kRestNs = 5'000'000'000;
constexpr double kWaitShare = 0.02;  // with a smaller share of waits, the input is no bottleneck
constexpr double kGain = 1.05;
constexpr int64_t kPauseNs = 20'000'000;
constexpr double kPauseTimes = 4;  // the consumer's usual time
constexpr int64_t kMaxMade = 64;   // elements assumed to have been made in a pause
constexpr double kShareOfNew = 0.125;

}  // namespace

int Autotuner::on_delivery(bool waited) {
  ++delivered_;
  waits_ += waited;
  if (most_ > 1 && (waited || delivered_ - looked_.delivered >= kCheckEvery)) {
    look({clock_(), delivered_, waits_}, waited);
  }
  return workers_;
}

void Autotuner::look(const Counts& now, bool waited) {
  const Counts before = std::exchange(looked_, now);
  if (before.ns == 0) {
    period_ = now;
    return;
  }
  const int64_t away_ns = now.ns - before.ns - (waited ? now.ns - wait_began_ns_ : 0);
  const bool pause = is_pause(now.delivered - before.delivered, away_ns) | std::exchange(paused_, false);
  if (pause) drained_at_ = now.delivered + kMaxMade;
  if (pause || now.delivered < drained_at_) {
    period_.ns += now.ns - before.ns;
    period_.delivered += now.delivered - before.delivered;
    period_.waits += now.waits - before.waits;
    if (waited) drained_at_ = 0;  // all elements made in the pause are used up
    return;
  }
  const double away = static_cast<double>(away_ns) / static_cast<double>(now.delivered - before.delivered);
  usual_away_ns_ += usual_away_ns_ == 0 ? away : kShareOfNew * (away - usual_away_ns_);
  if (now.ns - period_.ns >= kPeriodNs && now.delivered - period_.delivered >= kCheckEvery) end_period(now);
}

bool Autotuner::is_pause(int64_t delivered, int64_t away_ns) const {
  return away_ns > kPauseNs && usual_away_ns_ > 0 &&
         static_cast<double>(away_ns) > kPauseTimes * usual_away_ns_ * static_cast<double>(delivered);
}

void Autotuner::end_period(const Counts& now) {
  const auto delivered = static_cast<double>(now.delivered - period_.delivered);
  const double rate = delivered / static_cast<double>(now.ns - period_.ns);
  const double wait_share = static_cast<double>(now.waits - period_.waits) / delivered;
  period_ = now;
  if (settling_) {
    settling_ = false;
    return;
  }
  if (on_trial_) {
    on_trial_ = false;
    if (rate < kGain * rate_before_) {
      --workers_;
      settling_ = true;
      rest_until_ns_ = now.ns + kRestNs;
      return;
    }
  }
  if (wait_share > kWaitShare && workers_ < most_ && now.ns >= rest_until_ns_) {
    rate_before_ = rate;
    ++workers_;
    on_trial_ = settling_ = true;
  }
}

}  // namespace isochron::data
