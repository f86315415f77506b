// A table of the log formats of common training programs, with regular expressions for their lines.
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
  kNone,     // nothing: the value is that of one step or epoch
  kRecent,   // the latest steps
  kBarSoFar  // all steps since the bar began
};

struct LogFormat {
  std::string_view name;     // of --format
  std::string_view program;  // for people
  /// Regular expressions in RE2's syntax, with placeholder words that log_formats.cc replaces. Named groups
  /// mark the parts of a line: `value` is the time or rate, in `unit` or else in `default_unit`; `done` and
  /// `total` are the steps of a progress bar; `label`, which may contain numbers, names the phase; `heading`
  /// marks a line that names the phase of the bars below it; `of` is what is timed, and `count` its number.
  std::vector<std::string_view> expressions;
  std::string_view default_unit = {};
  Averaging averaging = Averaging::kNone;
  bool bar_ends_with_mean = false;  // a bar's last update has the mean of the whole bar
  bool as_on_clock = false;         // `value` is a duration such as "0:01:05", without a unit
  bool free_form = false;           // lines people write: durations in several units, a comma after each step
  std::string_view separators = {};  // characters that may precede a number without being part of it
  /// A note for the user on what the numbers don't include; empty if there is nothing to note.
  std::string_view note = {};
};

/// All known formats, in the order in which they are tried.
std::span<const LogFormat> log_formats();

/// The content of a line that matches a format.
struct LogMatch {
  size_t format = 0;                   // of log_formats()
  bool heading = false;                // the line names the phase that follows; only the label is set
  std::string label = {};              // words only, without numbers
  int64_t number = -1;                 // first number in the label, such as the epoch's; -1: none
  double done = -1;                    // steps done in the bar; -1: not a bar
  double total = -1;                   // -1: not known
  std::optional<double> ns;            // the time of one `of`; nullopt: not shown yet ("?it/s"), or 0
  double resolution = 0;               // value of the last digit, relative to `ns`
  double unit = 1;                     // see LastDigits
  std::vector<int64_t> counters = {};  // numbers of epoch, step and batch in a free-form line
  int epoch_counter = -1;              // index of the epoch's number; -1: none
  int step_counter = -1;               // index of the last other number
  bool per_step = false;               // `ns` was written as a rate, or as a time per step
  std::string of = {};                 // what is timed: "step", "it", "epoch"; empty: not said
  std::string refusal = {};            // why the time is ambiguous or negative; empty: it isn't
};

class LogMatcher {
 public:
  /// Matches only this format, or all formats if `format` is empty. Throws kInvalidArgument for an unknown
  /// name.
  explicit LogMatcher(std::string_view format);

  /// Returns nothing if the line matches no format. Takes time linear in the line. If a time is ambiguous or
  /// negative, the match says so in `refusal`. A free-form line has one match for each of its named times
  /// (`data 1.2 ms, step 60 ms`). Estimates of the remaining time and averages are left out.
  std::vector<LogMatch> match(std::string_view line) const;

 private:
  struct Expression;
  struct Expressions;
  std::shared_ptr<const Expressions> expressions_;
};

}  // namespace isochron::apps
