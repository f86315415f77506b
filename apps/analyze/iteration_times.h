// The times that another program wrote of its iterations: a column of a table, what a pattern finds in a log,
// or a log in a format that is known (log_formats.h). `analyze` judges them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace isochron::apps {

struct TimesOptions {
  std::filesystem::path path = "-";  // standard input; a pipe is read once, from front to back
  /// Of a table: its columns' names, or without a header their numbers.
  std::string column = {};
  std::string work = {};                // how much a row did: tokens, samples
  std::string rank = {};                // which process a row is of
  std::string phase_column = {};        // which phase
  std::string pattern = {};             // not empty: of a log
  std::string format = {};              // the log's, of log_formats(); empty: as it looks
  std::string phase = {};               // the phase to judge; empty: the one with most of the time
  std::string unit = {};                // empty: as the column's name or the log says
  bool allow_gaps = false;              // rows without a value, and a row that is cut off, are left out
  size_t most_times = size_t{1} << 26;  // of an iteration: 512 MB
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
  std::vector<TimeSeries> series;  // one, or one a rank, in the order in which they began
  std::string program = {};        // that writes such logs; empty: not known
  std::string phase = {};          // that was chosen; empty: there is one alone
  std::string each = {};           // what a value is: "the time of an epoch"; empty: an iteration's time
  std::vector<OtherPhase> others = {};
  std::vector<std::string> notes = {};  // what values leave out or hide, for people
  bool by_rank = false;                 // a column names each row's rank
  bool smoothed = false;                // neighboring values share iterations
  double resolution = 0;                // what the last digit of a value is worth, relative; 0: not known
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
