// Units that tables and logs give times in: of a time ("ms", "s/it"), or of a rate ("it/s", "images/sec").
#pragma once

#include <cctype>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct TimeUnit {
  double ns = 1;          // the unit of time
  bool rate = false;      // numbers say how many there are in one of it
  std::string_view of{};  // what is timed or counted: "it", "step"; empty: not said

  /// The time of one, in ns; infinite for a rate of 0.
  double time_ns(double number) const { return rate ? ns / number : number * ns; }
};

/// "ms", "seconds", "ms/step", "it/s"; nothing for what names no unit of time. `of` lies within `text`.
std::optional<TimeUnit> time_unit(std::string_view text);

/// The unit that a column's name ends with, or has in the middle: "step_ms", "time (s)", "seconds", "it/s",
/// "samples_per_second", "ms_per_step".
std::optional<TimeUnit> time_unit_of_name(const std::string& name);

/// What one is worth in the last digit of a number as it is written, relative to the number: of "2.5" 0.04. 0
/// where that can't be told, as of "1e3".
double written_resolution(std::string_view number);

/// Whether `text` begins as a rate does behind its number: "it/s, loss=0.1", " images/sec".
bool begins_as_rate(std::string_view text);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Letters, and bytes of letters beyond ASCII.
inline bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || byte >= 0x80;
}

}  // namespace isochron::apps
