#include "isochron/apps/analyze/iteration_times.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "isochron/apps/analyze/elapsed_times.h"
#include "isochron/apps/analyze/log_formats.h"
#include "isochron/apps/analyze/log_reader.h"
#include "isochron/apps/analyze/time_sources.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/input_stream.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr uint64_t kLargestInput = uint64_t{1} << 36;  // bytes, after decompression
constexpr size_t kBuffer = size_t{1} << 16;
constexpr size_t kNamesShown = 8;

std::filesystem::path opened(const std::filesystem::path& path) { return path == "-" ? "/dev/stdin" : path; }

/// Whether a line belongs to a log in a known format. Only the part before a carriage return is checked.
bool is_of_log(std::string_view line) {
  return !LogMatcher("").match(line.substr(0, line.find('\r'))).empty();
}

/// Whether text begins like a table: the first two lines have the same number of fields, and one field of the
/// second line is a number. If the first line is longer than the buffer, only its separators can be checked.
/// The semicolons of escape sequences separate nothing.
bool looks_like_table(std::string_view begin) {
  std::string printed(begin);
  remove_escapes(printed);
  const std::string_view text = printed;
  const size_t first_end = text.find('\n');
  const std::string_view first = text.substr(0, first_end);
  const char separator = separator_of(first);
  const auto separators = [separator](std::string_view line) { return std::ranges::count(line, separator); };
  if (first_end == std::string_view::npos)
    return whole_field_number(text) || (begin.size() >= kBuffer && separators(text) > 0 &&
                                        text.find('\r') == std::string_view::npos && !is_of_log(text));
  const std::string_view rest = text.substr(first_end + 1);
  std::string_view second = rest.substr(0, rest.find('\n'));
  if (trimmed(second).empty()) return whole_field_number(first).has_value();
  if (separators(first) != separators(second) || is_of_log(second)) return false;
  for (size_t end = 0; end != std::string_view::npos; second.remove_prefix(end + 1)) {
    end = second.find(separator);
    if (whole_field_number(second.substr(0, end))) return true;
    if (end == std::string_view::npos) break;
  }
  return false;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<double> whole_field_number(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

char separator_of(std::string_view line) {
  constexpr std::string_view kSeparators = ",;\t";
  return *std::ranges::max_element(kSeparators, {}, [&](char c) { return std::ranges::count(line, c); });
}

TimeUnit chosen_unit(const TimesOptions& options, const std::optional<TimeUnit>& found,
                     const std::string& where) {
  if (!options.unit.empty()) {
    const std::optional<TimeUnit> asked = time_unit(options.unit);
    require(asked.has_value(), ErrorCode::kInvalidArgument, "--unit", "'{}' is not a unit",
            quotation(options.unit));
    return *asked;
  }
  require(found.has_value(), ErrorCode::kInvalidArgument, where,
          "the unit of the times is unknown; give --unit ns, us, ms, s or min, or it/s for a rate");
  return *found;
}

double time_ns(std::string_view text, const TimeUnit& unit, const std::string& where) {
  text = trimmed(text);
  require(!text.empty(), ErrorCode::kBadFormat, where, "no value, expected a time");
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && rest == text.data() + text.size(), ErrorCode::kBadFormat, where,
          "'{}' is {}", quotation(text),
          error == std::errc::result_out_of_range ? "out of range" : "not a number");
  require(value > 0, ErrorCode::kBadFormat, where, "expected a {} above 0, got {}",
          unit.rate ? "rate" : "time", value);
  const double ns = unit.time_ns(value);
  // Together they must stay below 2^62 ns, which is 146 years.
  require(ns > 0 && ns < 0x1p62, ErrorCode::kBadFormat, where,
          "expected a time of less than 146 years, got '{}'", quotation(text));
  return ns;
}

std::string names_text(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) shown.push_back(quotation(names[i], 40));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      names.size() > kNamesShown ? fmt::format(" and {} more", names.size() - kNamesShown) : "");
}

size_t chosen_phase(const TimesOptions& options, const std::vector<std::string>& names, size_t main) {
  if (options.phase.empty()) return main;
  const auto found = std::ranges::find(names, options.phase);
  require(found != names.end(), ErrorCode::kInvalidArgument, "--phase", "no phase '{}'; the phases are: {}",
          quotation(options.phase), names_text(names));
  return static_cast<size_t>(found - names.begin());
}

std::string name_of(const std::filesystem::path& path) {
  return path == "-" ? std::string("standard input") : path.string();
}

namespace {

/// The times as they are written.
IterationTimes written_times(const TimesOptions& options) {
  using std::chrono_literals::operator""ms;
  InputStream stream(opened(options.path),
                     {.limit_bytes = kLargestInput, .buffer_bytes = kBuffer, .patience = -1ms});  // as `cat`
  const auto begin = stream.peek_lines(2);
  refuse_wide_text(begin, name_of(options.path));
  require(std::ranges::find(begin, std::byte{0}) == begin.end(), ErrorCode::kBadFormat, name_of(options.path),
          "contains zero bytes, so it is not text; expected text in UTF-8");
  if (!options.pattern.empty()) return times_of_pattern(stream, options);
  const bool table = !options.column.empty() || !options.work.empty() || !options.rank.empty() ||
                     !options.phase_column.empty() || begin.empty();
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (table || (options.format.empty() && looks_like_table(text))) return times_of_table(stream, options);
  return times_of_log(stream, options);
}

}  // namespace

IterationTimes read_times(const TimesOptions& options) {
  IterationTimes times = written_times(options);
  const std::string where = name_of(options.path);
  if (options.elapsed.value_or(false)) {
    take_differences(times, where);
  } else if (!options.elapsed) {
    const auto elapsed =
        std::ranges::find_if(times.series, [](const TimeSeries& one) { return look_elapsed(one.ns); });
    require(elapsed == times.series.end(), ErrorCode::kInvalidArgument, where,
            "the times never fall and rise by about the same amount each, as those of a clock do; --elapsed "
            "judges the differences between neighbors, --no-elapsed the times as they are");
  }
  return times;
}

}  // namespace isochron::apps
