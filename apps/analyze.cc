// `isochron analyze`: the verdict on another program's iterations, by their times in a table or a log.
#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
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
          "nothing says in which unit the times are; give --unit ns, us, ms, s or min");
  return *found;
}

bool is_number(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  double value = 0;
  return std::from_chars(field.data(), field.data() + field.size(), value).ec == std::errc();
}

/// In ns, of a time that the file gives in units of `unit` ns.
double time_ns(double value, double unit, const std::string& where) {
  require(value > 0, ErrorCode::kBadFormat, where, "expected a time above 0, got {}", value);
  return value * unit;
}

/// What the first line has most of, in front of the others; a comma where it has none.
char separator_of(std::string_view line) {
  constexpr std::string_view kSeparators = ",;\t";
  return *std::ranges::max_element(kSeparators, {}, [&](char c) { return std::ranges::count(line, c); });
}

/// A table's column of times: the one named, or the only one.
std::vector<double> times_of_table(const Options& options) {
  std::string first;
  data::TextLineReader(options.path).next(first);
  const char separator = separator_of(first);
  data::CsvOptions csv{.header = !is_number(first.substr(0, first.find(separator))), .separator = separator};
  if (!options.column.empty()) {
    csv.columns = {options.column};
  } else {
    const bool several = first.find(separator) != std::string::npos;
    require(!several, ErrorCode::kInvalidArgument, options.path.string(),
            "has several columns ({}); say which holds the times with --column", first.substr(0, 200));
  }
  data::CsvReader rows(options.path, csv);
  const double unit = chosen_unit(
      options, rows.names().empty() ? std::nullopt : unit_of_name(rows.names()[0]), options.path.string());
  std::vector<double> times;
  for (double value = 0; rows.next({&value, 1});)
    times.push_back(time_ns(value, unit, fmt::format("{}, line {}", options.path.string(), rows.line())));
  return times;
}

/// A POSIX extended regular expression with a group for the time, and perhaps one for its unit.
class TimePattern {
 public:
  explicit TimePattern(const std::string& text) {
    const int error = ::regcomp(&expression_, text.c_str(), REG_EXTENDED);
    char why[200] = {};
    if (error != 0) ::regerror(error, &expression_, why, sizeof why);
    require(error == 0, ErrorCode::kInvalidArgument, "--pattern", "'{}' is no regular expression: {}", text,
            why);
    if (expression_.re_nsub > 0) return;
    ::regfree(&expression_);
    fail(ErrorCode::kInvalidArgument, "--pattern", "'{}' has no group in round brackets for the time", text);
  }
  TimePattern(const TimePattern&) = delete;
  TimePattern& operator=(const TimePattern&) = delete;
  ~TimePattern() { ::regfree(&expression_); }

  /// The groups' texts, empty for what isn't there; nothing where the line doesn't match.
  std::optional<std::pair<std::string, std::string>> find(const std::string& line) const {
    regmatch_t groups[3];
    if (::regexec(&expression_, line.c_str(), 3, groups, 0) != 0) return std::nullopt;
    const auto text = [&](const regmatch_t& group) {
      return group.rm_so < 0 ? std::string()
                             : line.substr(static_cast<size_t>(group.rm_so),
                                           static_cast<size_t>(group.rm_eo - group.rm_so));
    };
    return std::pair(text(groups[1]), text(groups[2]));
  }

 private:
  regex_t expression_;
};

/// A time from each line of a log in which the pattern is found: its first group, in the unit of its second.
std::vector<double> times_of_log(const Options& options) {
  const TimePattern pattern(options.pattern);
  data::TextLineReader lines(options.path);
  std::vector<double> times;
  for (std::string line; lines.next(line);) {
    const auto found = pattern.find(line);
    if (!found) continue;
    const auto& [number, unit] = *found;
    const std::string where = fmt::format("{}, line {}", options.path.string(), lines.position().lines);
    double value = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    require(error == std::errc() && rest == number.data() + number.size(), ErrorCode::kBadFormat, where,
            "'{}' is no number", number);
    times.push_back(time_ns(value, chosen_unit(options, unit_ns(unit), where), where));
  }
  require(!times.empty(), ErrorCode::kBadFormat, options.path.string(),
          "the pattern '{}' is in none of {} lines", options.pattern, lines.position().lines);
  return times;
}

void run(const Options& options) {
  require_folder_of(options.out);
  require_folder_of(options.json);
  const std::vector<double> times = options.pattern.empty() ? times_of_table(options) : times_of_log(options);
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
  command
      ->add_option("file", options->path,
                   "CSV (also .gz; separated by , or ; or tabs), a row an iteration; with --pattern any text")
      ->required();
  CLI::Option* column = command->add_option(
      "--column", options->column,
      "the table's column of times: its name, or in a table without a header its number from 0");
  command
      ->add_option(
          "--pattern", options->pattern,
          "POSIX extended regular expression whose first group is the time in each line of a log, its "
          "second the unit")
      ->excludes(column);
  command
      ->add_option("--unit", options->unit, "of the times; default: as the column's name or the pattern says")
      ->check(CLI::IsMember({"ns", "us", "ms", "s", "min"}));
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
