#include "isochron/apps/analyze/logs/log_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "isochron/apps/analyze/times/elapsed_times.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

constexpr double kAlike = 0.1;   // relative difference in length within a phase
constexpr size_t kManyBars = 5;  // from this many bars on, one value per bar if it is the bar's mean
constexpr double kNearlyAll = 0.9;

bool is_full(const LogMatch& match) { return match.total > 0 && match.done >= match.total; }

bool alike(double total, double other) {
  return total < 0 || other < 0 ? total < 0 && other < 0 : std::fabs(total - other) <= kAlike * other;
}

std::string thing_of(std::string_view written) {
  std::string name = in_lower_case(written);
  return name.empty() || name == "it" || name == "iter" || name == "iters" ? "iteration" : name;
}

/// Converts the times of tiny units of work to times of a thousand or a million units.
void scale_up(LogPhase& phase) {
  constexpr double kShort = 1000;  // ns
  const double typical = observe::median(phase.ns);
  const double factor = typical >= kShort ? 1 : typical >= 1e-3 * kShort ? 1e3 : 1e6;
  if (factor == 1) return;
  for (double& ns : phase.ns) ns *= factor;
  phase.of = (factor == 1e3 ? "1000 " : "million ") + phase.of;
}

/// Makes names that occur twice distinct.
void tell_apart(std::vector<LogPhase>& phases) {
  const auto add = [&phases](const auto& addition) {
    std::map<std::string, int> counts;
    for (const LogPhase& phase : phases) ++counts[phase.name];
    for (LogPhase& phase : phases) {
      if (counts[phase.name] > 1) phase.name += addition(phase);
    }
  };
  add([](const LogPhase& phase) {
    return phase.bar_steps > 0 ? fmt::format(" of {:.6g}", phase.bar_steps) : std::string();
  });
  add([](const LogPhase& phase) { return fmt::format(" ({})", log_formats()[phase.format].name); });
  int number = 0;
  add([&number](const LogPhase&) { return fmt::format(" {}", ++number); });
}

/// Drops single values that a bar shows before its line reveals which program wrote it.
void drop_preludes(std::vector<LogPhase>& phases) {
  std::vector<LogPhase> kept;
  for (const LogPhase& phase : phases) {
    const bool prelude = phase.ns.size() == 1 && std::ranges::any_of(phases, [&](const LogPhase& other) {
                           return other.format != phase.format && other.name == phase.name &&
                                  other.bar_steps == phase.bar_steps && other.ns.size() > 1;
                         });
    if (!prelude) kept.push_back(phase);
  }
  phases = std::move(kept);
}

/// Whether each step of `phase` contains a whole bar of `other`.
bool holds(const LogPhase& phase, const LogPhase& other) {
  return other.steps > static_cast<double>(other.bars) &&
         static_cast<double>(other.bars) >= kNearlyAll * phase.steps;
}

/// Whether all times of lines are the same, as in "step 7: 95 ms, window 30 s".
bool is_setting(const LogPhase& phase) {
  return phase.bars == 0 && phase.ns.size() > 1 &&
         std::ranges::all_of(phase.ns, [&](double ns) { return ns == phase.ns[0]; });
}

/// Whether the differences between the times of `phase` are the times of `other`: "epoch time 5 s, total time
/// 25 s".
bool adds_up(const LogPhase& phase, const LogPhase& other) {
  constexpr size_t kFewest = 3;
  if (phase.ns.size() != other.ns.size() || phase.ns.size() < kFewest) return false;
  const double rounding = phase.resolution_ns + other.resolution_ns;
  double before = 0;
  for (size_t i = 0; i < phase.ns.size(); ++i) {
    const double step = phase.ns[i] - std::exchange(before, phase.ns[i]);
    if (step <= 2 * rounding || std::fabs(step - other.ns[i]) > rounding) return false;
  }
  return true;
}

}  // namespace

/// A bar belongs to the phase of the heading above it. A second bar below the same heading is evaluation.
void LogPhases::place_below_heading(LogMatch& match, int64_t line) {
  const auto found = headings_.find(match.format);
  if (found == headings_.end()) return;
  Heading& heading = found->second;
  const bool again =
      match.done < heading.done || (is_full(match) && match.done == heading.done && line != heading.line);
  if (!heading.fresh && again) {
    heading.label = "evaluation";
    ++heading.number;
  }
  heading.fresh = false;
  heading.done = match.done;
  heading.line = line;
  match.label = heading.label;
  match.number = heading.number;
}

LogPhases::Gathered* LogPhases::phase_of(const LogMatch& match) {
  const auto found = std::ranges::find_if(gathered_, [&](const Gathered& one) {
    return one.format == match.format && one.label == match.label && alike(match.total, one.total);
  });
  if (found != gathered_.end()) return &*found;
  if (gathered_.size() == kMaxPhases) make_room();
  if (gathered_.size() == kMaxPhases) return nullptr;
  gathered_.push_back({.format = match.format, .label = match.label, .of = match.of, .total = match.total});
  return &gathered_.back();
}

