// `isochron analyze`: the verdict on another program's iterations, whose times are in a table or a log.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/read_times.h"
#include "isochron/apps/analyze/times/elapsed_times.h"
#include "isochron/apps/analyze/times/two_levels.h"
#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/output_files.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/page.h"
#include "isochron/observe/statistics/few_values.h"
#include "isochron/observe/statistics/series_verdict.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

using observe::Flatness;

struct Options {
  TimesOptions times;
  int64_t warmup = 0;
  double bound_percent = 5;
  std::filesystem::path out;
  std::filesystem::path json;
  bool require_flat = false;
};

struct Judged {
  std::string rank;
  observe::RunReport report;
};

/// Neighboring smoothed values share iterations. Values this far apart hardly share any.
constexpr size_t kFarApart = 5;  // "every fifth"

/// The verdict if there are too few values to form windows.
observe::FlatnessVerdict judge_few(std::span<const double> values, bool smoothed,
                                   const observe::FlatnessOptions& options) {
  if (!smoothed) return observe::judge_few_values(values, options);
  std::vector<double> apart;
  for (size_t i = 0; i < values.size(); i += kFarApart) apart.push_back(values[i]);
  observe::FlatnessVerdict verdict = observe::judge_few_values(apart, options);
  constexpr auto kApart = static_cast<double>(kFarApart);
  verdict.iterations_to_decide *= kApart;
  verdict.slope /= kApart;
  verdict.slope_interval = {verdict.slope_interval.low / kApart, verdict.slope_interval.high / kApart};
  verdict.warmup_windows *= static_cast<int>(kFarApart);
  verdict.change_point *= static_cast<int>(kFarApart);
  verdict.reason = "judged from every fifth value, because neighbors share iterations: " + verdict.reason;
  return verdict;
}

/// The resolution of times in ns: `written`, the value of their last digit; or if the same few values repeat,
/// as with a coarse clock, the smallest difference of two values, provided that all other differences are
/// multiples of it.
double resolution_of(std::span<const double> values, double written) {
  constexpr size_t kFew = 20, kRepeats = 2;
  constexpr double kSameMultiple = 1e-6, kLargest = 0.25;  // of the usual time; else two kinds of values
  std::vector<double> different(values.begin(), values.end());
  std::ranges::sort(different);
  different.erase(std::unique(different.begin(), different.end()), different.end());
  if (different.size() < 2 || different.size() > kFew || values.size() < kRepeats * different.size())
    return written;
  std::vector<double> distances;
  for (size_t i = 1; i < different.size(); ++i) distances.push_back(different[i] - different[i - 1]);
  const double least = std::ranges::min(distances);
  const auto is_multiple = [&](double distance) {
    const double ratio = distance / least;
    return std::abs(ratio - std::round(ratio)) <= kSameMultiple * ratio;
  };
  if (!std::ranges::all_of(distances, is_multiple) || least > kLargest * observe::median(values))
    return written;
  return std::max(written, least);
}

/// The largest rounding of any rank's times, as a share of its usual time.
double rounding_of(const IterationTimes& times) {
  double most = 0;
  for (const TimeSeries& series : times.series)
    most = std::max(most, times.resolution_ns / observe::median(series.ns));
  return most;
}

/// Makes a flat verdict inconclusive if at least half of the values are the same number and rounding may hide
/// a change beyond the bound. A change smaller than the last digit makes the values move to the next number
/// at most once, so one of the two numbers has half of the values.
void doubt_rounded(observe::FlatnessVerdict& verdict, std::span<const double> values, double resolution_ns) {
  constexpr double kMax = 0.5;
  const double resolution = resolution_ns / observe::median(values);
  if (verdict.kind != Flatness::kFlat || resolution <= verdict.bound) return;
  std::map<double, size_t> counts;
  for (const double value : values) ++counts[value];
  const size_t most =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->second;
  if (static_cast<double>(most) < kMax * static_cast<double>(values.size())) return;
  observe::doubt(verdict, fmt::format("most values are the same number, which is rounded to {:.3g} %",
                                      100 * resolution));
}

/// Least number of windows: of 64 values, a tenth may be cut off as warm-up.
constexpr int kWindows = 57;

observe::FlatnessVerdict judge(std::span<const double> values, const observe::RunData& data,
                               const IterationTimes& times) {
  observe::FlatnessVerdict verdict = values.size() < observe::kFewValues
                                         ? judge_few(values, times.smoothed, data.options.time)
                                         : observe::judge_time(data);
  doubt_rounded(verdict, values, times.resolution_ns);
  return verdict;
}

