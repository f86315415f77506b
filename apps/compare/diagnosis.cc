#include "isochron/apps/compare/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "isochron/core/text/count_text.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::RunReport;
using observe::SeriesReport;
using observe::Window;
using Kind = Diagnosis::Kind;

constexpr const char* kFromTheFirst = "the first iteration";
/// A slowdown is noticeable from this multiple of the initial time.
constexpr double kNoticed = 1.2;
/// Pauses below this share of the time are not worth mentioning.
constexpr double kPauseShare = 0.02;

/// A symptom of a loop.
struct Part {
  Kind kind;
  std::string what;
  std::string since;
};

/// The windows on which the verdict is based.
std::vector<Window> judged_windows(const RunReport& report) {
  std::vector<Window> windows = main_windows(report);
  const auto warmup = std::min(static_cast<size_t>(report.time.warmup_windows), windows.size());
  windows.erase(windows.begin(), windows.begin() + static_cast<std::ptrdiff_t>(warmup));
  return windows;
}

/// The first iteration from which all levels stay above `kNoticed` times that of the first tenth; empty if
/// there is none. A slowdown that starts in the first or second tenth counts as one from the beginning.
std::string noticed_since(const Loop& loop, std::span<const Window> windows,
                          std::span<const double> levels_ns, double first_ns) {
  size_t from = windows.size();
  while (from > 0 && levels_ns[from - 1] > kNoticed * first_ns) --from;
  if (from == windows.size()) return "";
  if (from <= windows.size() / 5) return kFromTheFirst;
  return fmt::format("iteration {}", count_text(windows[from].first_iteration * loop.work_per_iteration));
}

/// Describes the slowdown by the statistic, means or medians, with the largest change. Gives the change alone
/// if the levels at both ends, which other programs disturb, don't show it.
std::optional<Part> slows_down(const Loop& loop, const RunReport& report) {
  if (report.time.kind != Flatness::kGrowing) return std::nullopt;
  const std::vector<Window> windows = judged_windows(report);
  const size_t tenth = std::max<size_t>(1, windows.size() / 10);
  const bool of_means = report.time.largest.name.find("means") != std::string_view::npos;
  const std::vector<double> levels = of_means ? window_means(windows) : window_medians(windows);
  if (levels.size() >= 2 * tenth) {
    const double first = observe::median(std::span(levels).first(tenth));
    const double last = observe::median(std::span(levels).last(tenth));
    if (last > (1 + report.time.bound) * first) {
      return Part{Kind::kSlowsDown,
                  fmt::format("slows down from {} to {} per iteration",
                              observe::duration_text(per_iteration(loop, first)),
                              observe::duration_text(per_iteration(loop, last))),
                  noticed_since(loop, windows, levels, first)};
    }
  }
  return Part{Kind::kSlowsDown, fmt::format("slows down by {:.1f} %", 100 * report.time.largest.change), ""};
}

/// When a level began to rise: the point at which it had gained a twentieth of its total growth.
std::string grows_since(const Loop& loop, const RunReport& report, const SeriesReport& series) {
  constexpr double kBegun = 0.05, kAtFirst = 0.1;
  const double threshold = series.first + kBegun * (series.last - series.first);
  const auto at = std::ranges::find_if(series.values, [&](double value) { return value >= threshold; });
  const auto i = static_cast<size_t>(at - series.values.begin());
  if (i >= report.sample_iterations.size()) return kFromTheFirst;
  const int64_t iteration = report.sample_iterations[i];
  if (static_cast<double>(iteration) <= kAtFirst * static_cast<double>(report.iterations))
    return kFromTheFirst;
  return fmt::format("iteration {}", count_text(iteration * loop.work_per_iteration));
}

std::optional<Part> fills(const Loop& loop, const RunReport& report) {
  const auto grows = [&](std::string_view name) -> const SeriesReport* {
    const SeriesReport* series = report.find_series(name);
    return series != nullptr && series->verdict && series->verdict->kind == Flatness::kGrowing ? series
                                                                                               : nullptr;
  };
  std::optional<Part> part;
  const auto add = [&](const SeriesReport* series, const char* what, const SeriesReport* begins) {
    if (series == nullptr) return;
    const std::string text = fmt::format("{} {}", what, gained_text(*series));
    if (part) {
      part->what += fmt::format(", {}", text);
    } else {
      part = {Kind::kFills, text, grows_since(loop, report, *begins)};
    }
  };
  const SeriesReport* resident = grows("rss_bytes");
  // Memory in use rises at once, even if a pool takes memory in large pieces.
  const SeriesReport* in_use = grows("bytes_in_use");
  add(grows("disk_bytes"), "fills the disk,", grows("disk_bytes"));
  add(resident != nullptr ? resident : in_use,
      resident != nullptr ? "takes more and more memory," : "keeps more and more of its memory in use,",
      in_use != nullptr ? in_use : resident);
  if (part)
    part->what += fmt::format(" in {} iterations", count_text(report.iterations * loop.work_per_iteration));
  return part;
}

std::optional<Part> takes_longer(const RunReport& report, const Loop& against) {
  if (!is_slow(report)) return std::nullopt;
  return Part{
      Kind::kSlow,
      fmt::format("takes {} the time of '{}'", observe::ratio_text(*report.times_slower), against.name),
      kFromTheFirst};
}

