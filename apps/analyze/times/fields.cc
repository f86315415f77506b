#include "isochron/apps/analyze/times/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr size_t kNamesShown = 8;

}  // namespace

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

std::optional<TimeUnit> unit_of_column(const std::vector<std::string>& names, const std::string& name) {
  const std::string lower = in_lower_case(name);
  const std::string front = lower.substr(0, lower.size() - std::min<size_t>(3, lower.size()));
  const bool several = lower.ends_with("_min") && std::ranges::any_of(names, [&](const std::string& other) {
                         const std::string what = in_lower_case(other);
                         return what == front + "max" || what == front + "mean" || what == front + "avg" ||
                                what == front + "median";
                       });
  return several ? std::nullopt : time_unit_of_name(name);
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

double time_ns(std::string_view text, const TimeUnit& unit, const std::string& where, bool since_start) {
  text = trimmed(text);
  require(!text.empty(), ErrorCode::kBadFormat, where, "no value, expected a time");
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && rest == text.data() + text.size(), ErrorCode::kBadFormat, where,
          "'{}' is {}", quotation(text),
          error == std::errc::result_out_of_range ? "out of range" : "not a number");
  const bool zero = since_start && value == 0 && !unit.rate;
  require(value > 0 || zero, ErrorCode::kBadFormat, where, "expected a {} above 0, got {}",
          unit.rate ? "rate" : "time", value);
  const double ns = unit.time_ns(value);
  // Together they must stay below 2^62 ns, which is 146 years.
  require((ns > 0 || zero) && ns < 0x1p62, ErrorCode::kBadFormat, where,
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

}  // namespace isochron::apps
