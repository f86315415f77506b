// Sentences that say which ranks a waiting rank waits for, as far as the ranks' files show it.
#pragma once

#include <span>
#include <string>

#include "isochron/comm/watch/rank_status.h"

namespace isochron::comm {

/// A rank as another one sees it.
struct RankView {
  std::optional<RankStatus> status = {};  // none: nothing is known
  double unchanged_s = 0;                 // how long the status has stayed the same
  bool present = true;                    // it has a file

  /// Whether the status still changes, that is, the process doesn't hang.
  bool alive(double still_s) const { return status && unchanged_s < still_s; }
};

struct WaitView {
  const RankStatus& own;            // status of the waiting rank
  std::span<const RankView> ranks;  // all ranks in order; this rank's own entry isn't used
  double still_s = 0;               // a process whose status hasn't changed for this long counts as hung
  double unanswered_s = 0;          // how long the file system of `folder` hasn't answered
  const std::string& folder;
};

/// "collective 17 of step 812 of epoch 3 (sums of gradients, 1.05 MB)".
std::string collective_text(const RankStatus& waiting);
/// "1.05 MB", "812 s", "2 and 3".
std::string size_text(int64_t bytes);
std::string seconds_text(double seconds);
std::string list_text(std::span<const int> ranks);
/// Writes `text` to standard error, prefixed with "isochron: ", if that can be written to.
void print_message(const std::string& text);

/// What the rank that ends all ranks is doing. Its status doesn't change after that.
inline constexpr const char* kEndingTheRun = "ending the run";

/// Is a lower rank also waiting, or ending the run? Then that rank reports, and this one doesn't.
bool lower_rank_tells(const WaitView& view);
/// Who is waited for, what it does, and who waits.
std::string wait_text(const WaitView& view);

}  // namespace isochron::comm
