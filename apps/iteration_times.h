// The times that another program wrote of its iterations: a column of a table, or what a pattern finds in a
// log. `analyze` judges them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::apps {

/// In ns; nothing for a text that names no unit.
std::optional<double> unit_ns(std::string_view unit);

struct TimesOptions {
  std::filesystem::path path;           // "-" is standard input; a pipe is read once, from front to back
  std::string column = {};              // of a table: its name, or without a header its number
  std::string pattern = {};             // not empty: of a log
  std::string unit = {};                // empty: the column's name or the pattern's second group says it
  size_t most_times = size_t{1} << 26;  // of an iteration: 512 MB
};

/// What messages call a path: "standard input" for "-".
std::string name_of(const std::filesystem::path& path);

/// In ns, each above 0, at least one. Plain or gzipped. Throws kIo; kInvalidArgument for a pattern, a column
/// that isn't named though there are several, a unit that nothing tells; kBadFormat with the line for what is
/// no time, for text in UTF-16, for more than `most_times`.
std::vector<double> read_times(const TimesOptions& options);

/// A regular expression (RE2's syntax: Perl's without what can't be found in linear time) with a group for
/// the time, and perhaps one for its unit. Time and memory are linear in the text, whatever the pattern.
class TimePattern {
 public:
  /// Throws kInvalidArgument for what is no expression, has no group, or is too large.
  explicit TimePattern(const std::string& text);
  ~TimePattern();

  struct Found {
    std::string_view number, unit;  // empty for a group that isn't there
  };
  /// Nothing where the line doesn't match. What is found lies within `line`.
  std::optional<Found> find(std::string_view line) const;

 private:
  struct Expression;
  std::unique_ptr<Expression> expression_;
};

}  // namespace isochron::apps