/// How bad a verdict is, and for comparison within one kind, how much changed.
std::pair<int, double> badness(const observe::FlatnessVerdict& verdict) {
  constexpr int kWeights[] = {0, 3, 1, 2};  // flat, growing, shrinking, inconclusive
  return {kWeights[static_cast<size_t>(verdict.kind)], std::fabs(verdict.largest.change)};
}

/// The verdict on all values or, if they alternate between two levels and a level grows more than the whole,
/// on that level.
observe::FlatnessVerdict judge_levels(std::span<const double> values, const observe::RunData& data,
                                      const IterationTimes& times) {
  const std::optional<TwoLevels> levels = two_levels(values);
  observe::FlatnessVerdict verdict = judge(values, data, times);
  if (!levels) return verdict;
  const double all = std::accumulate(values.begin(), values.end(), 0.0);
  const auto judge_level = [&](std::span<const double> level, std::string_view which) {
    const double share = std::accumulate(level.begin(), level.end(), 0.0) / all;
    if (share < observe::kMinorShare / 2 || level.size() < kFewestOfRank) return;
    observe::ReportOptions options = data.options;
    options.time.series *= 3;  // two levels and the whole
    options.unit = "such value";
    options.time.bound = observe::bound_of_class(options.time.bound, share);
    observe::FlatnessVerdict own = judge(level, observe::run_data(level, data.name, 0, options), times);
    if (own.kind != Flatness::kGrowing || badness(own) < badness(verdict)) return;
    own.reason = fmt::format("of the {} {} of {} values, {}", level.size(), which, values.size(), own.reason);
    verdict = std::move(own);
  };
  judge_level(levels->shorter, "shorter");
  judge_level(levels->longer, "longer");
  return verdict;
}

/// What positions in the series count: iterations, or values if the file doesn't list every iteration.
std::string unit_of(const IterationTimes& times, const Options& options) {
  const bool all = times.program.empty() && times.each.empty() && !options.times.allow_gaps;
  return all ? "iteration" : "value";
}

/// `together`: the number of series of ranks and phases that are judged together.
observe::RunReport judge(const TimeSeries& series, const IterationTimes& times, const std::string& name,
                         const Options& options, size_t together) {
  observe::ReportOptions report_options;
  report_options.time.bound = options.bound_percent / 100;
  report_options.time.min_seconds = 0;  // the times may have gaps, so their sum isn't the run's length
  report_options.time.series = static_cast<int>(together);
  report_options.time.min_windows = kWindows;
  report_options.unit = unit_of(times, options);
  const observe::RunData data = observe::run_data(series.ns, name, options.warmup, report_options);
  const std::span<const double> values = std::span(series.ns).subspan(static_cast<size_t>(options.warmup));
  observe::FlatnessVerdict verdict = judge_levels(values, data, times);
  observe::RunReport report = observe::make_report(data, std::move(verdict));
  if (!times.program.empty()) report.drift_seconds = std::nullopt;  // the log doesn't have all of its time
  return report;
}

/// The series that decides the overall verdict: the one that grew most, or else the least certain one.
size_t worst_of(const std::vector<Judged>& judged) {
  const auto of_rank = [](const Judged& one) { return badness(one.report.time); };
  return static_cast<size_t>(std::ranges::max_element(judged, {}, of_rank) - judged.begin());
}

std::vector<Judged> judge(const IterationTimes& times, const std::string& name, const Options& options,
                          size_t together) {
  std::vector<Judged> judged;
  for (const TimeSeries& series : times.series)
    judged.push_back({series.rank, judge(series, times, name, options, together)});
  return judged;
}

/// A phase that wasn't chosen.
struct OtherPhase {
  std::string name;
  size_t values = 0;
  double median_ns = 0;
  /// The verdict on the worst rank; nullopt if there are too few values or they look elapsed.
  std::optional<observe::FlatnessVerdict> verdict = {};

  bool grows() const { return verdict && verdict->kind == Flatness::kGrowing; }
};

std::vector<double> all_values(const IterationTimes& times) {
  std::vector<double> all;
  for (const TimeSeries& series : times.series) all.insert(all.end(), series.ns.begin(), series.ns.end());
  return all;
}

