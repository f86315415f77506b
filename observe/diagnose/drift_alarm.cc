#include "isochron/observe/diagnose/drift_alarm.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"

namespace isochron::observe {
namespace {

constexpr double kMaxShare = 0.005;

int64_t ns_of(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

DriftAlarm::DriftAlarm(const Recorder& recorder, DriftAlarmOptions options)
    : recorder_(recorder), options_(options), next_ns_(ns_of(options.time.min_seconds)) {
  require(options.growth > 1, ErrorCode::kInvalidArgument, "drift alarm",
          "growth is {}, expected more than 1", options.growth);
}

std::optional<RunReport> DriftAlarm::look() {
  if (!due() || recorder_.totals().iterations == 0) return std::nullopt;
  const int64_t began_ns = recorder_.options().clock();
  ++looks_;
  ReportOptions options;
  options.time = options_.time;
  options.time.series = options_.time.series * looks_ * (looks_ + 1);
  RunReport report = make_report(recorder_, "run", options);
  const auto elapsed_ns = static_cast<double>(recorder_.totals().elapsed_ns);
  const auto cost_ns = static_cast<double>(recorder_.options().clock() - began_ns);
  next_ns_ = std::llround(std::max(options_.growth * elapsed_ns, elapsed_ns + cost_ns / kMaxShare));
  const bool grown = report.time.kind == Flatness::kGrowing;
  raised_ = grown && grown_;
  grown_ = grown;
  if (!raised_) return std::nullopt;
  return report;
}

}  // namespace isochron::observe
