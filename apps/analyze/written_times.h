// Numbers and durations as a line has them, of which an expression may have found a part: the end of
// "2,500", the minutes of "4 min 59 s".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct WrittenTime {
  std::string_view text;          // within the line: "2,500"; "4 min 59 s"
  std::string number = {};        // as std::from_chars reads it: "2500"
  std::optional<double> ns = {};  // of several units together; `number` is of no interest then
  double resolution = 0;          // of `ns`, relative: what the last digit is worth
  bool may_be_list = false;       // of several units with a comma alone between them: "5 min, 0.35 s"
  std::string refusal = {};       // why it can't be told what it is, or that it is negative; empty: it can
};

/// The number that `part` belongs to, with separators of thousands and an exponent. `part` lies within
/// `line`. Bytes before `from` don't belong to it, nor what stands beyond one of `separators` (of ",:-_.'")
/// at its ends.
WrittenTime written_number(std::string_view line, std::string_view part, size_t from = 0,
                           std::string_view separators = {});

/// The duration in several units that `part` belongs to: "1 h 4 min", "4m59s", "2 minutes and 55 seconds".
/// Nothing where there is but one unit.
std::optional<WrittenTime> written_duration(std::string_view line, std::string_view part);

/// A finite number as std::from_chars reads it, with nothing behind it.
std::optional<double> number_of(std::string_view text);

/// Without separators of thousands: "1234.5" of "1,234.5" and "1_234.5". Nothing where a separator doesn't
/// stand before three digits each time, as in "2,25", or the first group is 0.
std::optional<std::string> plain_number(std::string_view text);

}  // namespace isochron::apps
