#include "isochron/apps/analyze/log_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "isochron/apps/analyze/time_units.h"
#include "isochron/apps/analyze/written_times.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr size_t kLongestLabel = 200;  // bytes that are used

double scale_of(char suffix) {
  switch (suffix) {
    case 'k':
      return 1e3;
    case 'M':
      return 1e6;
    case 'G':
      return 1e9;
    case 'T':
      return 1e12;
    default:
      return 1;
  }
}

/// "32", "1,234", or "1.14M" as tqdm scales units.
double count_of(std::string_view text) {
  if (text.empty()) return -1;
  const double scale = scale_of(text.back());
  if (scale != 1) text.remove_suffix(1);
  const std::optional<double> count = number_of(plain_number(text).value_or(""));
  return count.value_or(-1 / scale) * scale;
}

/// The words of a label without numbers and punctuation: "Epoch 3/10, lr 1e-3" becomes "Epoch lr".
std::string words_of(std::string_view label) {
  static const RE2 numbers(R"([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b))");
  std::string text(label.substr(0, kLongestLabel));
  RE2::GlobalReplace(&text, numbers, " ");
  std::string words;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte) || byte >= 0x80 || c == '_')
      words += c;
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

int64_t first_number(std::string_view label) {
  const size_t begin = std::min(label.find_first_of("0123456789"), label.size());
  static const RE2 counter(R"((\d+(?:[,_]\d{3})*)\b)");
  re2::StringPiece digits;
  if (!RE2::PartialMatch(re2::StringPiece(label.data() + begin, label.size() - begin), counter, &digits))
    return -1;
  const std::string text = plain_number({digits.data(), digits.size()}).value_or("");
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() ? number : -1;
}

bool is_scaled(std::string_view count) { return count.find_first_of(".kMGT") != std::string_view::npos; }

/// Sets the time of one step (or other unit of work) from a number and its unit as written. If tqdm scales a
/// bar's counts, the first letter of the unit belongs to the number.
void read_value(LogMatch& match, const WrittenTime& value, std::string_view unit, bool scaled) {
  constexpr size_t kLongestThing = 40;  // bytes
  const std::optional<double> number = number_of(value.number);
  double scale = 1;
  if (scaled && !unit.empty() && scale_of(unit.front()) != 1) {
    scale = scale_of(unit.front());
    unit.remove_prefix(1);
  }
  const std::optional<TimeUnit> found = time_unit(unit);
  if (!found) return;
  if (match.of.empty()) match.of = found->of.substr(0, kLongestThing);
  if (!value.ns && (!number || *number <= 0)) return;
  const double ns = value.ns ? *value.ns : found->time_ns(*number * scale);
  if (!(ns > 0 && ns < 0x1p62)) return;
  match.ns = ns;
  match.resolution = value.ns ? value.resolution : written_resolution(value.number);
}

/// The time in a line, given the number that an expression found after the step counter (`counter` may be
/// empty). Nothing if counter and value are parts of one number: "step 5.2 it/s".
std::optional<WrittenTime> written_time(std::string_view line, std::string_view value,
                                        std::string_view counter, const LogFormat& format) {
  if (format.free_form) {
    if (auto duration = written_duration(line, value)) return duration;
  }
  if (counter.empty()) return written_number(line, value, 0, format.separators);
  const auto end = static_cast<size_t>(counter.data() - line.data()) + counter.size();
  WrittenTime number = written_number(line, value, end, format.separators);
  // The character between them is a separator then, unless the counter may have ended earlier.
  const bool touch = value.data() == line.data() + end + 1;
  if (!touch) return number;
  const bool grouped = counter.find_first_of(",_") != std::string_view::npos;
  if (line[end] == '.' && !grouped) return std::nullopt;
  if (grouped && (line[end] == '.' || line[end] == ','))
    number.refusal =
        fmt::format("'{}{}{}' may be a step and a time or one number, expected a blank before the time",
                    quotation(counter, 40), line[end], quotation(value, 40));
  return number;
}

}  // namespace