/// The other phases, those that grow first. All are judged together, with the error probability divided among
/// them.
std::vector<OtherPhase> judge_others(const IterationTimes& times, const std::string& name,
                                     const Options& options) {
  constexpr size_t kFewest = 5;
  size_t series = times.series.size();
  for (const IterationTimes& other : times.others) series += other.series.size();
  std::vector<OtherPhase> result;
  for (const IterationTimes& other : times.others) {
    const std::vector<double> all = all_values(other);
    OtherPhase& phase = result.emplace_back(OtherPhase{other.phase, all.size(), observe::median(all)});
    const auto can_be_judged = [&](const TimeSeries& one) {
      return one.ns.size() >= static_cast<size_t>(options.warmup) + kFewest &&
             observe::median(one.ns) >= observe::kMinDurationNs && !look_elapsed(one.ns);
    };
    if (!std::ranges::all_of(other.series, can_be_judged)) continue;
    const std::vector<Judged> judged = judge(other, name, options, series);
    phase.verdict = judged[worst_of(judged)].report.time;
  }
  std::ranges::stable_partition(result, &OtherPhase::grows);
  return result;
}

/// A count rounded up to three significant digits, for people.
std::string about(double count) {
  const double digit = std::pow(10, std::max(0.0, std::floor(std::log10(count)) - 2));
  return count < 1e7 ? fmt::format("{:.0f}", std::ceil(count / digit) * digit) : fmt::format("{:.3g}", count);
}

/// "12 values (Keras, phase 'Epoch'), each the mean time of a step over a progress bar of 20".
std::string values_text(const IterationTimes& times, int64_t count) {
  std::string from = times.program;
  if (!times.phase.empty())
    from += fmt::format("{}phase '{}'", from.empty() ? "" : ", ", quotation(times.phase, 80));
  return fmt::format("{}{}{}",
                     count_text(static_cast<size_t>(count), times.program.empty() ? "iteration" : "value"),
                     from.empty() ? "" : fmt::format(" ({})", from),
                     times.each.empty() ? "" : fmt::format(", each {}", times.each));
}

/// Remarks on what the times don't show, one line each.
std::vector<std::string> remarks(const IterationTimes& times, const std::vector<OtherPhase>& phases,
                                 const observe::RunReport& report) {
  const observe::FlatnessVerdict& verdict = report.time;
  const bool few =
      report.iterations < static_cast<int64_t>(observe::kFewValues) && verdict.warmup_windows > 0;
  std::vector<std::string> lines;
  std::string others;
  constexpr size_t kShown = 6;
  for (size_t i = 0; i < std::min(phases.size(), kShown); ++i) {
    const OtherPhase& other = phases[i];
    others += fmt::format("{}'{}' ({}, median {}", i == 0 ? "" : ", ", quotation(other.name, 80),
                          count_text(other.values, "value"), observe::duration_text(other.median_ns));
    if (other.verdict) others += fmt::format(", {}", observe::flatness_name(other.verdict->kind));
    if (other.grows()) others += " " + observe::percent(other.verdict->largest.change);
    others += ")";
  }
  if (phases.size() > kShown) others += fmt::format(" and {} more", phases.size() - kShown);
  if (!others.empty()) lines.push_back(fmt::format("other phases (choose one with --phase): {}", others));
  for (const std::string& note : times.notes) lines.push_back("note: " + note);
  constexpr double kCoarse = 0.01;
  if (const double rounding = rounding_of(times); rounding > kCoarse)
    lines.push_back(fmt::format("note: times are rounded to {:.3g} % of their size", 100 * rounding));
  if (few)
    lines.push_back(fmt::format(
        "note: fewer than {} values are judged by their trend, assuming that they are independent; the first "
        "{} left out as warm-up",
        observe::kFewValues,
        verdict.warmup_windows == 1 ? "is" : fmt::format("{} are", verdict.warmup_windows)));
  if (verdict.kind == Flatness::kGrowing)
    lines.emplace_back("note: times alone can't tell whether the program or the machine slowed down");
  return lines;
}

