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

/// What each number in a format is averaged over.
enum class Averaging {
  kNone,     // what it names: a step, an epoch
  kRecent,   // the latest steps
  kBarSoFar  // all steps since the bar began
};

struct LogFormat {
  std::string_view name;     // of --format
  std::string_view program;  // for people
  /// RE2's syntax, with the words that log_formats.cc spells out. Named groups mark the parts: `value` and
  /// its `unit` (or else `default_unit`); for a bar, `done` and `total`; `label`, with numbers, names the
  /// phase; `heading` marks a line that names the phase of the bars below it; `of` is what is timed; `count`
  /// is its number.
  std::vector<std::string_view> expressions;
  std::string_view default_unit = {};
  Averaging averaging = Averaging::kNone;
  bool bar_ends_with_mean = false;  // a bar's last update has the mean of the whole bar
  bool as_on_clock = false;         // `value` is a duration such as "0:01:05", without a unit
  bool free_form = false;           // lines people write: durations in several units, a comma after each step
  std::string_view separators = {};  // of ",": characters that may precede a number but are no part of it
  /// A note for the user on what the numbers leave out; empty: nothing.
  std::string_view note = {};
};

/// All known formats, in the order in which they are tried.
std::span<const LogFormat> log_formats();

/// The content of a line that matches a format.
struct LogMatch {
  size_t format = 0;                   // of log_formats()
  bool heading = false;                // the line names the phase that follows; only the label is set
  std::string label = {};              // words alone, without numbers
  int64_t number = -1;                 // first number in the label, such as the epoch's; -1: none
  double done = -1;                    // steps done in the bar; -1: not a bar
  double total = -1;                   // -1: not known
  std::optional<double> ns;            // time of one `of`; none: not shown yet ("?it/s"), or 0
  double resolution = 0;               // of `ns`, relative: what the last digit is worth
  double unit = 1;                     // as LastDigits has it
  std::vector<int64_t> counters = {};  // of a free-form line: the numbers of its epoch, step, batch
  int epoch_counter = -1;              // which of them is the epoch's; -1: none
  int step_counter = -1;               // the last of the others
  bool per_step = false;               // `ns` was written as a rate, or as a time per step
  std::string of = {};                 // what is timed: "step", "it", "epoch"; empty: not said
  std::string refusal = {};            // why the time is ambiguous; empty: it isn't
};

class LogMatcher {
 public:
  /// Matches only this format, or all formats if `format` is empty. Throws kInvalidArgument for an unknown
  /// name.
  explicit LogMatcher(std::string_view format);

  /// Returns nothing if the line matches no format. Takes time linear in the line. If a time is ambiguous or
  /// negative, the match says so in `refusal`. A line in free form has a match for each of its named times
  /// (`data 1.2 ms, step 60 ms`); estimates of the remaining time and averages are left out, except at first.
  std::vector<LogMatch> match(std::string_view line) const;

 private:
  struct Expression;
  struct Expressions;
  std::shared_ptr<const Expressions> expressions_;
};

}  // namespace isochron::apps