/// Drops phases that have occurred only once.
void LogPhases::make_room() {
  std::erase_if(gathered_, [this](const Gathered& one) {
    if (one.ns.size() > 1) return false;
    times_ -= one.ns.size();
    left_out_ += static_cast<int64_t>(one.ns.size());
    return true;
  });
}

bool LogPhases::starts_bar(const Gathered& phase, const LogMatch& match, int64_t line) {
  // If several processes draw the same bar, they are slightly out of step.
  const double back = phase.done - match.done;
  if (phase.done < 0 || (back > 0.5 * phase.done && back > kAlike * match.total)) return true;
  // A full bar with another number or line is a new one of which only the end was logged. Otherwise the same
  // bar was drawn again.
  const bool numbered = match.number >= 0 && (phase.numbers_differ || phase.shows_parts);
  const bool another = match.number != phase.number || (!numbered && line != phase.line);
  return another && is_full(match) && phase.full_line != 0 && !phase.shows_starts;
}

bool LogPhases::update_bar(Gathered& phase, const LogMatch& match, int64_t line) {
  const bool full = is_full(match);
  const bool repeated = !phase.starts && match.done == phase.bars.back().steps;
  // Times in later updates of a full bar include a pause after the last step, such as validation.
  if (repeated && full && line != phase.full_line) return false;
  if (full && phase.full_line == 0) phase.full_line = line;
  if (repeated) {
    phase.ns.back() = *match.ns;
    return false;
  }
  if (phase.starts) phase.bars.emplace_back();
  phase.starts = false;
  phase.bars.back() = {phase.ns.size(), match.done};
  phase.ns.push_back(*match.ns);
  return true;
}

void LogPhases::add(const LogMatch& found, int64_t line, const std::string& where) {
  if (found.heading) {
    Heading& heading = headings_[found.format];
    heading = {.label = found.label, .number = heading.number + 1};
    return;
  }
  LogMatch match = found;
  place_below_heading(match, line);
  Gathered* phase = phase_of(match);
  if (phase == nullptr) {
    ++left_out_;
    return;
  }
  const bool bar = match.done >= 0;
  if (bar && starts_bar(*phase, match, line)) {
    phase->starts = true;
    phase->full_line = 0;
  }
  phase->numbers_differ |= phase->number >= 0 && match.number != phase->number;
  phase->done = match.done;
  phase->number = match.number;
  phase->line = line;
  if (match.done == 0) phase->shows_starts = true;
  if (bar && !is_full(match)) phase->shows_parts = true;
  if (!match.ns) {
    phase->without_time += match.done != 0;
    return;
  }
  if (!bar) {
    phase->ns.push_back(*match.ns);
    if (!match.counters.empty()) {
      const auto counter = [&](int at) { return at < 0 ? -1 : match.counters[static_cast<size_t>(at)]; };
      phase->places.push_back(
          {line, match.counters, counter(match.epoch_counter), counter(match.step_counter)});
    }
    phase->per_step = match.per_step;
  }
  if (bar && !update_bar(*phase, match, line)) return;
  phase->last_digits.add(match.resolution, *match.ns, match.unit);
  require(++times_ <= most_times_, ErrorCode::kBadFormat, where,
          "has more than {} times; give only a part of them", most_times_);
}

/// Whether line `i` of `one` comes before line `j` of `other`. An index may be past the last line.
bool LogPhases::comes_first(const Gathered& one, size_t i, const Gathered& other, size_t j) {
  return j == other.places.size() || (i < one.places.size() && one.places[i].line < other.places[j].line);
}

/// Whether the counters of both phases' lines together always increase.
bool LogPhases::count_together(const Gathered& one, const Gathered& other) {
  constexpr double kMaxRatio = 2;  // of the usual times
  if (one.format != other.format || one.of != other.of) return false;
  for (const Gathered* phase : {&one, &other}) {
    if (phase->places.empty() || phase->places.size() != phase->ns.size()) return false;
  }
  const double ratio = observe::median(one.ns) / observe::median(other.ns);
  if (ratio > kMaxRatio || ratio < 1 / kMaxRatio) return false;
  const Place* before = nullptr;
  for (size_t i = 0, j = 0; i < one.places.size() || j < other.places.size();) {
    const Place& place = comes_first(one, i, other, j) ? one.places[i++] : other.places[j++];
    if (before != nullptr && place.counters <= before->counters) return false;
    before = &place;
  }
  return true;
}

LogPhases::Gathered LogPhases::merged(const Gathered& one, const Gathered& other) {
  const bool first = one.places.front().line < other.places.front().line;
  Gathered result{.format = one.format, .label = first ? one.label : other.label, .of = one.of};
  for (size_t i = 0, j = 0; i < one.ns.size() || j < other.ns.size();) {
    const bool of_one = comes_first(one, i, other, j);
    const Gathered& from = of_one ? one : other;
    const size_t at = of_one ? i++ : j++;
    result.ns.push_back(from.ns[at]);
    result.places.push_back(from.places[at]);
  }
  result.last_digits = one.last_digits;
  result.last_digits.add(other.last_digits);
  result.without_time = one.without_time + other.without_time;
  result.per_step = one.per_step;
  return result;
}

