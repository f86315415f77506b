#include "isochron/apps/analyze/logs/logs.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/logs/log_phases.h"
#include "isochron/apps/analyze/logs/log_ranks.h"
#include "isochron/apps/analyze/logs/missed_lines.h"
#include "isochron/apps/analyze/logs/time_pattern.h"
#include "isochron/apps/analyze/times/fields.h"
#include "isochron/apps/analyze/times/log_reader.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

/// The unit of time that follows a number: "ms" in " ms, loss". Nothing for other units, such as rates.
std::optional<TimeUnit> unit_behind(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  const auto end = std::ranges::find_if_not(text, is_letter);
  const std::optional<TimeUnit> unit = time_unit(text.substr(0, static_cast<size_t>(end - text.begin())));
  return unit && !unit->rate && unit->of.empty() ? unit : std::nullopt;
}

/// The unit of a number that a pattern found: that of its second group, or that of --unit. Throws if the text
/// after the number says that it is a rate, but neither of the two units does, or if it names a different
/// unit than --unit.
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
  const std::optional<TimeUnit> behind = unit_behind(found.behind_number);
  require(!asked || unit || asked->rate || !behind || asked->time_ns(1) == behind->time_ns(1),
          ErrorCode::kInvalidArgument, "--unit",
          "is '{}', but {} has '{}{}'; to read times in several units, give a pattern whose second group is "
          "the unit: '([0-9.]+) ?(ms|s)'",
          options.unit, where, quotation(found.time.text, 40), quotation(found.behind_number.substr(0, 12)));
  return chosen_unit(options, unit, where);
}

struct Time {
  double ns, resolution, unit;
};

Time time_of(const TimePattern::Found& found, const TimesOptions& options, const std::string& row) {
  if (found.time.ns) return {*found.time.ns, found.time.resolution, found.time.unit_ns};
  const bool since_start = options.elapsed.value_or(false);
  const std::string& number = found.time.number;
  // Check the number before the unit: if the group isn't the time, the error must say so.
  static_cast<void>(time_ns(number, {}, row, since_start));
  if (found.time.text.find(':') != std::string_view::npos) return {0, 0, 1e9};  // "0:00" needs no unit
  const TimeUnit unit = unit_of(found, options, row);
  return {time_ns(number, unit, row, since_start), written_resolution(number), unit.ns};
}

void add_note(IterationTimes& times, const MissedLines& missed) {
  if (std::string note = missed.note(); !note.empty()) times.notes.push_back(std::move(note));
}

std::string each_of(const LogPhase& phase) {
  const auto article = [](std::string_view word) {
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return "";
    return std::string_view("aeio").find(word[0]) != std::string_view::npos ? "an " : "a ";
  };
  std::string_view one = phase.of;
  if (one.size() > 2 && one.ends_with('s') && !is_digit(one[0]) && !one.starts_with("million "))
    one.remove_suffix(one.ends_with("batches") || one.ends_with("passes") ? 2 : 1);
  const std::string time = fmt::format("time of {}{}", article(one), quotation(one));
  if (phase.one_a_bar) return fmt::format("the mean {} over a progress bar of {:.6g}", time, phase.bar_steps);
  const bool of_bar = phase.bars > 0 && log_formats()[phase.format].averaging != Averaging::kNone;
  return of_bar ? fmt::format("the {} as shown by an update of the progress bar", time) : "the " + time;
}

IterationTimes times_of_phase(LogPhase phase) {
  const LogFormat& format = log_formats()[phase.format];
  IterationTimes times{.series = {},
                       .program = std::string(format.program),
                       .phase = phase.name,
                       .each = each_of(phase),
                       .smoothed = format.averaging == Averaging::kRecent && !phase.one_a_bar,
                       .resolution_ns = phase.resolution_ns};
  if (times.smoothed)
    times.notes.emplace_back(
        "each value is an average over the latest steps, so neighboring values share steps");
  if (!format.note.empty()) times.notes.emplace_back(format.note);
  if (phase.runs_again > 0)
    times.notes.push_back(
        fmt::format("the epochs are counted anew {}, first in line {}: does the log hold several runs?",
                    count_text(phase.runs_again, "time"), phase.again_line));
  if (phase.without_time > 0)
    times.notes.push_back(
        fmt::format("left out: {} without a time", count_text(phase.without_time, "update")));
  times.series.push_back({"", std::move(phase.ns)});
  return times;
}

struct Phases {
  std::vector<IterationTimes> all = {};
  size_t main = 0;
};

bool is_timed(const LogPhase& phase) { return phase.ns.size() >= kFewestOfRank; }

