// The iteration times that another program wrote: a column of a table, the matches of a pattern in a log, or
// a log in a known format (log_formats.h). `analyze` judges them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
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
  bool allow_gaps = false;              // skip rows without a value and a row that is cut off
  size_t most_times = size_t{1} << 26;  // maximum number of iteration times: 512 MB
};

struct TimeSeries {
  std::string rank;  // empty: the rows have none
  std::vector<double> ns;
};

/// A phase of a log or table that wasn't chosen.
struct OtherPhase {
  std::string name;
  size_t values = 0;
  double median_ns = 0;
};

struct IterationTimes {
  std::vector<TimeSeries> series;  // one, or one per rank, in the order in which they began
  std::string program = {};        // the program that writes such logs; empty: unknown
  std::string phase = {};          // the chosen phase; empty: there is only one
  std::string each = {};           // what a value is: "the time of an epoch"; empty: an iteration's time
  std::vector<OtherPhase> others = {};
  std::vector<std::string> notes = {};  // what values leave out or hide, for people
  bool by_rank = false;                 // a column names each row's rank
  bool smoothed = false;                // neighboring values share iterations
  double resolution = 0;                // relative value of a number's last digit; 0: unknown
};

/// What messages call a path: "standard input" for "-".
std::string name_of(const std::filesystem::path& path);

/// The times in ns, each above 0, at least one in each series, from a plain or gzipped file. The text is read
/// as a table if a column is named or if its first two lines look like a table; otherwise as a log. Throws
/// kIo; kInvalidArgument for a bad pattern, an unnamed column among several, a missing phase, or an unknown
/// unit; kBadFormat with the line for an invalid time, a log in no known format, UTF-16 text, or more than
/// `most_times` times.
IterationTimes read_times(const TimesOptions& options);

}  // namespace isochron::apps
