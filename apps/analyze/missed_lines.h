// Lines of a log in which no time was found, though they are made like those in which one was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace isochron::apps {

/// Lines are alike when they have the same words, whatever numbers and marks stand between them.
class MissedLines {
 public:
  static constexpr size_t kMostKinds =
      4096;  // of lines that are told apart, read and not; more aren't counted

  /// `number`: of the line in its file.
  void add(std::string_view line, int64_t number, bool read);
  /// For people; empty where there are none.
  std::string note() const;

 private:
  struct Missed {
    int64_t lines = 0, first = 0;
  };
  std::unordered_set<uint64_t> read_;  // hashes of words
  std::unordered_map<uint64_t, Missed> others_;
};

}  // namespace isochron::apps