/// The times of every phase by rank. Ranks with few times in a phase are left out of that phase. Empty if the
/// log doesn't have several ranks.
Phases phases_of(LogRanks<LogPhases>& ranks) {
  const auto told_apart =
      ranks.told_apart([](const LogPhases& lines) { return std::ranges::any_of(lines.phases(), is_timed); });
  Phases result;
  std::string main;
  double most_ns = 0;  // of a rank's main phase
  for (const auto& [rank, lines] : told_apart) {
    std::vector<LogPhase> phases = lines->phases();
    const LogPhase& longest = phases[main_phase(phases)];
    if (longest.total_ns > most_ns) main = longest.name;
    most_ns = std::max(most_ns, longest.total_ns);
    for (LogPhase& phase : phases) {
      if (!is_timed(phase)) continue;
      const auto known = std::ranges::find(result.all, phase.name, &IterationTimes::phase);
      const bool is_new = known == result.all.end();
      IterationTimes& times = is_new ? result.all.emplace_back(times_of_phase(phase)) : *known;
      if (is_new) times.series.clear();
      times.resolution_ns = std::max(times.resolution_ns, phase.resolution_ns);
      times.series.push_back({rank, std::move(phase.ns)});
    }
  }
  for (IterationTimes& times : result.all) {
    times.by_rank = true;
    if (const size_t others = told_apart.size() - times.series.size(); others > 0)
      times.notes.push_back(fmt::format("{} with fewer than {} times of this phase",
                                        count_text(others, "rank"), kFewestOfRank));
  }
  const auto found = std::ranges::find(result.all, main, &IterationTimes::phase);
  if (found != result.all.end()) result.main = static_cast<size_t>(found - result.all.begin());
  return result;
}

Phases phases_of(std::vector<LogPhase> phases) {
  Phases result{.main = main_phase(phases)};
  for (LogPhase& phase : phases) result.all.push_back(times_of_phase(std::move(phase)));
  return result;
}

}  // namespace

IterationTimes times_of_pattern(InputStream& stream, const TimesOptions& options) {
  const TimePattern pattern(options.pattern);
  const std::string where = name_of(options.path);
  LogReader reader(stream);
  std::vector<double> all;  // of all ranks as one
  LogRanks<std::vector<double>> ranks({});
  RankReader ranked;
  LastDigits last_digits;
  MissedLines missed;
  for (std::string line; reader.next(line);) {
    const RankedLine of_rank = ranked.of(line, reader.line());  // a rank applies to all updates of its line
    const auto found = pattern.find_last(line, where);
    missed.add(line, reader.line(), found.has_value());
    if (!found) continue;
    const std::string row = fmt::format("{}, line {}", where, reader.line());
    require(found->time.refusal.empty(), ErrorCode::kBadFormat, row, "{}", found->time.refusal);
    require(all.size() < options.most_times, ErrorCode::kBadFormat, where,
            "has more than {} times; give only a part of them", options.most_times);
    const auto [ns, resolution, unit] = time_of(*found, options, row);
    all.push_back(ns);
    last_digits.add(resolution, ns, unit);
    std::vector<double>* const times = ranks.find(of_rank.rank, reader.line());
    if (times != nullptr) times->push_back(ns);
  }
  require(!all.empty(), ErrorCode::kBadFormat, where, "the pattern '{}' matches none of {}",
          quotation(options.pattern), count_text(reader.lines(), "line"));
  IterationTimes result{.series = {}, .resolution_ns = last_digits.ns()};
  for (auto& [rank, times] :
       ranks.told_apart([](const std::vector<double>& ns) { return ns.size() >= kFewestOfRank; }))
    result.series.push_back({rank, std::move(*times)});
  result.by_rank = !result.series.empty();
  if (!result.by_rank) result.series.push_back({"", std::move(all)});
  add_note(result, missed);
  return result;
}

IterationTimes times_of_log(InputStream& stream, const TimesOptions& options) {
  const std::string where = name_of(options.path);
  require(options.unit.empty(), ErrorCode::kInvalidArgument, "--unit",
          "is for tables and patterns; a log in a known format states its units");
  const LogMatcher matcher(options.format);
  LogPhases gathered(options.most_times);  // of all ranks as one
  LogRanks<LogPhases> ranks(gathered);
  RankReader ranked;
  MissedLines missed;
  LogReader reader(stream);
  const auto add = [&](const std::vector<LogMatch>& matches, LogPhases& phases) {
    for (const LogMatch& match : matches) {
      require(match.refusal.empty(), ErrorCode::kBadFormat, fmt::format("{}, line {}", where, reader.line()),
              "{}", match.refusal);
      phases.add(match, reader.line(), where);
    }
  };
  for (std::string line; reader.next(line);) {
    const std::vector<LogMatch> matches = matcher.match(line);
    add(matches, gathered);
    missed.add(line, reader.line(), !matches.empty());
    const RankedLine of_rank = ranked.of(line, reader.line());
    LogPhases* const lines = ranks.find(of_rank.rank, reader.line());
    if (lines != nullptr) add(of_rank.text == line ? matches : matcher.match(of_rank.text), *lines);
  }
  std::vector<LogPhase> phases = gathered.phases();
  require(!phases.empty(), ErrorCode::kBadFormat, where,
          "none of {} shows a time in {}; for a table, name its column with --column; for another log, "
          "give a regular expression with --pattern, such as 'took ([0-9.]+) (s)'",
          count_text(reader.lines(), "line"),
          options.format.empty() ? "a known format (--help lists them)" : "the format " + options.format);
  Phases judged = phases_of(ranks);
  if (judged.all.empty()) judged = phases_of(std::move(phases));
  std::vector<std::string> names;
  for (const IterationTimes& times : judged.all) names.push_back(times.phase);
  const auto chosen = judged.all.begin() + static_cast<ptrdiff_t>(chosen_phase(options, names, judged.main));
  IterationTimes result = std::move(*chosen);
  judged.all.erase(chosen);
  result.others = std::move(judged.all);
  if (gathered.left_out() > 0)
    result.notes.push_back(
        fmt::format("left out: {} of further phases", count_text(gathered.left_out(), "line")));
  add_note(result, missed);
  return result;
}

}  // namespace isochron::apps