std::string json_of(const IterationTimes& times, const std::vector<OtherPhase>& phases,
                    const std::vector<Judged>& judged, size_t worst) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(to_json(judged[worst].report));
  Json source = {
      {"program", times.program}, {"phase", times.phase}, {"each", times.each}, {"notes", times.notes}};
  source["other_phases"] = Json::array();
  for (const OtherPhase& other : phases) {
    Json phase = {{"name", other.name}, {"values", other.values}, {"median_ns", other.median_ns}};
    if (other.verdict) {
      phase["kind"] = observe::flatness_name(other.verdict->kind);
      phase["change"] = other.verdict->largest.change;
    }
    source["other_phases"].push_back(std::move(phase));
  }
  source["ranks"] = Json::array();
  for (const Judged& one : judged) {
    if (!times.by_rank) continue;
    source["ranks"].push_back({{"rank", one.rank},
                               {"iterations", one.report.iterations},
                               {"median_ns", one.report.duration_ns.p50},
                               {"kind", observe::flatness_name(one.report.time.kind)},
                               {"change", one.report.time.largest.change}});
  }
  json["source"] = std::move(source);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string rank_text(const Judged& one) {
  return fmt::format("rank {}: {}, median {}, {}", quotation(one.rank, 40),
                     count_text(one.report.iterations, one.report.unit),
                     observe::duration_text(one.report.duration_ns.p50),
                     observe::verdict_text(one.report.time));
}

void print(const IterationTimes& times, const std::vector<OtherPhase>& phases,
           const std::vector<Judged>& judged, size_t worst, const std::string& name) {
  const observe::RunReport& report = judged[worst].report;
  fmt::print(
      "{}: {}{} median {}, p99 {}{}\n", name, values_text(times, report.iterations),
      times.each.empty() ? "," : ";", observe::duration_text(report.duration_ns.p50),
      observe::duration_text(report.duration_ns.p99),
      judged.size() > 1 ? fmt::format(" (rank {}, the worst)", quotation(judged[worst].rank, 40)) : "");
  if (judged.size() > 1) {
    for (const Judged& one : judged) fmt::print("{}\n", rank_text(one));
    fmt::print("the worst is rank {}:\n", quotation(judged[worst].rank, 40));
  }
  fmt::print("{}; {}\n", observe::verdict_text(report.time), report.time.reason);
  if (report.time.kind == Flatness::kInconclusive && std::isfinite(report.time.iterations_to_decide))
    fmt::print("about {} {} would be needed to decide\n", about(report.time.iterations_to_decide),
               times.program.empty() ? "iterations" : "such values");
  if (report.spikes.period)
    fmt::print("spikes recur every {} {}s\n", report.spikes.period->length, report.unit);
  for (const std::string& line : remarks(times, phases, report)) fmt::print("{}\n", line);
}

std::string page_of(const IterationTimes& times, const std::vector<OtherPhase>& phases,
                    const std::vector<Judged>& judged, size_t worst, const std::string& name) {
  const observe::RunReport& report = judged[worst].report;
  std::string body;
  if (!times.program.empty() || !times.each.empty())
    body += fmt::format("<p>{}.</p>\n", observe::escape_markup(values_text(times, report.iterations)));
  for (const Judged& one : judged) {
    if (judged.size() > 1) body += fmt::format("<p>{}.</p>\n", observe::escape_markup(rank_text(one)));
  }
  if (judged.size() > 1)
    body += fmt::format("<p>Rank {}, the worst:</p>\n", observe::escape_markup(judged[worst].rank));
  body += observe::run_section(report);
  for (const std::string& line : remarks(times, phases, report))
    body += fmt::format("<p class=\"small\">{}.</p>\n", observe::escape_markup(line));
  return observe::html_page(name, body);
}

void run(const Options& options) {
  const bool piped = options.times.path == "-";
  require_distinct({{"the file to read", piped ? "/dev/stdin" : options.times.path}},
                   {{"--out", options.out}, {"--json", options.json}});
  keep_standard_output_for({options.out, options.json});
  require_folder_of(options.out);
  require_folder_of(options.json);
  require(!piped || isatty(STDIN_FILENO) == 0, ErrorCode::kInvalidArgument, "analyze",
          "standard input is a terminal; name a file, or pipe a table or log in");
  IterationTimes times = read_times(options.times);
  for (const TimeSeries& series : times.series)
    times.resolution_ns = resolution_of(series.ns, times.resolution_ns);
  const std::string name = piped ? name_of("-") : quotation(options.times.path.filename().string());
  const std::vector<Judged> judged = judge(times, name, options, times.series.size());
  const std::vector<OtherPhase> phases = judge_others(times, name, options);
  const size_t worst = worst_of(judged);
  const observe::RunReport& report = judged[worst].report;
  print(times, phases, judged, worst, name);
  if (!options.json.empty()) write_output(options.json, json_of(times, phases, judged, worst));
  if (!options.out.empty()) {
    write_output(options.out, page_of(times, phases, judged, worst, name));
    fmt::print("the report is in {}\n", options.out.string());
  }
  if (!options.require_flat) return;
  if (report.time.kind != Flatness::kFlat)
    throw CheckFailed("the time of an iteration was not found to be flat: " + report.time.reason);
  for (const OtherPhase& other : phases) {
    if (options.times.phase.empty() && other.grows())
      throw CheckFailed(fmt::format("the time of another phase, '{}', grows: {}; --phase judges one alone",
                                    quotation(other.name, 80), other.verdict->reason));
  }
}

