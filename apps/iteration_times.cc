#include "isochron/apps/iteration_times.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "isochron/core/error.h"
#include "isochron/core/input_stream.h"
#include "isochron/core/terminal_text.h"
#include "isochron/data/csv_scanner.h"
#include "isochron/data/text_lines.h"

namespace isochron::apps {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr int64_t kLargestInput = int64_t{1} << 36;  // bytes, after decompression
constexpr int64_t kPatternMemory = int64_t{16} << 20;
constexpr size_t kNamesShown = 8;

std::filesystem::path opened(const std::filesystem::path& path) { return path == "-" ? "/dev/stdin" : path; }

/// The unit of a column called "step_ms", "time (s)" or "seconds".
std::optional<double> unit_of_name(std::string_view name) {
  while (!name.empty() && (name.back() == ')' || name.back() == ' ' || name.back() == ']'))
    name.remove_suffix(1);
  const size_t before = name.find_last_of("_ ([-/");
  return unit_ns(before == std::string_view::npos ? name : name.substr(before + 1));
}

double chosen_unit(const TimesOptions& options, std::optional<double> found, const std::string& where) {
  if (!options.unit.empty()) {
    const std::optional<double> asked = unit_ns(options.unit);
    require(asked.has_value(), ErrorCode::kInvalidArgument, "--unit", "'{}' is no unit",
            quotation(options.unit));
    return *asked;
  }
  require(found.has_value(), ErrorCode::kInvalidArgument, where,
          "nothing says in which unit the times are; give --unit ns, us, ms, s or min");
  return *found;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool begins_as_number(std::string_view field) {
  double value = 0;
  const std::string_view text = trimmed(field);
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
}

/// In ns, of a time that the file gives in units of `unit` ns.
double time_ns(std::string_view text, double unit, const std::string& where) {
  text = trimmed(text);
  require(!text.empty(), ErrorCode::kBadFormat, where, "no value, expected a time");
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && rest == text.data() + text.size(), ErrorCode::kBadFormat, where,
          "'{}' is no number{}", quotation(text),
          error == std::errc::result_out_of_range ? " that can be held" : "");
  require(value > 0, ErrorCode::kBadFormat, where, "expected a time above 0, got {}", value);
  // Together they must stay below 2^62 ns, which is 146 years.
  require(value * unit < 0x1p62, ErrorCode::kBadFormat, where,
          "expected a time of less than 146 years, got '{}'", quotation(text));
  return value * unit;
}

void add(std::vector<double>& times, double ns, const TimesOptions& options) {
  require(times.size() < options.most_times, ErrorCode::kBadFormat, name_of(options.path),
          "has more than {} times; give a part of them", options.most_times);
  times.push_back(ns);
}

/// Text of two bytes a character begins with a mark, or has zeroes where Latin letters and digits are.
void require_text(std::span<const std::byte> begin, const std::string& where) {
  const auto starts = [&](std::initializer_list<uint8_t> mark) {
    return begin.size() >= mark.size() &&
           std::equal(mark.begin(), mark.end(), begin.begin(),
                      [](uint8_t a, std::byte b) { return std::byte{a} == b; });
  };
  require(!starts({0xff, 0xfe}) && !starts({0xfe, 0xff}), ErrorCode::kBadFormat, where,
          "is text in UTF-16; expected UTF-8, which `iconv -f UTF-16 -t UTF-8` makes of it");
  const auto zeroes = static_cast<size_t>(std::ranges::count(begin, std::byte{0}));
  require(zeroes == 0, ErrorCode::kBadFormat, where, "{}; expected text in UTF-8",
          3 * zeroes > begin.size() && 3 * zeroes < 2 * begin.size()
              ? "looks like text in UTF-16 without its mark, which `iconv -f UTF-16LE -t UTF-8` may read"
              : "holds zeroes, and so is no text");
}

/// What the first line has most of, in front of the others; a comma where it has none.
char separator_of(std::string_view line) {
  constexpr std::string_view kSeparators = ",;\t";
  return *std::ranges::max_element(kSeparators, {}, [&](char c) { return std::ranges::count(line, c); });
}

/// The columns' names, or their numbers, as far as they fit a message.
std::string names_text(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) shown.push_back(quotation(names[i], 40));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      names.size() > kNamesShown ? fmt::format(" and {} more", names.size() - kNamesShown) : "");
}

std::vector<std::string> fields_of(const data::CsvScanner& rows) {
  std::vector<std::string> fields;
  for (size_t i = 0; i < rows.fields(); ++i) fields.emplace_back(trimmed(rows.field(i)));
  return fields;
}

