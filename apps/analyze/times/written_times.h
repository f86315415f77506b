// Reads complete numbers and durations from a line. An expression may have matched only a part of one: the
// end of "2,500", the minutes of "4 min 59 s".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct WrittenTime {
  std::string_view text;          // within the line: "2,500"; "4 min 59 s"
  std::string number = {};        // as std::from_chars reads it: "2500"
  std::optional<double> ns = {};  // total of several units; if set, ignore `number`
  double resolution = 0;          // value of the last digit, relative to `ns`
  double unit_ns = 1;             // unit of the last part of `ns`
  bool may_be_list = false;       // several units separated by nothing but a comma: "5 min, 0.35 s"
  std::string refusal = {};       // why the value is ambiguous, or that it is negative; empty: neither
};

/// The number that `part` belongs to, with thousands separators and an exponent. `part` lies within `line`.
/// Bytes before `from` don't belong to it, and neither does anything beyond a character of `separators` (from
/// ",:-_.'") at its ends.
WrittenTime written_number(std::string_view line, std::string_view part, size_t from = 0,
                           std::string_view separators = {});

/// The duration in several units that `part` belongs to: "1 h 4 min", "4m59s", "2 minutes and 55 seconds".
/// Nothing if there is only one unit.
std::optional<WrittenTime> written_duration(std::string_view line, std::string_view part);

/// A duration written as on a clock, if it spans all of `text`: "0:01:05", "1:05.2" (minutes and seconds).
std::optional<WrittenTime> clock_duration(std::string_view text);

/// A finite number in the format of std::from_chars that spans all of `text`.
std::optional<double> number_of(std::string_view text);

/// `text` without thousands separators: "1234.5" for "1,234.5" and "1_234.5". Nothing if a separator isn't
/// followed by exactly three digits, as in "2,25", or if the first group is 0.
std::optional<std::string> plain_number(std::string_view text);

}  // namespace isochron::apps
