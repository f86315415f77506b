// The status that a rank publishes for the others in a file: a short text of fixed length, for programs and
// for people who look into the folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::comm {

struct RankStatus {
  uint64_t run = 0;  // equal on all ranks of a run, different in other runs
  int rank = 0;
  std::string host = {};
  int64_t process = 0;
  std::string time = {};        // by the rank's own clock, for people: "2026-11-26 07:53:00 UTC"
  int64_t beat = 0;             // counts how often the status was taken; grows while the rank runs
  int64_t entered = 0;          // collectives that it has started
  int64_t finished = 0;         // collectives that it has finished, in order
  double waited_s = 0;          // how long it has waited for the oldest unfinished collective
  std::string label = {};       // of that collective: "sums of gradients"
  int64_t bytes = 0;            // of its data
  std::string doing = {};       // between collectives: "computing"
  double doing_s = 0;           // how long it has been doing this without finishing a collective
  int64_t epoch = 0, step = 0;  // from 1; 0: not known

  /// Is a collective under way?
  bool waits() const { return entered > finished; }
};

inline constexpr size_t kRankStatusBytes = 768;

/// The status as a text of kRankStatusBytes. Strings that are too long are cut.
std::string status_text(const RankStatus& status);
/// Returns nothing for a text that `status_text` didn't produce, such as a half-written file.
std::optional<RankStatus> parse_status(std::string_view text);

}  // namespace isochron::comm
