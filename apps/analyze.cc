// `isochron analyze`: the verdict on another program's iterations, by their times in a table or a log.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/error.h"
#include "isochron/core/file.h"
#include "isochron/data/csv.h"
#include "isochron/data/text_lines.h"
#include "isochron/observe/page.h"
#include "isochron/observe/report.h"

namespace isochron::apps {
namespace {

struct Options {
  std::filesystem::path path;
  std::string column;
  std::string pattern;
  std::string unit;
  int64_t warmup = 0;
  double bound_percent = 5;
  std::filesystem::path out;
  std::filesystem::path json;
  bool require_flat = false;
};

/// In ns; nothing for a text that names no unit.
std::optional<double> unit_ns(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1},  {"us", 1e3},  {"\u00b5s", 1e3}, {"\u03bcs", 1e3}, {"ms", 1e6},
      {"s", 1e9}, {"sec", 1e9}, {"seconds", 1e9}, {"min", 60e9}};
  for (const auto& [name, ns] : kUnits) {
    if (unit == name) return ns;
  }
  return std::nullopt;
}

/// The unit of a column called "step_ms", "time (s)" or "seconds".
std::optional<double> unit_of_name(std::string_view name) {
  while (!name.empty() && (name.back() == ')' || name.back() == ' ' || name.back() == ']'))
    name.remove_suffix(1);
  const size_t before = name.find_last_of("_ ([-/");
  return unit_ns(before == std::string_view::npos ? name : name.substr(before + 1));
}

double chosen_unit(const Options& options, std::optional<double> found, const std::string& where) {
  if (!options.unit.empty()) return unit_ns(options.unit).value();  // one of those the parser lets pass
  require(found.has_value(), ErrorCode::kInvalidArgument, where,
          "nothing says in which unit the times are; give --unit ns, us, ms or s");
  return *found;
}

bool is_number(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  double value = 0;
  return std::from_chars(field.data(), field.data() + field.size(), value).ec == std::errc();
}

/// A table's column of times: the one named, or the only one.
std::vector<double> times_of_table(const Options& options) {
  std::string first;
  data::TextLineReader(options.path).next(first);
  data::CsvOptions csv{.header = !is_number(first.substr(0, first.find(',')))};
  if (!options.column.empty()) {
    csv.columns = {options.column};
  } else {
    const bool several = first.find(',') != std::string::npos;
    require(!several, ErrorCode::kInvalidArgument, options.path.string(),
            "has several columns ({}); say which holds the times with --column", first.substr(0, 200));
  }
  const data::CsvTable table = data::read_csv(options.path, csv);
  const double unit =
      chosen_unit(options, table.names.empty() ? std::nullopt : unit_of_name(table.names[0]), table.where);
  std::vector<double> times;
  for (const double value : table.values.span<double>()) times.push_back(value * unit);
  return times;
}

/// A time from each line of a log in which the pattern is found: its first group, in the unit of its second.
std::vector<double> times_of_log(const Options& options) {
  constexpr size_t kLongestLine = 4096;  // what follows isn't searched: the library's search is recursive
  std::regex pattern;
  try {
    pattern = std::regex(options.pattern);
  } catch (const std::regex_error& error) {
    fail(ErrorCode::kInvalidArgument, "--pattern", "'{}' is no regular expression: {}", options.pattern,
         error.what());
  }
  require(pattern.mark_count() >= 1, ErrorCode::kInvalidArgument, "--pattern",
          "'{}' has no group in round brackets for the time", options.pattern);
  data::TextLineReader lines(options.path);
  std::vector<double> times;
  for (std::string line; lines.next(line);) {
    line.resize(std::min(line.size(), kLongestLine));
    std::smatch match;
    if (!std::regex_search(line, match, pattern)) continue;
    const std::string where = fmt::format("{}, line {}", options.path.string(), lines.position().lines);
    const std::string number = match[1].str();
    double value = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    require(error == std::errc() && rest == number.data() + number.size(), ErrorCode::kBadFormat, where,
            "'{}' is no number", number);
    const std::string unit = match.size() > 2 ? match[2].str() : "";
    times.push_back(value * chosen_unit(options, unit_ns(unit), where));
  }
  require(!times.empty(), ErrorCode::kBadFormat, options.path.string(),
          "the pattern '{}' is in none of {} lines", options.pattern, lines.position().lines);
  return times;
}

void run(const Options& options) {
  require_folder_of(options.out);
  require_folder_of(options.json);
  const std::vector<double> times = options.pattern.empty() ? times_of_table(options) : times_of_log(options);
  for (size_t i = 0; i < times.size(); ++i) {
    require(times[i] > 0, ErrorCode::kBadFormat, options.path.string(),
            "time {} of {} is {}; expected one above 0", i + 1, times.size(), times[i]);
  }
  observe::ReportOptions report_options;
  report_options.time.bound = options.bound_percent / 100;
  report_options.time.min_seconds = 0;  // times between other things don't add up to a run's length
  const std::string name = options.path.filename().string();
  const observe::RunReport report = observe::make_report(times, name, options.warmup, report_options);
  fmt::print("{}: {} iterations, median {}, 99 % within {}\n{}; {}\n", name, report.iterations,
             observe::duration_text(report.duration_ns.p50), observe::duration_text(report.duration_ns.p99),
             observe::verdict_text(report.time), report.time.reason);
  if (report.time.kind == observe::Flatness::kInconclusive && std::isfinite(report.time.iterations_to_decide))
    fmt::print("about {:.3g} iterations would decide\n", report.time.iterations_to_decide);
  if (report.spikes.period) fmt::print("spikes return every {} iterations\n", report.spikes.period->length);
  if (!options.json.empty()) write_file_atomically(options.json, to_json(report) + "\n");
  if (!options.out.empty()) {
    write_file_atomically(options.out, observe::html_page(name, observe::run_section(report)));
    fmt::print("the report is in {}\n", options.out.string());
  }
  if (options.require_flat && report.time.kind != observe::Flatness::kFlat)
    throw CheckFailed("the time of an iteration is not found flat: " + report.time.reason);
}

}  // namespace

void add_analyze(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "analyze", "the verdict on iteration times that another program wrote to a table or log");
  command->add_option("file", options->path, "CSV (also .gz), a row an iteration; with --pattern any text")
      ->required();
  command->add_option(
      "--column", options->column,
      "the table's column of times: its name, or in a table without a header its number from 0");
  command->add_option(
      "--pattern", options->pattern,
      "regular expression whose first group is the time in each line of a log, its second the unit");
  command
      ->add_option("--unit", options->unit, "of the times; default: as the column's name or the pattern says")
      ->check(CLI::IsMember({"ns", "us", "ms", "s"}));
  command->add_option("--warmup", options->warmup, "iterations at the beginning to leave out")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--bound", options->bound_percent, "the largest change in % that is still flat")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--out", options->out, "HTML file for the report");
  command->add_option("--json", options->json, "file for the result as JSON");
  command->add_flag("--require-flat", options->require_flat, "exit with 1 unless the verdict is flat");
  command->footer(
      "Logs: --pattern '([0-9.]+)(ms|us|s)/step' for Keras, --pattern 'Time: ([0-9.]+) (seconds)' for a loop "
      "that\n"
      "prints its epochs. A verdict needs 64 iterations.");
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
