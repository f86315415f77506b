#include "isochron/apps/analyze/read_times.h"

#include <algorithm>

#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/logs/logs.h"
#include "isochron/apps/analyze/tables/tables.h"
#include "isochron/apps/analyze/times/elapsed_times.h"
#include "isochron/apps/analyze/times/fields.h"
#include "isochron/apps/analyze/times/log_reader.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/input_stream.h"
#include "isochron/core/process/stop_signals.h"
#include "isochron/core/text/encoding.h"

namespace isochron::apps {
namespace {

constexpr uint64_t kLargestInput = uint64_t{1} << 36;  // bytes, after decompression
constexpr size_t kBuffer = size_t{1} << 16;

std::filesystem::path opened(const std::filesystem::path& path) { return path == "-" ? "/dev/stdin" : path; }

/// Whether a line belongs to a log in a known format. Only the part before a carriage return is checked.
bool is_of_log(std::string_view line) {
  return !LogMatcher("").match(line.substr(0, line.find('\r'))).empty();
}

/// Whether text begins like a table: the first two lines have the same number of fields, and one field of the
/// second line is a number. If the first line is longer than the buffer, only its separators can be checked.
/// Semicolons in escape sequences aren't separators.
bool looks_like_table(std::string_view begin) {
  std::string printed(begin);
  remove_escapes(printed);
  const std::string_view text = printed;
  const size_t first_end = text.find('\n');
  const std::string_view first = text.substr(0, first_end);
  const char separator = separator_of(first);
  const auto separators = [separator](std::string_view line) { return std::ranges::count(line, separator); };
  if (first_end == std::string_view::npos)
    return whole_field_number(text) || (begin.size() >= kBuffer && separators(text) > 0 &&
                                        text.find('\r') == std::string_view::npos && !is_of_log(text));
  const std::string_view rest = text.substr(first_end + 1);
  std::string_view second = rest.substr(0, rest.find('\n'));
  if (trimmed(second).empty()) return whole_field_number(first).has_value();
  if (separators(first) != separators(second) || is_of_log(second)) return false;
  for (size_t end = 0; end != std::string_view::npos; second.remove_prefix(end + 1)) {
    end = second.find(separator);
    if (whole_field_number(second.substr(0, end))) return true;
    if (end == std::string_view::npos) break;
  }
  return false;
}

bool interrupted() { return StopSignals::pending() != 0; }

/// The times as written; elapsed times are not converted yet.
IterationTimes times_as_written(const TimesOptions& options) {
  using std::chrono_literals::operator""ms;
  InputStream stream(opened(options.path), {.limit_bytes = kLargestInput,
                                            .buffer_bytes = kBuffer,
                                            .patience = -1ms,  // waits forever, like `cat`
                                            .stop = interrupted});
  const auto begin = stream.peek_lines(2);
  refuse_wide_text(begin, name_of(options.path));
  require(std::ranges::find(begin, std::byte{0}) == begin.end(), ErrorCode::kBadFormat, name_of(options.path),
          "contains zero bytes, so it is not text; expected text in UTF-8");
  if (!options.pattern.empty()) return times_of_pattern(stream, options);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (options.format.empty() && is_json_object(text.substr(0, text.find('\n'))))
    return times_of_json(stream, options);
  const bool table = !options.column.empty() || !options.work.empty() || !options.rank.empty() ||
                     !options.phase_column.empty() || begin.empty();
  if (table || (options.format.empty() && looks_like_table(text))) return times_of_table(stream, options);
  return times_of_log(stream, options);
}

}  // namespace

IterationTimes read_times(const TimesOptions& options) {
  IterationTimes times;
  {
    const StopSignals signals;
    times = times_as_written(options);
    if (StopSignals::pending() == SIGINT) {  // other signals end the process
      StopSignals::answer();
      times.notes.emplace_back("SIGINT ended the reading; only what came before it is judged");
    }
  }
  const std::string where = name_of(options.path);
  const auto has_clock = [](const IterationTimes& phase) {
    return std::ranges::any_of(phase.series, [](const TimeSeries& one) { return look_elapsed(one.ns); });
  };
  if (options.elapsed.value_or(false)) {
    take_differences(times, where);
    for (IterationTimes& other : times.others) {
      if (has_clock(other)) take_differences(other, where);
    }
  } else if (!options.elapsed) {
    require(
        !has_clock(times), ErrorCode::kInvalidArgument, where,
        "the times never fall and rise by about the same amount each, as cumulative times do; use --elapsed "
        "to judge the differences between successive times, or --no-elapsed to judge the times as they are");
  }
  return times;
}

}  // namespace isochron::apps
