#include "isochron/apps/analyze/times/written_times.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "isochron/apps/analyze/times/time_units.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr size_t kShown = 40;  // maximum bytes of a quotation in a message
constexpr std::string_view kMinus = "\u2212";

/// Whether the character before `at` belongs to a word or is a dot or dash.
bool is_of_word(std::string_view line, size_t at) {
  if (at == 0) return false;
  const char before = line[at - 1];
  return std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_' || before == '.' ||
         before == '-';
}

bool closes_bracket(std::string_view line, size_t at) {
  return at > 0 && (line[at - 1] == ']' || line[at - 1] == ')');
}

/// The beginning and end of a number within a line.
struct Extent {
  std::string_view line;
  size_t begin, end;
  std::string_view between;  // characters that may separate its digits

  bool digit(size_t at) const { return at < line.size() && is_digit(line[at]); }
  bool one_of(size_t at, std::string_view bytes) const {
    return at < line.size() && bytes.find(line[at]) != std::string_view::npos;
  }
  std::string_view text() const { return line.substr(begin, end - begin); }
};

constexpr std::string_view kBetweenDigits = ".,";
constexpr std::string_view kBetweenThousands = ".,_'";  // these also occur in names: bench_20_0.5

/// Moves `begin` back by one byte or by an exponent's "e-"; false at the beginning of the number.
bool go_back(Extent& number, size_t from) {
  const size_t at = number.begin;
  if (at == from) return false;
  const size_t room = at - from;
  size_t step = 0;
  if (number.digit(at - 1))
    step = 1;
  else if (room > 1 && (number.one_of(at - 1, number.between) || number.one_of(at - 1, "eE")) &&
           number.digit(at - 2))
    step = 1;
  else if (room > 2 && number.one_of(at - 1, "+-") && number.one_of(at - 2, "eE") && number.digit(at - 3))
    step = 2;
  else if (number.line[at - 1] == '.' && number.digit(at) && !is_of_word(number.line, at - 1))
    step = 1;  // ".5"
  number.begin -= step;
  return step > 0;
}

bool go_on(Extent& number) {
  const size_t at = number.end;
  size_t step = 0;
  if (number.digit(at))
    step = 1;
  else if (number.one_of(at, number.between) && number.digit(at + 1))
    step = 1;
  else if (number.one_of(at, "eE"))
    step = number.digit(at + 1) ? 1 : number.one_of(at + 1, "+-") && number.digit(at + 2) ? 2 : 0;
  number.end += step;
  return step > 0;
}

/// Whether a minus sign precedes the number. A hyphen in a word, a dash between numbers or after a bracket,
/// and several dashes aren't signs.
bool has_minus(std::string_view line, size_t begin, size_t from) {
  const std::string_view before = line.substr(0, begin);
  if (before.ends_with(kMinus)) return true;
  if (!before.ends_with('-') || (from > 0 && begin - 1 == from)) return false;
  return !is_of_word(line, begin - 1) && !closes_bracket(line, begin - 1);
}

/// Whether the number is the last part of a time as on a clock: "1:02:40", "1:30", but not "100:25" or
/// "1/10:30".
bool ends_clock(const Extent& number, size_t from) {
  const std::string_view text = number.text();
  const bool two_digits =
      text.size() >= 2 && is_digit(text[0]) && is_digit(text[1]) && (text.size() == 2 || !is_digit(text[2]));
  if (!two_digits || number.begin < from + 2 || number.line[number.begin - 1] != ':') return false;
  size_t begin = number.begin - 1;
  while (begin > from && is_digit(number.line[begin - 1])) --begin;
  const size_t digits = number.begin - 1 - begin;
  return (digits == 1 || digits == 2) && (begin == from || number.line[begin - 1] != '/');
}

