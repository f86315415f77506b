// Detects lines of a log in which no time was found, although similar lines have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace isochron::apps {

/// Lines are similar if they have the same words, regardless of numbers and punctuation.
class MissedLines {
 public:
  static constexpr size_t kMaxKinds = 4096;  // of each: with and without a time; more are ignored

  /// `number` is the line number; `has_time` tells whether a time was found in the line.
  void add(std::string_view line, int64_t number, bool has_time);
  /// The note for the user; empty if there are no such lines.
  std::string note() const;

 private:
  struct Missed {
    int64_t lines = 0, first = 0;
  };
  std::unordered_set<uint64_t> kinds_with_time_;  // hashes of words
  std::unordered_map<uint64_t, Missed> kinds_without_time_;
};

}  // namespace isochron::apps