void add_sources(CLI::App& command, TimesOptions& times) {
  command.add_option("file", times.path,
                     "a table (CSV, also .gz; separated by commas, semicolons or tabs) with one row per "
                     "iteration, JSON Lines, or a log; - (the default): standard input");
  std::vector<CLI::Option*> of_tables = {
      command.add_option(
          "--column", times.column,
          "the column with the times: its name, or its number from 0 in a table without a header"),
      command.add_option(
          "--work", times.work,
          "the column with the amount of work of a row (tokens, samples): the time per amount is judged"),
      command.add_option("--rank", times.rank,
                         "the column with the process (rank) of a row: each rank is judged by itself"),
      command.add_option("--phase-column", times.phase_column,
                         "the column with the phase of a row: one phase is judged"),
      command.add_flag("--allow-gaps", times.allow_gaps,
                       "skip rows without a value, and a last row that is cut off")};
  CLI::Option* pattern = command.add_option(
      "--pattern", times.pattern,
      "for a log in an unknown format: a regular expression (RE2's syntax: Perl's without backreferences and "
      "look-around); its first group is the time, its second one, if any, the unit or a rate (it/s); the "
      "last match in a line counts");
  std::vector<std::string> formats;
  for (const LogFormat& format : log_formats()) formats.emplace_back(format.name);
  CLI::Option* format =
      command.add_option("--format", times.format, "the log's format; default: detected from its lines")
          ->check(CLI::IsMember(formats));
  CLI::Option* phase = command.add_option("--phase", times.phase,
                                          "the phase to judge; default: the one that takes most of the time");
  command
      .add_option("--unit", times.unit,
                  "unit of the times, or it/s for rates; default: taken from the column's name or the log")
      ->check(CLI::IsMember({"ns", "us", "ms", "s", "min", "it/s"}));
  for (CLI::Option* one : of_tables) one->excludes(pattern)->excludes(format);
  CLI::Option* elapsed = command.add_flag_callback(
      "--elapsed", [&times] { times.elapsed = true; },
      "the times are cumulative, counted from the start of the run: judge the differences between successive "
      "times");
  command
      .add_flag_callback(
          "--no-elapsed", [&times] { times.elapsed = false; },
          "the times are not cumulative, even if they look so (default: such times are refused)")
      ->excludes(elapsed);
  pattern->excludes(format)->excludes(phase);
}

}  // namespace

void add_analyze(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("analyze", "judge the iteration times that another program wrote to a table or log");
  add_sources(*command, options->times);
  command->add_option("--warmup", options->warmup, "number of iterations to leave out at the beginning")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      ->add_option("--bound", options->bound_percent, "the largest change, in %, that still counts as flat")
      ->check(bound_percent())
      ->capture_default_str();
  command->add_option("--out", options->out, "HTML file for the report");
  command->add_option("--json", options->json, "file for the result as JSON");
  command->add_flag("--require-flat", options->require_flat,
                    "exit with 1 unless the verdict is flat and, without --phase, no other phase grows");
  command->footer(
      "Logs in these formats are read without options: Keras, Lightning, tqdm, Hugging Face's Trainer,\n"
      "PyTorch's ImageNet example, torchvision's references, timm, fairseq, DeepSpeed, Detectron2, "
      "Megatron-LM,\n"
      "NeMo, MaxText, torchtitan, Ultralytics, TensorFlow's models, Marian, PaddlePaddle, ESPnet, Caffe, "
      "Darknet,\n"
      "and loops that print 'Epoch 3, Time: 1.23 seconds', 'step 100: 12.3 ms' or 'steps/s: 11.8'.\n"
      "If there are many progress bars, one per epoch, each bar gives one value; if there are few, each\n"
      "update of a bar does. Phases (training, validation) and ranks are kept apart.\n"
      "Of JSON Lines, --column names a key or a path of keys: --column train.step_ms.\n"
      "For other logs: --pattern 'took ([0-9.]+) (ms|s)'.\n"
      "A program's output can be piped in: python train.py 2>&1 | isochron analyze\n"
      "A verdict needs at least 5 values; with 64 or more it detects smaller changes.");
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
