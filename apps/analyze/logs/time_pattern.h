// A user's regular expression for the times in a log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isochron/apps/analyze/times/written_times.h"

namespace isochron::apps {

/// A regular expression with a group for the time and optionally one for its unit. The syntax is RE2's, which
/// is Perl's without the constructs that need more than linear time. Time and memory are linear in the text.
class TimePattern {
 public:
  static constexpr int kMaxMatches = 1000;  // per line

  /// Throws kInvalidArgument if `text` is not a valid expression, has no group, or is too large.
  explicit TimePattern(const std::string& text);
  ~TimePattern();

  struct Found {
    WrittenTime time;                // the whole time that starts in the first group; empty if absent
    std::string_view unit;           // empty if the group is absent
    std::string_view behind_number;  // the rest of the line
  };
  /// The last match, or nothing if there is none. The result points into `line`. If the pattern has a comma,
  /// colon, dash, underscore, apostrophe or dot next to its first group, that character isn't part of a
  /// number. Throws kBadFormat for more than kMaxMatches.
  std::optional<Found> find_last(std::string_view line, const std::string& where) const;

 private:
  struct Expression;
  std::unique_ptr<Expression> expression_;
};

}  // namespace isochron::apps
