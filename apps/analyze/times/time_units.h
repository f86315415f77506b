// The units of times ("ms", "s/it") and rates ("it/s", "images/sec") in tables and logs.
#pragma once

#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct TimeUnit {
  double ns = 1;          // the unit of time, in ns
  bool rate = false;      // numbers count things per unit of time
  std::string_view of{};  // what is timed or counted: "it", "step"; empty: not said

  /// The time of one thing, in ns; infinite for a rate of 0.
  double time_ns(double number) const { return rate ? ns / number : number * ns; }
};

/// "ms", "seconds", "ms/step", "it/s"; nothing if `text` names no unit of time. `of` points into `text`.
std::optional<TimeUnit> time_unit(std::string_view text);

/// The unit at the end or in the middle of a column's name: "step_ms", "time (s)", "seconds", "it/s",
/// "samples_per_second", "ms_per_step", "perf/ms_per_step", "step_time/ms". Nothing if it is ambiguous:
/// "tokens_s", "train/ms".
std::optional<TimeUnit> time_unit_of_name(const std::string& name);

/// The value of a 1 in the last digit of a written number, relative to the number: 0.04 for "2.5". 0 if
/// unknown, as for "1e3".
double written_resolution(std::string_view number);

/// Finds the value of the last digit in a series of times. Because programs may leave out trailing zeros (0.5
/// for 0.50), the number with the most digits decides among the numbers in one unit.
class LastDigits {
 public:
  /// Adds a time. `relative` is the value of its last digit relative to the time; 0: unknown. `unit` may be
  /// any number that is the same for times written in the same unit.
  void add(double relative, double ns, double unit = 1);
  void add(const LastDigits& other);
  /// The value of the last digit for the most frequent unit, in ns; 0: unknown.
  double ns() const;

 private:
  struct OfUnit {
    size_t times = 0;
    double least_ns = std::numeric_limits<double>::infinity();
  };
  std::map<double, OfUnit> by_unit_;
};

/// Whether `text` begins like the unit of a rate: "it/s, loss=0.1", " images/sec".
bool begins_as_rate(std::string_view text);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Whether a byte is an ASCII letter or part of a non-ASCII character.
inline bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || byte >= 0x80;
}

}  // namespace isochron::apps
