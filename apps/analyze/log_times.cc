// Times from logs.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>

#include "isochron/apps/analyze/log_formats.h"
#include "isochron/apps/analyze/log_phases.h"
#include "isochron/apps/analyze/log_reader.h"
#include "isochron/apps/analyze/missed_lines.h"
#include "isochron/apps/analyze/time_pattern.h"
#include "isochron/apps/analyze/time_sources.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

/// The unit of a number that a pattern found: the one in its second group, or that of --unit. Throws if the
/// text after the number makes it a rate that neither of them names.
TimeUnit unit_of(const TimePattern::Found& found, const TimesOptions& options, const std::string& where) {
  const std::optional<TimeUnit> unit = time_unit(found.unit);
  const bool asked_rate = options.unit.find('/') != std::string::npos;
  const bool is_rate = unit ? unit->rate : begins_as_rate(found.behind_number);
  require(!is_rate || unit || asked_rate, ErrorCode::kBadFormat, where,
          "'{}{}' is a rate, expected a time; a pattern whose second group is the unit reads rates too: "
          "'([0-9.]+)(it/s)'",
          quotation(found.time.text, 40), quotation(found.behind_number.substr(0, 12)));
  const std::optional<TimeUnit> asked = time_unit(options.unit);
  require(!asked || !unit || (asked->rate == unit->rate && asked->time_ns(1) == unit->time_ns(1)),
          ErrorCode::kInvalidArgument, "--unit", "is '{}', but {} has '{}'; leave --unit out", options.unit,
          where, quotation(found.unit, 40));
  return chosen_unit(options, unit, where);
}

struct Time {
  double ns, resolution;
};

Time time_of(const TimePattern::Found& found, const TimesOptions& options, const std::string& row) {
  if (found.time.ns) return {*found.time.ns, found.time.resolution};
  const std::string& number = found.time.number;
  // Check the number before the unit: if the group isn't the time, the error must say so.
  static_cast<void>(time_ns(number, {}, row));
  return {time_ns(number, unit_of(found, options, row), row), written_resolution(number)};
}

void add_note(IterationTimes& times, const MissedLines& missed) {
  if (std::string note = missed.note(); !note.empty()) times.notes.push_back(std::move(note));
}

std::string each_of(const LogPhase& phase) {
  const auto article = [](std::string_view word) {
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return "";
    return std::string_view("aeio").find(word[0]) != std::string_view::npos ? "an " : "a ";
  };
  const std::string time = fmt::format("time of {}{}", article(phase.of), quotation(phase.of));
  if (phase.one_a_bar) return fmt::format("the mean {} over a progress bar of {:.6g}", time, phase.bar_steps);
  return phase.bars > 0 ? fmt::format("the {} as shown by an update of the progress bar", time)
                        : "the " + time;
}

std::vector<std::string> notes_of(const LogPhase& phase, int64_t left_out) {
  const LogFormat& format = log_formats()[phase.format];
  std::vector<std::string> notes;
  if (format.averaging == Averaging::kRecent && !phase.one_a_bar)
    notes.emplace_back("each value is an average over the latest steps, so neighboring values share steps");
  if (!format.note.empty()) notes.emplace_back(format.note);
  if (phase.without_time > 0)
    notes.push_back(fmt::format("left out: {} updates that show no time", phase.without_time));
  if (left_out > 0) notes.push_back(fmt::format("left out: {} lines of further phases", left_out));
  return notes;
}

std::string format_names() {
  std::string names;
  for (const LogFormat& format : log_formats())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  return names;
}

}  // namespace

IterationTimes times_of_pattern(InputStream& stream, const TimesOptions& options) {
  const TimePattern pattern(options.pattern);
  const std::string where = name_of(options.path);
  LogReader reader(stream);
  std::vector<double> times;
  double resolutions = 0;
  MissedLines missed;
  for (std::string line; reader.next(line);) {
    const auto found = pattern.find_last(line, where);
    missed.add(line, reader.line(), found.has_value());
    if (!found) continue;
    const std::string row = fmt::format("{}, line {}", where, reader.line());
    require(found->time.refusal.empty(), ErrorCode::kBadFormat, row, "{}", found->time.refusal);
    require(times.size() < options.most_times, ErrorCode::kBadFormat, where,
            "has more than {} times; give only a part of them", options.most_times);
    const auto [ns, resolution] = time_of(*found, options, row);
    times.push_back(ns);
    resolutions += resolution;
  }
  require(!times.empty(), ErrorCode::kBadFormat, where, "the pattern '{}' matches none of {} lines",
          quotation(options.pattern), reader.lines());
  const double resolution = resolutions / static_cast<double>(times.size());
  IterationTimes result{.series = {{"", std::move(times)}}, .resolution = resolution};
  add_note(result, missed);
  return result;
}

IterationTimes times_of_log(InputStream& stream, const TimesOptions& options) {
  const std::string where = name_of(options.path);
  require(options.unit.empty(), ErrorCode::kInvalidArgument, "--unit",
          "is for tables and patterns; a log in a known format states its units");
  const LogMatcher matcher(options.format);
  LogPhases gathered(options.most_times);
  MissedLines missed;
  LogReader reader(stream);
  for (std::string line; reader.next(line);) {
    const auto match = matcher.match(line);
    missed.add(line, reader.line(), match.has_value());
    if (!match) continue;
    require(match->refusal.empty(), ErrorCode::kBadFormat, fmt::format("{}, line {}", where, reader.line()),
            "{}", match->refusal);
    gathered.add(*match, reader.line(), where);
  }
  std::vector<LogPhase> phases = gathered.phases();
  require(
      !phases.empty(), ErrorCode::kBadFormat, where,
      "none of {} lines shows a time in a known format ({}); for a table, name its column with --column; for "
      "another log, give a regular expression with --pattern, such as 'took ([0-9.]+) (s)'",
      reader.lines(), options.format.empty() ? format_names() : options.format);
  std::vector<std::string> names;
  for (const LogPhase& phase : phases) names.push_back(phase.name);
  const size_t chosen = chosen_phase(options, names, main_phase(phases));
  LogPhase& phase = phases[chosen];
  const LogFormat& format = log_formats()[phase.format];
  IterationTimes result{.program = std::string(format.program),
                        .phase = phase.name,
                        .each = each_of(phase),
                        .notes = notes_of(phase, gathered.left_out()),
                        .smoothed = format.averaging == Averaging::kRecent && !phase.one_a_bar,
                        .resolution = phase.resolution};
  for (size_t i = 0; i < phases.size(); ++i) {
    if (i != chosen) result.others.push_back({names[i], phases[i].ns.size(), observe::median(phases[i].ns)});
  }
  result.series.push_back({"", std::move(phase.ns)});
  add_note(result, missed);
  return result;
}

}  // namespace isochron::apps