/// The usual number of steps between two lines of an epoch; 0: unknown.
double LogPhases::steps_between(const Gathered& one) {
  std::vector<double> gaps;
  for (size_t i = 1; i < one.places.size(); ++i) {
    const Place &place = one.places[i], &before = one.places[i - 1];
    if (place.epoch == before.epoch && place.step > before.step && before.step >= 0)
      gaps.push_back(static_cast<double>(place.step - before.step));
  }
  return gaps.empty() ? 0 : observe::median(gaps);
}

LogPhase LogPhases::finished(const Gathered& one) {
  const LogFormat& format = log_formats()[one.format];
  const std::string unnamed = one.bars.empty() ? thing_of(one.of) : "bar";
  LogPhase phase{.name = one.label.empty() ? unnamed : one.label,
                 .format = one.format,
                 .of = thing_of(one.of),
                 .ns = one.ns};
  phase.bars = one.bars.size();
  phase.without_time = one.without_time;
  phase.resolution_ns = one.last_digits.ns();
  if (one.bars.empty()) {
    phase.steps = static_cast<double>(one.ns.size());
    phase.total_ns = std::accumulate(one.ns.begin(), one.ns.end(), 0.0);
    if (one.per_step) phase.steps_between = std::max(1.0, steps_between(one));
    for (size_t i = 1; i < one.places.size(); ++i) {
      const Place &place = one.places[i], &before = one.places[i - 1];
      if (place.epoch >= before.epoch || place.epoch > one.places[0].epoch) continue;
      if (phase.runs_again++ == 0) phase.again_line = place.line;
    }
    return phase;
  }
  std::vector<double> ends;
  for (const Bar& bar : one.bars) {
    ends.push_back(one.ns[bar.last]);
    phase.steps += bar.steps;
    phase.total_ns += bar.steps * ends.back();
  }
  phase.bar_steps = one.total > 0 ? one.total : one.bars.front().steps;
  phase.one_a_bar =
      format.averaging == Averaging::kBarSoFar || (format.bar_ends_with_mean && phase.bars >= kManyBars);
  if (phase.one_a_bar)
    phase.ns = std::move(ends);
  else if (format.bar_ends_with_mean && one.ns.size() > phase.bars)
    for (size_t i = phase.bars; i-- > 0;)
      phase.ns.erase(phase.ns.begin() + static_cast<ptrdiff_t>(one.bars[i].last));
  return phase;
}

std::vector<LogPhase> LogPhases::phases() const {
  std::vector<Gathered> distinct;
  for (const Gathered& one : gathered_) {
    const auto same =
        std::ranges::find_if(distinct, [&](const Gathered& other) { return count_together(one, other); });
    if (same == distinct.end())
      distinct.push_back(one);
    else
      *same = merged(*same, one);
  }
  std::vector<LogPhase> result;
  for (const Gathered& one : distinct) {
    if (one.ns.empty()) continue;
    result.push_back(finished(one));
    scale_up(result.back());
  }
  // A time per step stands for all steps since the previous line. For evaluation, this number is assumed to
  // be that of training.
  double between = 0;
  for (const LogPhase& phase : result) {
    if (phase.steps_between > 1)
      between = between == 0 ? phase.steps_between : std::min(between, phase.steps_between);
  }
  for (LogPhase& phase : result) {
    if (phase.steps_between > 0) phase.total_ns *= std::max(1.0, between);
  }
  drop_preludes(result);
  tell_apart(result);
  return result;
}

size_t main_phase(const std::vector<LogPhase>& phases) {
  constexpr size_t kFew = 5;  // with fewer values, no verdict is possible
  const auto is_short = [](const LogPhase& phase) { return phase.ns.size() < kFew; };
  std::vector<size_t> candidates;
  for (size_t i = 0; i < phases.size(); ++i) {
    const bool outer = std::ranges::any_of(phases, [&](const LogPhase& other) {
      return &other != &phases[i] && (holds(phases[i], other) || adds_up(phases[i], other));
    });
    if (!outer && !is_setting(phases[i]) && !look_elapsed(phases[i].ns)) candidates.push_back(i);
  }
  const auto is_few = [&](size_t i) { return is_short(phases[i]); };
  if (!std::ranges::all_of(candidates, is_few)) std::erase_if(candidates, is_few);
  if (candidates.empty()) {
    candidates.resize(phases.size());
    std::iota(candidates.begin(), candidates.end(), size_t{0});
  }
  return *std::ranges::max_element(candidates, {}, [&](size_t i) { return phases[i].total_ns; });
}

}  // namespace isochron::apps
