// `isochron analyze`: the verdict on another program's iterations, by their times in a table or a log.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "isochron/apps/commands.h"
#include "isochron/apps/iteration_times.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/file.h"
#include "isochron/core/terminal_text.h"
#include "isochron/observe/page.h"
#include "isochron/observe/report.h"

namespace isochron::apps {
namespace {

struct Options {
  TimesOptions times;
  int64_t warmup = 0;
  double bound_percent = 5;
  std::filesystem::path out;
  std::filesystem::path json;
  bool require_flat = false;
};

void run(const Options& options) {
  require_folder_of(options.out);
  require_folder_of(options.json);
  const std::vector<double> times = read_times(options.times);
  observe::ReportOptions report_options;
  report_options.time.bound = options.bound_percent / 100;
  report_options.time.min_seconds = 0;  // times between other things don't add up to a run's length
  const bool piped = options.times.path == "-";
  const std::string name = piped ? name_of("-") : quotation(options.times.path.filename().string());
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
      ->add_option(
          "file", options->times.path,
          "CSV (also .gz; separated by , or ; or tabs), a row an iteration; with --pattern any text; - is "
          "standard input, and a pipe will do")
      ->required();
  CLI::Option* column = command->add_option(
      "--column", options->times.column,
      "the table's column of times: its name, or in a table without a header its number from 0");
  command
      ->add_option("--pattern", options->times.pattern,
                   "regular expression (RE2's syntax: Perl's without back references and look-around) whose "
                   "first group "
                   "is the time in each line of a log, its second the unit")
      ->excludes(column);
  command
      ->add_option("--unit", options->times.unit,
                   "of the times; default: as the column's name or the pattern says")
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