/// Why the value of a number is ambiguous or invalid; empty if it is neither.
std::string refusal_of(const Extent& number, size_t from, std::string_view separators, bool plain) {
  const auto separates = [&](char c) { return separators.find(c) != std::string_view::npos; };
  if (!separates('-') && has_minus(number.line, number.begin, from))
    return fmt::format(
        "expected a number above 0, got -{}; if the dash is not a minus sign, put a space between it and the "
        "number",
        quotation(number.text(), kShown));
  if (!separates(':') && ends_clock(number, from)) {
    size_t begin = number.begin;
    while (begin > from && (is_digit(number.line[begin - 1]) || number.line[begin - 1] == ':')) --begin;
    return fmt::format("'{}' is written as on a clock; expected a number with a unit, such as '62 s'",
                       quotation(number.line.substr(begin, number.end - begin), kShown));
  }
  if (plain) return {};
  return fmt::format(
      "'{}' isn't clearly one number; expected a decimal point, and commas only before groups of three "
      "digits (1,234.5); if the comma separates values, include it in a --pattern: ',([0-9.]+) (ms)'",
      quotation(number.text(), kShown));
}

double ns_of_unit(char first_letter) {
  const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(first_letter)));
  return letter == 'h' ? 3600e9 : letter == 'm' ? 60e9 : 1e9;
}

/// Durations in hours, minutes and seconds: two or three numbers, the first of them whole. "1s 250ms" doesn't
/// match, because Keras writes two times that way. Single letters are lowercase: "5M" means millions.
constexpr std::string_view kDuration =
    R"(\b(\d+)\s*(h|m|(?i:hr|hrs|hours?|mins?|minutes?))(\s*(?:,?\s*\b(?i:and)\b|,)?\s*))"
    R"((\d+(?:\.\d+)?)\s*(m|s|(?i:mins?|minutes?|secs?|seconds?))\b)"
    R"((?:(\s*(?:,?\s*\b(?i:and)\b|,)?\s*)(\d+(?:\.\d+)?)\s*(s|(?i:secs?|seconds?))\b)?)";
enum DurationGroup : size_t {
  kAll,
  kFirst,
  kFirstUnit,
  kThen,
  kSecond,
  kSecondUnit,
  kLast,
  kThird,
  kThirdUnit,
  kGroups
};
using DurationGroups = std::array<std::string_view, kGroups>;

/// The groups of the duration that covers `part`.
std::optional<DurationGroups> duration_around(std::string_view line, std::string_view part) {
  static const RE2 expression{re2::StringPiece(kDuration.data(), kDuration.size())};
  const re2::StringPiece text(line.data(), line.size());
  std::array<re2::StringPiece, kGroups> pieces;
  for (size_t at = 0; expression.Match(text, at, line.size(), RE2::UNANCHORED, pieces.data(), kGroups);) {
    const char* const end = pieces[kAll].data() + pieces[kAll].size();
    if (pieces[kAll].data() > part.data()) return std::nullopt;
    if (end >= part.data() + part.size()) {
      DurationGroups groups;
      for (size_t i = 0; i < kGroups; ++i) groups[i] = {pieces[i].data(), pieces[i].size()};
      return groups;
    }
    at = static_cast<size_t>(end - line.data());
  }
  return std::nullopt;
}

/// Sets the sum of the parts and the value of the last digit. False if a part is longer than one unit
/// of the part before it, or if the sum is 0.
bool add_up(const DurationGroups& groups, double first, WrittenTime& time) {
  double before = ns_of_unit(groups[kFirstUnit][0]), sum = first * before;
  for (const size_t i : {kSecond, kThird}) {
    if (groups[i].empty()) continue;
    const double unit = ns_of_unit(groups[i + 1][0]), ns = number_of(groups[i]).value_or(0) * unit;
    if (ns > before) return false;  // "4 min 60.0 s", which rounding may produce, is valid
    sum += ns;
    before = unit;
  }
  const std::string_view last = groups[groups[kThird].empty() ? kSecond : kThird];
  const size_t point = std::min(last.find('.'), last.size() - 1);
  time.ns = sum;
  time.unit_ns = before;
  time.resolution = std::pow(10, -static_cast<double>(last.size() - 1 - point)) * before / sum;
  return sum > 0;
}

bool has_long_name(std::string_view unit) {
  static const RE2 words("(?i)hours?|minutes?|seconds?");
  return RE2::FullMatch(re2::StringPiece(unit.data(), unit.size()), words);
}

