// The logs of common training programs: a table of formats, each with expressions for its lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::apps {

/// What one number of a format sums up.
enum class Averaging {
  kNone,     // what it names: a step, an epoch
  kRecent,   // the latest steps
  kBarSoFar  // all steps since the bar began
};

struct LogFormat {
  std::string_view name;     // of --format
  std::string_view program;  // for people
  /// RE2's syntax, with the words that log_formats.cc spells out. Named groups say what is where: `value` and
  /// its `unit` (else `default_unit`); of a bar `done` of `total`; `label`, with numbers, which names the
  /// phase; `heading` for a line that names the phase of the bars that follow; `of`, what is timed; `count`,
  /// which one it is.
  std::vector<std::string_view> expressions;
  std::string_view default_unit = {};
  Averaging averaging = Averaging::kNone;
  bool bar_ends_with_mean = false;  // a bar's last update has the mean of the whole bar
  bool free_form = false;           // people's own lines: durations in several units, a comma behind the step
  std::string_view separators = {};  // of ",", what ends what stands before a number, so is no part of it
  /// What its numbers leave out, for people; empty: nothing.
  std::string_view note = {};
};

/// All that are known, in the order in which they are tried.
std::span<const LogFormat> log_formats();

/// What a line of a format says.
struct LogMatch {
  size_t format = 0;         // of log_formats()
  bool heading = false;      // a line that names what follows; nothing but the label is set
  std::string label = {};    // words alone, without numbers
  int64_t number = -1;       // the label's first, such as the epoch's; -1: none
  double done = -1;          // steps of the bar; -1: it is none
  double total = -1;         // -1: not known
  std::optional<double> ns;  // the time of one; none: not shown yet ("?it/s"), or 0
  double resolution = 0;     // of `ns`, relative: what the last digit is worth
  std::string of = {};       // what is timed: "step", "it", "epoch"; empty: not said
  std::string refusal = {};  // why it can't be told what the time is; empty: it can
};

class LogMatcher {
 public:
  /// Looks for one format alone, or for all where `format` is empty. Throws kInvalidArgument for a name that
  /// isn't there.
  explicit LogMatcher(std::string_view format);

  /// Nothing for a line of no format. Takes time linear in the line. A time that can't be told, or is
  /// negative, is refused in the match.
  std::optional<LogMatch> match(std::string_view line) const;

 private:
  struct Expression;
  std::vector<std::shared_ptr<const Expression>> expressions_;
};

}  // namespace isochron::apps
