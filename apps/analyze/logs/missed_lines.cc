#include "isochron/apps/analyze/logs/missed_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "isochron/apps/analyze/times/time_units.h"
#include "isochron/core/base/hash.h"
#include "isochron/core/text/count_text.h"

namespace isochron::apps {
namespace {

/// Hash of the words of a line, without numbers; an exponent, `nan` and `inf` don't count as words.
/// kHashOfNothing if the line has no words.
uint64_t hash_of_words(std::string_view line) {
  constexpr size_t kCounts = 4096;  // bytes of a line
  line = line.substr(0, kCounts);
  uint64_t hash = kHashOfNothing;
  for (size_t begin = 0, end = 0; begin < line.size(); begin = end) {
    end = begin + 1;
    if (!is_letter(line[begin])) continue;
    while (end < line.size() && is_letter(line[end])) ++end;
    const std::string_view word = line.substr(begin, end - begin);
    const bool behind_digit = begin > 0 && is_digit(line[begin - 1]);
    const size_t next = end < line.size() && (line[end] == '-' || line[end] == '+') ? end + 1 : end;
    const bool exponent =
        behind_digit && (word == "e" || word == "E") && next < line.size() && is_digit(line[next]);
    if (exponent || word == "nan" || word == "inf") continue;
    hash = hash_more(hash_more(hash, word), static_cast<unsigned char>(' '));
  }
  return hash;
}

}  // namespace

void MissedLines::add(std::string_view line, int64_t number, bool has_time) {
  const uint64_t words = hash_of_words(line);
  if (words == kHashOfNothing) return;
  if (has_time) {
    if (kinds_with_time_.size() < kMaxKinds) kinds_with_time_.insert(words);
    return;
  }
  if (std::ranges::none_of(line, is_digit)) return;
  if (kinds_without_time_.size() == kMaxKinds && !kinds_without_time_.contains(words)) return;
  Missed& missed = kinds_without_time_[words];
  if (missed.lines++ == 0) missed.first = number;
}

std::string MissedLines::note() const {
  Missed all{.first = std::numeric_limits<int64_t>::max()};
  for (const auto& [words, missed] : kinds_without_time_) {
    if (!kinds_with_time_.contains(words)) continue;
    all.lines += missed.lines;
    all.first = std::min(all.first, missed.first);
  }
  if (all.lines == 0) return {};
  return fmt::format(
      "left out: {} similar to those with a time, but without a readable time; the first is line {}",
      count_text(all.lines, "line"), all.first);
}

}  // namespace isochron::apps
