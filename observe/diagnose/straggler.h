// The rank that all others wait for.
#pragma once

#include <optional>
#include <string>

#include "isochron/observe/diagnose/cause.h"
#include "isochron/observe/record/rank_series.h"

namespace isochron::observe {

/// Of the rank that the others lose most time to: its work takes longer than the median of theirs, it waits
/// for cores that other programs have, which delays what it sends, or its link is slow.
struct Straggler {
  int rank = 0;
  double slower = 1;  // its work against the others', in the median of windows
  double share = 0;   // of the time, that the others lose to it
  double steady = 0;  // of the windows, those in which they do
  // What accounts for its excess, as shares of it.
  double input_share = 0;
  double throttled_share = 0;  // by its CPU quota
  double waited_share = 0;     // for cores that other programs had
  /// Of the time, waiting for cores, where that is what the others lose most to.
  double core_wait_share = 0;
  /// How much longer messages take over its link, where that is what the others lose most to; else 0. Of two
  /// ranks it can't be said whose link is slow.
  double link_slower = 0;
};

/// Over all of the run, or where `late` over its last quarter. Nothing of fewer than kLeastUpdates updates or
/// kLeastWindows windows.
std::optional<Straggler> find_straggler(const RankData& data, bool late);
inline constexpr int64_t kLeastUpdates = 64;
inline constexpr size_t kLeastWindows = 8;

/// Sets straggler.* (cause.h). `growing`: the time of the run grows, so that its end counts.
void add_evidence(const RankData& data, bool growing, Evidence& evidence);
/// "rank 1 of 4 on beta: its work takes 1.9 times the others', 93 % of the difference is waiting for input".
std::string straggler_text(const Evidence& evidence, const RankData& data);

}  // namespace isochron::observe
