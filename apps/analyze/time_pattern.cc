#include "isochron/apps/analyze/time_pattern.h"

#include <re2/re2.h>

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {

struct TimePattern::Expression {
  explicit Expression(const std::string& text) : re(text, options()) {}

  static RE2::Options options() {
    constexpr int64_t kMostMemory = int64_t{16} << 20;
    RE2::Options chosen;
    chosen.set_log_errors(false);  // they are thrown
    chosen.set_max_mem(kMostMemory);
    return chosen;
  }

  RE2 re;
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
  std::optional<Found> last;
  int matches = 0;
  re2::StringPiece groups[3];
  for (size_t at = 0;
       at <= line.size() && re.Match(text, at, line.size(), RE2::UNANCHORED, groups, wanted);) {
    require(++matches <= kMostMatches, ErrorCode::kBadFormat, where,
            "the pattern matches more than {} times in one line; make it more specific", kMostMatches);
    last = Found{view(groups[1]), view(groups[2]), {}};
    if (groups[1].data() != nullptr)
      last->behind_number =
          line.substr(static_cast<size_t>(groups[1].data() - line.data()) + groups[1].size());
    const auto end = static_cast<size_t>(groups[0].data() - line.data()) + groups[0].size();
    at = std::max(end, at + 1);
  }
  return last;
}

}  // namespace isochron::apps