/// The number of the column that is named, or of the only one. `first`: the first row.
size_t chosen_column(const TimesOptions& options, const std::vector<std::string>& first, bool header) {
  const std::string where = name_of(options.path);
  if (options.column.empty()) {
    require(first.size() == 1, ErrorCode::kInvalidArgument, where,
            "has several columns ({}); say which holds the times with --column", names_text(first));
    return 0;
  }
  if (header) {
    const auto found = std::ranges::find(first, options.column);
    require(found != first.end(), ErrorCode::kBadFormat, where, "no column '{}'; the columns are: {}",
            quotation(options.column), names_text(first));
    require(std::ranges::count(first, options.column) == 1, ErrorCode::kBadFormat, where,
            "two columns are called '{}'", quotation(options.column));
    return static_cast<size_t>(found - first.begin());
  }
  size_t column = 0;
  const char* end = options.column.data() + options.column.size();
  const auto [stop, status] = std::from_chars(options.column.data(), end, column);
  require(status == std::errc() && stop == end && column < first.size(), ErrorCode::kBadFormat, where,
          "no column '{}'; without a header they are 0 to {}", quotation(options.column), first.size() - 1);
  return column;
}

/// A table's column of times: the one named, or the only one.
std::vector<double> times_of_table(const TimesOptions& options) {
  const std::string where = name_of(options.path);
  InputStream stream(opened(options.path), {.limit_bytes = kLargestInput});
  const auto begin = stream.peek_line();
  require_text(begin, where);
  std::string_view line(reinterpret_cast<const char*>(begin.data()), begin.size());
  line = line.substr(0, line.find('\n'));
  if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  const char separator = separator_of(line);
  data::CsvScanner rows(stream, separator, kLongestLine);
  require(rows.next_row(), ErrorCode::kBadFormat, where, "has no row of data");
  const std::vector<std::string> first = fields_of(rows);
  const bool header = !begins_as_number(first[0]);
  const size_t column = chosen_column(options, first, header);
  const double unit = chosen_unit(options, header ? unit_of_name(first[column]) : std::nullopt, where);
  std::vector<double> times;
  for (bool there = header ? rows.next_row() : true; there; there = rows.next_row()) {
    const std::string row = fmt::format("{}, line {}", where, rows.line());
    require(rows.fields() == first.size(), ErrorCode::kBadFormat, row, "expected {} columns, got {}",
            first.size(), rows.fields());
    add(times, time_ns(rows.field(column), unit, row), options);
  }
  require(!times.empty(), ErrorCode::kBadFormat, where, "has no row of data");
  return times;
}

/// A time from each line of a log in which the pattern is found: its first group, in the unit of its second.
std::vector<double> times_of_log(const TimesOptions& options) {
  const TimePattern pattern(options.pattern);
  const std::string where = name_of(options.path);
  data::TextLineReader lines(opened(options.path), {.max_line_bytes = kLongestLine});
  std::vector<double> times;
  for (std::string line; lines.next(line);) {
    if (lines.position().lines == 1) require_text(std::as_bytes(std::span(line)), where);
    const auto found = pattern.find(line);
    if (!found) continue;
    const std::string row = fmt::format("{}, line {}", where, lines.position().lines);
    // Not a number before no unit: where the group isn't the time, that is what is wrong.
    static_cast<void>(time_ns(found->number, 1, row));
    add(times, time_ns(found->number, chosen_unit(options, unit_ns(found->unit), row), row), options);
  }
  require(!times.empty(), ErrorCode::kBadFormat, where, "the pattern '{}' is in none of {} lines",
          quotation(options.pattern), lines.position().lines);
  return times;
}

}  // namespace

std::optional<double> unit_ns(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1},  {"us", 1e3},  {"\u00b5s", 1e3}, {"\u03bcs", 1e3}, {"ms", 1e6},
      {"s", 1e9}, {"sec", 1e9}, {"seconds", 1e9}, {"min", 60e9}};
  for (const auto& [name, ns] : kUnits) {
    if (unit == name) return ns;
  }
  return std::nullopt;
}

std::string name_of(const std::filesystem::path& path) {
  return path == "-" ? std::string("standard input") : path.string();
}

std::vector<double> read_times(const TimesOptions& options) {
  return options.pattern.empty() ? times_of_table(options) : times_of_log(options);
}

struct TimePattern::Expression {
  explicit Expression(const std::string& text) : re(text, options()) {}

  static RE2::Options options() {
    RE2::Options chosen;
    chosen.set_log_errors(false);  // they are thrown
    chosen.set_max_mem(kPatternMemory);
    return chosen;
  }

  RE2 re;
};

TimePattern::TimePattern(const std::string& text) : expression_(std::make_unique<Expression>(text)) {
  const RE2& re = expression_->re;
  require(re.ok(), ErrorCode::kInvalidArgument, "--pattern", "'{}' is no regular expression: {}",
          quotation(text), quotation(re.error()));
  require(re.NumberOfCapturingGroups() > 0, ErrorCode::kInvalidArgument, "--pattern",
          "'{}' has no group in round brackets for the time", quotation(text));
}

TimePattern::~TimePattern() = default;

std::optional<TimePattern::Found> TimePattern::find(std::string_view line) const {
  const RE2& re = expression_->re;
  re2::StringPiece groups[3];
  const int wanted = 1 + std::min(re.NumberOfCapturingGroups(), 2);
  if (!re.Match(re2::StringPiece(line.data(), line.size()), 0, line.size(), RE2::UNANCHORED, groups, wanted))
    return std::nullopt;
  const auto text = [](re2::StringPiece piece) { return std::string_view(piece.data(), piece.size()); };
  return Found{text(groups[1]), text(groups[2])};
}

}  // namespace isochron::apps
