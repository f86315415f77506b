#include "isochron/apps/analyze/logs/time_pattern.h"

#include <re2/re2.h>

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {

namespace {

/// The beginning and the end of the first capturing group.
std::pair<size_t, size_t> first_group(std::string_view pattern) {
  size_t begin = pattern.size();
  int depth = 0;
  bool set = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    if (rest[0] == '\\') {
      ++at;
      continue;
    }
    if (rest[0] == (set ? ']' : '[')) set = !set;
    if (set) continue;
    const bool captures = rest[0] == '(' && (!rest.starts_with("(?") || rest.starts_with("(?P<"));
    if (begin == pattern.size() && captures) begin = at;
    if (begin == pattern.size()) continue;
    depth += rest[0] == '(' ? 1 : rest[0] == ')' ? -1 : 0;
    if (depth == 0) return {begin, at};
  }
  return {begin, pattern.size()};
}

constexpr std::string_view kSeparators = ",:-_'.";

/// The characters of kSeparators that the last item of a pattern matches: a character, "\." or "[,;]".
std::string_view last_item(std::string_view before) {
  if (before.ends_with("\\]")) return {};
  if (before.ends_with(']')) return before.substr(std::min(before.rfind('['), before.size()));
  if (before.ends_with("\\.")) return ".";
  return before.ends_with('.') ? std::string_view()
                               : before.substr(before.size() - std::min<size_t>(1, before.size()));
}
/// The same for the first item of a pattern.
std::string_view first_item(std::string_view behind) {
  if (behind.starts_with('[')) return behind.substr(0, behind.find(']'));
  if (behind.starts_with("\\.")) return ".";
  return behind.starts_with('.') ? std::string_view() : behind.substr(0, 1);
}

/// The separators that a pattern has next to its first group.
std::string separators_of(std::string_view pattern) {
  const auto [begin, end] = first_group(pattern);
  std::string_view before = pattern.substr(0, begin);
  for (const std::string_view blanks : {"\\s*", "\\s?", " *", " ?"}) {
    if (before.ends_with(blanks)) before.remove_suffix(blanks.size());
  }
  std::string found(last_item(before));
  if (end + 1 < pattern.size()) found += first_item(pattern.substr(end + 1));
  std::erase_if(found, [](char c) { return kSeparators.find(c) == std::string_view::npos; });
  return found;
}

}  // namespace

struct TimePattern::Expression {
  explicit Expression(const std::string& text) : re(text, options()), separators(separators_of(text)) {}

  static RE2::Options options() {
    constexpr int64_t kMaxMemory = int64_t{16} << 20;
    RE2::Options chosen;
    chosen.set_log_errors(false);  // they are thrown
    chosen.set_max_mem(kMaxMemory);
    return chosen;
  }

  RE2 re;
  std::string separators;
};

TimePattern::TimePattern(const std::string& text) : expression_(std::make_unique<Expression>(text)) {
  const RE2& re = expression_->re;
  require(re.ok(), ErrorCode::kInvalidArgument, "--pattern", "'{}' is not a valid regular expression: {}",
          quotation(text), quotation(re.error()));
  require(re.NumberOfCapturingGroups() > 0, ErrorCode::kInvalidArgument, "--pattern",
          "'{}' has no group in parentheses for the time", quotation(text));
}

TimePattern::~TimePattern() = default;

std::optional<TimePattern::Found> TimePattern::find_last(std::string_view line,
                                                         const std::string& where) const {
  const RE2& re = expression_->re;
  const re2::StringPiece text(line.data(), line.size());
  const int wanted = 1 + std::min(re.NumberOfCapturingGroups(), 2);
  const auto view = [](re2::StringPiece piece) { return std::string_view(piece.data(), piece.size()); };
  std::string_view number, unit;
  int matches = 0;
  re2::StringPiece groups[3];
  for (size_t at = 0;
       at <= line.size() && re.Match(text, at, line.size(), RE2::UNANCHORED, groups, wanted);) {
    require(++matches <= kMaxMatches, ErrorCode::kBadFormat, where,
            "the pattern matches more than {} times in one line; make it more specific", kMaxMatches);
    number = view(groups[1]);
    unit = view(groups[2]);
    const auto end = static_cast<size_t>(groups[0].data() - line.data()) + groups[0].size();
    at = std::max(end, at + 1);
  }
  if (matches == 0) return std::nullopt;
  Found found{.time = {.text = number}, .unit = unit, .behind_number = {}};
  if (number.data() == nullptr) return found;
  const auto clock = clock_duration(number);
  const auto duration = written_duration(line, number);
  found.time = clock ? *clock
               : duration && !duration->may_be_list
                   ? *duration
                   : written_number(line, number, 0, expression_->separators);
  const std::string_view whole = found.time.text;
  found.behind_number = line.substr(static_cast<size_t>(whole.data() - line.data()) + whole.size());
  return found;
}

}  // namespace isochron::apps
