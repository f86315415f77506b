#include "isochron/observe/statistics/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace isochron::observe {
namespace {

using Asked = ChangeEstimate::Asked;

bool smaller(const ChangeEstimate& a, const ChangeEstimate& b) {
  return std::fabs(a.change) < std::fabs(b.change);
}

/// Whether the estimate is compatible with flat. An estimate that flat ignores only must not lie surely
/// beyond the bound.
bool allows_flat(const ChangeEstimate& estimate, double bound) {
  return within(estimate, bound) || (estimate.asked == Asked::kForChange && !surely_beyond(estimate, bound));
}

bool shows_change(const ChangeEstimate& estimate, double bound) {
  return estimate.asked != Asked::kForFlat && surely_beyond(estimate, bound);
}

}  // namespace

std::string_view flatness_name(Flatness flatness) {
  constexpr std::string_view kNames[] = {"flat", "growing", "shrinking", "inconclusive"};
  return kNames[static_cast<size_t>(flatness)];
}

std::string percent(double change) { return fmt::format("{:+.2f} %", 100 * change); }

std::string verdict_text(const FlatnessVerdict& verdict) {
  std::string text(flatness_name(verdict.kind));
  if (!verdict.largest.name.empty()) {
    text += fmt::format(": {} [{}, {}] ({})", percent(verdict.largest.change), percent(verdict.largest.low),
                        percent(verdict.largest.high), verdict.largest.name);
  }
  if (verdict.machine_slowed) text += "; the machine slowed, not the program";
  return text;
}

bool within(const ChangeEstimate& estimate, double bound) {
  return estimate.low >= -bound && estimate.high <= bound;
}

bool surely_beyond(const ChangeEstimate& estimate, double bound) {
  return estimate.low > bound || estimate.high < -bound;
}

const ChangeEstimate& farthest(std::span<const ChangeEstimate> estimates) {
  return *std::ranges::max_element(estimates, {}, [](const ChangeEstimate& e) {
    return e.asked == Asked::kForChange ? 0 : std::max(std::fabs(e.low), std::fabs(e.high));
  });
}

void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint) {
  const double bound = verdict.bound;
  std::vector<ChangeEstimate>& estimates = verdict.estimates;
  if (std::ranges::all_of(estimates, [bound](const auto& e) { return allows_flat(e, bound); })) {
    verdict.kind = Flatness::kFlat;
    verdict.largest = *std::ranges::max_element(estimates, smaller);
    return;
  }
  std::vector<ChangeEstimate> changes;
  std::ranges::copy_if(joint, std::back_inserter(changes),
                       [bound](const auto& e) { return shows_change(e, bound); });
  if (!changes.empty()) {
    verdict.largest = *std::ranges::max_element(changes, smaller);
    verdict.kind = verdict.largest.change > 0 ? Flatness::kGrowing : Flatness::kShrinking;
    estimates = std::move(joint);
    return;
  }
  verdict.kind = Flatness::kInconclusive;
  for (size_t i = 0; i < joint.size();
       ++i) {  // an estimate that rules out flat, but isn't certain enough for growth
    if (!shows_change(estimates[i], bound)) continue;
    estimates[i] = joint[i];
    estimates[i].asked = Asked::kAlways;
  }
  verdict.largest = farthest(estimates);
}

void doubt(FlatnessVerdict& verdict, std::string reason, double iterations_to_decide) {
  verdict.kind = Flatness::kInconclusive;
  verdict.iterations_to_decide = iterations_to_decide;
  verdict.reason = std::move(reason) + verdict.left_out;
}

}  // namespace isochron::observe