/// How the parts of a duration are joined.
struct Joints {
  explicit Joints(const DurationGroups& groups) {
    for (const std::string_view joint : {groups[kThen], groups[kLast]}) {
      joined |= joint.find_first_of("dD") != std::string_view::npos;
      comma |= joint.find(',') != std::string_view::npos;
    }
    for (const size_t unit : {kFirstUnit, kSecondUnit, kThirdUnit})
      words &= groups[unit].empty() || has_long_name(groups[unit]);
  }
  /// Only a comma joins the parts, as between the values of a line: "eta 5 min, 0.35 s".
  bool may_be_list() const { return comma && !joined && !words; }
  /// Also looks at the text after the duration: "4 minutes, 30 seconds left", "2 min 5 s/step".
  bool may_be_two(std::string_view behind) const {
    if (joined) return false;
    if (behind.starts_with('/') || may_be_list()) return true;
    const size_t next = behind.find_first_not_of(" \t");
    return comma && next != std::string_view::npos &&
           std::isalpha(static_cast<unsigned char>(behind[next])) != 0;
  }

  bool joined = false;  // by "and"
  bool comma = false;
  bool words = true;
};

}  // namespace

WrittenTime written_number(std::string_view line, std::string_view part, size_t from,
                           std::string_view separators) {
  const auto begin = static_cast<size_t>(part.data() - line.data());
  const bool grows = separators.find_first_of(kBetweenThousands) == std::string_view::npos;
  const auto whole = [&](std::string_view between) {
    Extent number{line, begin, begin + part.size(), between};
    if (grows && number.digit(begin)) {
      while (go_back(number, from)) {
      }
    }
    if (grows && !part.empty() && is_digit(part.back())) {
      while (go_on(number)) {
      }
    }
    return number;
  };
  Extent number = whole(kBetweenThousands);
  auto plain = plain_number(number.text());
  if (!plain) {
    number = whole(kBetweenDigits);
    plain = plain_number(number.text());
  }
  WrittenTime time{.text = number.text(), .number = std::string(part)};
  if (!number.digit(begin)) return time;
  time.refusal = refusal_of(number, from, separators, plain.has_value());
  if (plain) time.number = *plain;
  return time;
}

std::optional<WrittenTime> written_duration(std::string_view line, std::string_view part) {
  const auto groups = duration_around(line, part);
  if (!groups) return std::nullopt;
  WrittenTime time{.text = (*groups)[kAll]};
  const WrittenTime first = written_number(line, (*groups)[kFirst]);
  if (first.text != (*groups)[kFirst]) return std::nullopt;  // "2.5 min 30 s" is two times
  const Joints joints(*groups);
  time.refusal = first.refusal;
  time.may_be_list = joints.may_be_list();
  const auto end = static_cast<size_t>(time.text.data() - line.data()) + time.text.size();
  if (!add_up(*groups, number_of(first.number).value_or(0), time) || joints.may_be_two(line.substr(end)))
    time.refusal = fmt::format("'{}' may be one time or two; expected one, such as '4 min 59 s' or '299 s'",
                               quotation(time.text, kShown));
  return time;
}

std::optional<WrittenTime> clock_duration(std::string_view text) {
  static const RE2 expression(R"((?:(\d{1,6}):([0-5]\d)|(\d{1,2})):([0-5]\d(?:\.\d{1,9})?))");
  re2::StringPiece hours, minutes, minutes_alone, seconds;
  if (!RE2::FullMatch(re2::StringPiece(text.data(), text.size()), expression, &hours, &minutes,
                      &minutes_alone, &seconds))
    return std::nullopt;
  const auto number = [](re2::StringPiece digits) {
    return number_of({digits.data(), digits.size()}).value_or(0);
  };
  const double sum =
      (number(hours) * 3600 + (number(minutes) + number(minutes_alone)) * 60 + number(seconds)) * 1e9;
  WrittenTime time{.text = text, .number = "0"};
  if (sum == 0) return time;
  const size_t decimals = seconds.size() > 2 ? seconds.size() - 3 : 0;
  time.ns = sum;
  time.unit_ns = 1e9;
  time.resolution = std::pow(10, -static_cast<double>(decimals)) * 1e9 / sum;
  return time;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::string> plain_number(std::string_view text) {
  static const RE2 grouped(R"([1-9]\d{0,2}(?:(?:,\d{3})+|(?:_\d{3})+|(?:'\d{3})+)(?:\.\d+)?)");
  std::string plain(text);
  if (RE2::FullMatch(plain, grouped)) std::erase_if(plain, [](char c) { return c != '.' && !is_digit(c); });
  if (!number_of(plain)) return std::nullopt;
  return plain;
}

}  // namespace isochron::apps