std::span<const LogFormat> log_formats() {
  static const std::vector<LogFormat> formats = {
      {.name = "keras",
       .program = "Keras",
       .expressions =
           {R"((?:^|\s)@done/(?:@total|Unknown)\s.*?\b@value(?P<unit>(?:s|ms|us|ns)/(?P<of>step|sample))\b)",
            R"((?:^|\s)(?P<heading>Epoch @counter)/@counter\s*$)"},
       .averaging = Averaging::kBarSoFar,
       .bar_ends_with_mean = true,
       .note = "Keras counts validation within an epoch as part of its steps"},
      {.name = "lightning",
       .program = "Lightning",
       .expressions =
           {R"(^(?P<label>.*?):?\s+\d+%\|[^|]*\|\s*@done/@total \[[\d:]+<[^,\]]*, *@value@rate[^\]]*\bv_num=)"},
       .averaging = Averaging::kBarSoFar,
       .bar_ends_with_mean = true,
       .separators = ","},
      {.name = "rich",
       .program = "Lightning's rich bar",
       .expressions =
           {R"(^(?P<label>\S.*?)\s+[━╸╺\s]*\s@done/@total\s+\d+:\d\d:\d\d • \S+\s+@value(?P<unit>it/s))"},
       .averaging = Averaging::kRecent,
       .bar_ends_with_mean = true},
      {.name = "tqdm",
       .program = "tqdm",
       .expressions =
           {R"(^(?P<label>.*?):?\s*\d+%(?:\|[^|]*\|)?\s*@done/@total \[[\d:]+<[^,\]]*, *@value@rate)",
            R"(^(?:(?P<label>.*?): )?\s*@done ?[^\d\s/\[]* \[[\d:]+, *@value@rate)"},
       .averaging = Averaging::kRecent,
       .bar_ends_with_mean = true,
       .separators = ","},
      {.name = "imagenet",
       .program = "PyTorch's ImageNet example",
       .expressions = {R"((?:^|\s)(?P<label>\w+: (?:\[\d+\])?)\[\s*@done/@total\].*?\bTime\s+@value\s*\()"},
       .default_unit = "s/iteration"},
      {.name = "torchvision",
       .program = "torchvision's references",
       .expressions = {R"(^(?P<label>.*?)\s*\[\s*@done/@total\]\s.*?\btime: @value\b)"},
       .default_unit = "s/iteration",
       .averaging = Averaging::kRecent},
      {.name = "trainer",
       .program = "Hugging Face's Trainer",
       .expressions = {R"('(?P<label>eval\w*|test\w*|predict\w*)_runtime': '?@value\b)"},
       .default_unit = "s/evaluation"},
      {.name = "megatron",
       .program = "Megatron-LM",
       .expressions =
           {R"(\biteration\s+@counter/\s*@counter \|.*\belapsed time per iteration \((?P<unit>ms|s)\): @value)"}},
      {.name = "lines",
       .program = "lines of a loop",
       .expressions =
           {R"((?i)^(?P<label>.*?\b@thing\b\W{0,8}@count.*?\b(?:time|took|duration|in)\b)\W*?@value\s*@time@end)",
            R"((?i)^(?P<label>.*?\b@thing\b\W{0,8}@count(?:/@counter)?(?:.*?[|,;])?)\W+@value\s*@time(?:/\w+)?@end)",
            R"((?i)^(?P<label>.*?\b@thing\b\W{0,8}@count\b.*?)\b@value\s*@speed@end)"},
       .free_form = true},
  };
  return formats;
}

namespace {

/// An expression with its placeholder words replaced by what they stand for.
std::string spelled_out(std::string_view expression) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"@done", R"((?P<done>\d+(?:,\d{3})*(?:\.\d+)?[kMGT]?))"},
      {"@total", R"((?P<total>\d+(?:,\d{3})*(?:\.\d+)?[kMGT]?))"},
      {"@counter", R"(\d+(?:[,_]\d{3})*)"},
      {"@count", R"((?P<count>\d+(?:[,_]\d{3})*))"},
      {"@value", R"((?P<value>\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?|\?))"},
      {"@rate", R"( ?(?P<unit>[^,\]\s/]*/ ?[^,\]\s]+))"},
      {"@thing", R"((?P<of>epoch|step|iter|iteration|batch))"},
      {"@time", R"((?P<unit>ns|us|µs|ms|msec|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?))"},
      {"@speed", R"((?P<unit>(?:ns|us|µs|ms|s|sec)/(?:epoch|step|it|iter|iteration|batch)|)"
                 R"((?:it|iter|iterations|steps|batches)/s(?:ec)?))"},
      {"@end", R"((?:$|[\s,;|.)\]]))"}};
  std::string text(expression);
  for (const auto& [word, meaning] : kWords) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += meaning.size())
      text.replace(at, word.size(), meaning);
  }
  return text;
}

}  // namespace

