// Units that tables and logs give times in: of a time ("ms", "s/it"), or of a rate ("it/s", "images/sec").
#pragma once

#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct TimeUnit {
  double ns = 1;          // the unit of time
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

/// The value of 1 in the last digit of a written number, relative to the number: 0.04 for "2.5". 0 if that is
/// unknown, as for "1e3".
double written_resolution(std::string_view number);

/// What the last digits of a series of times are worth. Programs that leave out zeros at the end write 0.5
/// for 0.50, so among numbers in one unit the one with the most digits decides.
class LastDigits {
 public:
  /// A time whose last digit is worth the share `relative` of it; 0: unknown. `unit`: any number, equal for
  /// numbers that were written in the same unit.
  void add(double relative, double ns, double unit = 1);
  void add(const LastDigits& other);
  /// In the unit that most numbers have; 0: unknown.
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
/// Letters, and bytes of letters beyond ASCII.
inline bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || byte >= 0x80;
}

}  // namespace isochron::apps
