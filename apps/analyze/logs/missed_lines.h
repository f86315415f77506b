// Lines of a log in which no time was found, though they look like lines in which one was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace isochron::apps {

/// Lines are alike if they have the same words, whatever numbers and punctuation are between them.
class MissedLines {
 public:
  static constexpr size_t kMostKinds = 4096;  // of lines with and without a time each; more aren't counted

  /// `number`: of the line in its file. `has_time`: whether a time was found in it.
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
