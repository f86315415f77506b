// The iteration times that another program wrote, and the options for reading them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::apps {

struct TimesOptions {
  std::filesystem::path path = "-";  // standard input; a pipe is read once, from front to back
  /// For a table: the name of the column, or its number if there is no header.
  std::string column = {};
  std::string work = {};                // amount of work of each row: tokens, samples
  std::string rank = {};                // process of each row
  std::string phase_column = {};        // phase of each row
  std::string pattern = {};             // not empty: read a log with this pattern
  std::string format = {};              // of the log, from log_formats(); empty: detected
  std::string phase = {};               // the phase to judge; empty: the one that took the most time
  std::string unit = {};                // empty: taken from the column's name or the log
  std::optional<bool> elapsed = {};     // times count from the run's start; empty: rejected if they look so
  bool allow_gaps = false;              // skip rows without a value, and a last row that is cut off
  size_t most_times = size_t{1} << 26;  // maximum number of iteration times: 512 MB
};

/// The name for rows or lines without a rank, if others have one.
inline constexpr std::string_view kNoRank = "(none)";
inline constexpr size_t kFewestOfRank = 5;  // least number of times per rank, if --rank wasn't given

struct TimeSeries {
  std::string rank;  // empty: the rows have none
  std::vector<double> ns;
};

/// The times of a phase of a log or table.
struct IterationTimes {
  std::vector<TimeSeries> series;       // one, or one per rank, in the order in which they began
  std::string program = {};             // the program that writes such logs; empty: unknown
  std::string phase = {};               // empty: there is only one
  std::string each = {};                // a value's meaning: "the time of an epoch"; empty: an iteration's
  bool by_rank = false;                 // each series has its rank
  bool smoothed = false;                // neighboring values share iterations
  double resolution_ns = 0;             // the value of the last digit; 0: unknown
  std::vector<std::string> notes = {};  // notes for people on what the values leave out or hide
  std::vector<IterationTimes> others = {};  // the phases that weren't chosen
};

/// What messages call a path: "standard input" for "-".
std::string name_of(const std::filesystem::path& path);

}  // namespace isochron::apps
