// What a rank tells the others of itself through a file: a short text of fixed length, for programs and for
// people who look into the folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::comm {

struct RankStatus {
  uint64_t run = 0;  // equal on all ranks of a run, and on no others
  int rank = 0;
  std::string host = {};
  int64_t process = 0;
  std::string time = {};        // by the rank's own clock, for people: "2026-11-26 07:53:00 UTC"
  int64_t beat = 0;             // how often the status has been taken: a rank that runs counts on
  int64_t entered = 0;          // collectives that it has started
  int64_t finished = 0;         // of them, in their order
  double waited_s = 0;          // for the oldest that isn't finished
  std::string label = {};       // of that one: "sums of gradients"
  int64_t bytes = 0;            // of its data
  std::string doing = {};       // between collectives: "computing"
  double doing_s = 0;           // since when it does this, and has finished no collective
  int64_t epoch = 0, step = 0;  // from 1; 0: not known

  /// Is a collective under way?
  bool waits() const { return entered > finished; }
};

inline constexpr size_t kRankStatusBytes = 768;

/// Of kRankStatusBytes. Texts that are too long are cut.
std::string status_text(const RankStatus& status);
/// Nothing for anything that `status_text` hasn't made, such as a file that is half written.
std::optional<RankStatus> parse_status(std::string_view text);

}  // namespace isochron::comm