/// A compiled expression and the numbers of its groups; 0 for a group that it doesn't have.
struct LogMatcher::Expression {
  enum Group : size_t { kValue, kUnit, kDone, kTotal, kLabel, kHeading, kOf, kCount, kGroups };
  static constexpr std::string_view kNames[kGroups] = {"value", "unit",    "done", "total",
                                                       "label", "heading", "of",   "count"};
  static constexpr size_t kMostGroups = 12;

  Expression(std::string_view text, size_t format_index)
      : re(spelled_out(text), RE2::Quiet), format(format_index) {
    require(re.ok() && static_cast<size_t>(re.NumberOfCapturingGroups()) < kMostGroups,
            ErrorCode::kInvalidArgument, "log format", "'{}': {}", text, re.error());
    for (size_t i = 0; i < kGroups; ++i) {
      const auto found = re.NamedCapturingGroups().find(std::string(kNames[i]));
      if (found != re.NamedCapturingGroups().end()) numbers[i] = static_cast<size_t>(found->second);
    }
  }

  RE2 re;
  size_t format;
  std::array<size_t, kGroups> numbers{};
};

LogMatcher::LogMatcher(std::string_view format) {
  static const std::vector<std::shared_ptr<const Expression>> all = [] {
    std::vector<std::shared_ptr<const Expression>> compiled;
    for (size_t i = 0; i < log_formats().size(); ++i) {
      for (const std::string_view text : log_formats()[i].expressions)
        compiled.push_back(std::make_shared<Expression>(text, i));
    }
    return compiled;
  }();
  std::ranges::copy_if(all, std::back_inserter(expressions_), [format](const auto& expression) {
    return format.empty() || log_formats()[expression->format].name == format;
  });
  std::vector<std::string_view> names;
  for (const LogFormat& one : log_formats()) names.push_back(one.name);
  require(!expressions_.empty(), ErrorCode::kInvalidArgument, "--format",
          "there is no format '{}'; formats are {}", quotation(format), fmt::join(names, ", "));
}

std::optional<LogMatch> LogMatcher::match(std::string_view line) const {
  using Group = Expression::Group;
  std::array<re2::StringPiece, Expression::kMostGroups> pieces;
  const re2::StringPiece whole(line.data(), line.size());
  const auto found = std::ranges::find_if(expressions_, [&](const auto& expression) {
    const int count = expression->re.NumberOfCapturingGroups() + 1;
    return expression->re.Match(whole, 0, line.size(), RE2::UNANCHORED, pieces.data(), count);
  });
  if (found == expressions_.end()) return std::nullopt;
  const auto text = [&](Group group) -> std::string_view {
    const size_t number = (*found)->numbers[group];
    return number == 0 ? std::string_view() : std::string_view(pieces[number].data(), pieces[number].size());
  };
  LogMatch match{.format = (*found)->format};
  match.heading = !text(Group::kHeading).empty();
  const std::string_view label = text(match.heading ? Group::kHeading : Group::kLabel);
  match.label = words_of(label);
  match.number = first_number(label);
  if (match.heading) return match;
  match.of = text(Group::kOf);
  match.done = count_of(text(Group::kDone));
  match.total = count_of(text(Group::kTotal));
  const LogFormat& format = log_formats()[match.format];
  const auto time = written_time(line, text(Group::kValue), text(Group::kCount), format);
  if (!time) return std::nullopt;
  match.refusal = time->refusal;
  const bool scaled = is_scaled(text(Group::kDone)) || is_scaled(text(Group::kTotal));
  const std::string_view unit = text(Group::kUnit);
  read_value(match, *time, unit.empty() ? format.default_unit : unit, scaled);
  return match;
}

}  // namespace isochron::apps
