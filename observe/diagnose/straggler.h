// Finds the rank that all others wait for.
#pragma once

#include <optional>
#include <string>

#include "isochron/observe/diagnose/cause.h"
#include "isochron/observe/record/rank_series.h"

namespace isochron::observe {

/// The rank to which the others lose most time, for one of three reasons: its work takes longer than the
/// median of theirs; other programs occupy its cores, which delays its messages; or its link is slow.
struct Straggler {
  int rank = 0;
  double slower = 1;  // its work time divided by the others', in the median window
  double share = 0;   // share of the time that the others lose to it
  double steady = 0;  // share of the windows in which they do
  // The reasons for its extra work time, as shares of it.
  double input_share = 0;
  double throttled_share = 0;  // by its CPU quota
  double waited_share = 0;     // for cores that other programs had
  /// The share of the time that it waits for cores, if the others lose most to that.
  double core_wait_share = 0;
  /// How many times as long messages over its link take, if the others lose most to that; else 0. Always 0
  /// with two ranks, because it is unknown whose link is slow.
  double link_slower = 0;
};

/// Judges the whole run or, if `late`, its last quarter. Returns nullopt if there are fewer than
/// kMinUpdates updates or kMinWindows windows.
std::optional<Straggler> find_straggler(const RankData& data, bool late);
inline constexpr int64_t kMinUpdates = 64;
inline constexpr size_t kMinWindows = 8;

/// Sets straggler.* (cause.h). `growing`: the run's time grows; then its last quarter is judged as well.
void add_evidence(const RankData& data, bool growing, Evidence& evidence);
/// "rank 1 of 4 on beta: its work takes 1.9 times the others', 93 % of the difference is waiting for input".
std::string straggler_text(const Evidence& evidence, const RankData& data);

}  // namespace isochron::observe
