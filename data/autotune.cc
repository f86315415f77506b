#include "isochron/data/autotune.h"

#include "isochron/core/clock.h"

namespace isochron::data {
namespace {

constexpr int64_t kCheckEvery = 16;  // deliveries between looks at the clock
constexpr int64_t kPeriodNs = 50'000'000;
constexpr int64_t kRestNs = 5'000'000'000;
constexpr double kWaitShare = 0.02;  // deliveries waited for below which the input is no hindrance
constexpr double kGain = 1.05;

}  // namespace

int Autotuner::on_delivery(bool waited) {
  ++delivered_;
  waits_ += waited;
  if (most_ > 1 && delivered_ % kCheckEvery == 0) {
    const int64_t now = now_ns();
    if (period_began_ns_ == 0) {
      period_began_ns_ = now;
      period_delivered_ = delivered_;
      period_waits_ = waits_;
    } else if (now - period_began_ns_ >= kPeriodNs) {
      end_period(now);
    }
  }
  return workers_;
}

void Autotuner::end_period(int64_t now_ns) {
  const auto delivered = static_cast<double>(delivered_ - period_delivered_);
  const double rate = delivered / static_cast<double>(now_ns - period_began_ns_);
  const double wait_share = static_cast<double>(waits_ - period_waits_) / delivered;
  period_began_ns_ = now_ns;
  period_delivered_ = delivered_;
  period_waits_ = waits_;
  if (settling_) {
    settling_ = false;
    return;
  }
  if (on_trial_) {
    on_trial_ = false;
    if (rate < kGain * rate_before_) {
      --workers_;
      settling_ = true;
      rest_until_ns_ = now_ns + kRestNs;
      return;
    }
  }
  if (wait_share > kWaitShare && workers_ < most_ && now_ns >= rest_until_ns_) {
    rate_before_ = rate;
    ++workers_;
    on_trial_ = settling_ = true;
  }
}

}  // namespace isochron::data
