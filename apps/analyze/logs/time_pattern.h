// A user's regular expression for the times in a log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isochron/apps/analyze/times/written_times.h"

namespace isochron::apps {

/// A regular expression (RE2's syntax, which is Perl's without the parts that need more than linear time)
/// with a group for the time and perhaps one for its unit. Time and memory are linear in the text.
class TimePattern {
 public:
  static constexpr int kMostMatches = 1000;  // of a line

  /// Throws kInvalidArgument if `text` is not a valid expression, has no group, or is too large.
  explicit TimePattern(const std::string& text);
  ~TimePattern();

  struct Found {
    WrittenTime time;                // the whole time that starts in the first group; empty if absent
    std::string_view unit;           // empty if the group is absent
    std::string_view behind_number;  // the rest of the line
  };
  /// The last match; nothing if there is none. The result points into `line`. A comma, colon, dash,
  /// underscore, apostrophe or dot that the pattern itself has next to its first group is no part of a
  /// number. Throws kBadFormat for more than kMostMatches.
  std::optional<Found> find_last(std::string_view line, const std::string& where) const;

 private:
  struct Expression;
  std::unique_ptr<Expression> expression_;
};

}  // namespace isochron::apps