std::optional<Part> pauses(const Loop& loop, const RunReport& report) {
  const observe::SpikeReport& spikes = report.spikes;
  if (!spikes.period || spikes.time_share < kPauseShare) return std::nullopt;
  return Part{Kind::kPauses,
              fmt::format("pauses every {} iterations ({}), {:.0f} % of its time",
                          count_text(spikes.period->length * loop.work_per_iteration), spikes.owner_name(),
                          100 * spikes.time_share),
              kFromTheFirst};
}

std::optional<Diagnosis> diagnose(const ScenarioResult& result, size_t i) {
  const Loop& loop = result.scenario->loops[i];
  const RunReport& report = result.loops[i].report;
  std::vector<Part> parts;
  const auto add = [&parts](std::optional<Part> part) {
    if (part) parts.push_back(std::move(*part));
  };
  add(slows_down(loop, report));
  add(fills(loop, report));
  if (!loop.cured) {
    const bool mostly_pauses = report.spikes.time_share > 0.5;
    if (mostly_pauses) add(pauses(loop, report));
    add(takes_longer(report, held_against(*result.scenario, loop)));
    if (!mostly_pauses) add(pauses(loop, report));
  }
  if (loop.fault) parts.push_back({Kind::kTrainsWrongly, loop.fault->what, kFromTheFirst});
  if (parts.empty()) return std::nullopt;
  Diagnosis diagnosis{.kind = parts.front().kind,
                      .scenario = result.scenario->name,
                      .loop = report.name,
                      .what = parts.front().what,
                      .since = parts.front().since,
                      .also = {},
                      .causes = {}};
  for (size_t p = 1; p < parts.size(); ++p)
    diagnosis.also += fmt::format("{}{}", p == 1 ? "" : "; ", parts[p].what);
  std::ranges::copy_if(report.causes, std::back_inserter(diagnosis.causes),
                       [](const observe::Cause& cause) { return !observe::of_machine(cause.name); });
  if (loop.fault) diagnosis.causes.push_back({loop.fault->cause, loop.fault->cure, ""});
  return diagnosis;
}

}  // namespace

double per_iteration(const Loop& loop, double ns) {
  return ns / static_cast<double>(loop.work_per_iteration);
}

std::string count_text(int64_t count) {
  std::string text = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::vector<Diagnosis> diagnoses_of(std::span<const ScenarioResult> results) {
  std::vector<Diagnosis> list;
  for (const ScenarioResult& result : results) {
    for (size_t i = 0; i < result.loops.size(); ++i) {
      if (auto diagnosis = diagnose(result, i)) list.push_back(std::move(*diagnosis));
    }
  }
  std::ranges::stable_sort(list, {}, &Diagnosis::kind);
  return list;
}

std::vector<Diagnosis> diagnoses_of(const ScenarioResult& result) { return diagnoses_of({&result, 1}); }

std::string headline(std::span<const ScenarioResult> results) {
  std::map<Kind, int64_t> counts;
  for (const Diagnosis& diagnosis : diagnoses_of(results)) ++counts[diagnosis.kind];
  constexpr std::tuple<Kind, const char*, const char*> kWords[] = {
      {Kind::kSlowsDown, "slows down as it runs", "slow down as they run"},
      {Kind::kFills, "fills memory or disk", "fill memory or disk"},
      {Kind::kSlow, "is slow from its first iteration on", "are slow from their first iteration on"},
      {Kind::kPauses, "pauses periodically", "pause periodically"},
      {Kind::kTrainsWrongly, "trains incorrectly", "train incorrectly"}};
  std::vector<std::string> found;
  for (const auto& [kind, one, many] : kWords) {
    if (const int64_t count = counts[kind]; count > 0)
      found.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
  }
  std::map<Flatness, int64_t> cured;
  int64_t loops = 0, all_cured = 0, inconclusive = 0;
  for (const ScenarioResult& result : results) {
    loops += std::ssize(result.loops);
    for (size_t i = 0; i < result.loops.size(); ++i) {
      const Loop& loop = result.scenario->loops[i];
      const Flatness time = result.loops[i].report.time.kind;
      inconclusive += !loop.expected.leaves_time_open() && time == Flatness::kInconclusive ? 1 : 0;
      if (!loop.cured) continue;
      ++all_cured;
      const bool grows_otherwise = time == Flatness::kFlat && diagnose(result, i);
      ++cured[grows_otherwise ? Flatness::kGrowing : time];
    }
  }
  if (found.empty()) {
    found.push_back("none was found to slow down or grow");
    if (inconclusive > 0) found.push_back(fmt::format("{} inconclusive", inconclusive));
  }
  std::string text =
      fmt::format("Of {}, {}. {} of {} cured loops stay flat", isochron::count_text(loops, "loop"),
                  fmt::join(found, ", "), cured[Flatness::kFlat], all_cured);
  for (const Flatness kind : {Flatness::kGrowing, Flatness::kShrinking, Flatness::kInconclusive}) {
    if (cured[kind] > 0) text += fmt::format(", {} {}", cured[kind], flatness_name(kind));
  }
  return text + ".";
}

}  // namespace isochron::apps
