// `isochron report`: recomputes the verdict and the page of a run from its record, or compares two runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/output_files.h"
#include "isochron/apps/run_files.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/export/page.h"
#include "isochron/observe/export/run_comparison.h"

namespace isochron::apps {
namespace {

using observe::RunRecord;
using observe::RunReport;

struct ReportOptions {
  std::filesystem::path path, other;
  double bound_percent = 0;  // 0: the run's own bound
  std::filesystem::path out, json;
  bool require_flat = false;
};

/// Reads a record. Names and values from the file are shortened and kept on one line.
RunRecord read(const std::filesystem::path& path, const ReportOptions& options) {
  constexpr size_t kLongestName = 200, kLongestValue = 1000;
  RunRecord record = observe::read_run_record(path);
  record.title = quotation(record.title, kLongestName);
  for (auto& [name, value] : record.settings) {
    name = quotation(name, kLongestName);
    value = quotation(value, kLongestValue);
  }
  for (observe::RecordPart& part : record.parts) {
    if (!part.run) continue;
    part.run->name = quotation(part.run->name, kLongestName);
    if (options.bound_percent > 0) part.run->options.time.bound = options.bound_percent / 100;
  }
  return record;
}

std::vector<RunReport> reports_of(const RunRecord& record) {
  std::vector<RunReport> reports;
  for (const observe::RecordPart& part : record.parts) {
    if (part.run) reports.push_back(make_report(*part.run));
  }
  return reports;
}

void write_page(const std::filesystem::path& path, const RunRecord& record) {
  write_output(path, observe::record_page(record));
  fmt::print("the report is in {}\n", path.string());
}

/// The run folders in a folder that isn't a run folder itself. Adds folders that can't be read to
/// `unreadable`.
std::vector<std::filesystem::path> runs_within(const std::filesystem::path& path,
                                               std::vector<std::filesystem::path>* unreadable = nullptr) {
  std::vector<std::filesystem::path> folders;
  if (!std::filesystem::is_directory(path) || std::filesystem::exists(path / observe::kRunRecordFile))
    return folders;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    std::error_code unknown;
    if (std::filesystem::exists(entry.path() / observe::kRunRecordFile, unknown))
      folders.push_back(entry.path());
    if (unknown && unreadable != nullptr) unreadable->push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

void tell_unreadable(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> folders;
  runs_within(path, &folders);
  if (folders.empty()) return;
  std::ranges::sort(folders);
  const std::string others = folders.size() > 1 ? fmt::format(" and {} more", folders.size() - 1) : "";
  fmt::print("note: left out, because it can't be read: {}{}\n", folders.front().string(), others);
}

/// Whether a later run in this folder hasn't finished: a run writes run.json at its end, after live.json.
bool later_run_is_unfinished(const std::filesystem::path& folder) {
  std::error_code missing;
  const auto live = std::filesystem::last_write_time(folder / train::kLiveFile, missing);
  return !missing && live > std::filesystem::last_write_time(folder / observe::kRunRecordFile, missing) &&
         !missing;
}

void report_one(const ReportOptions& options) {
  const std::vector<std::filesystem::path> runs = runs_within(options.path);
  require(runs.empty(), ErrorCode::kInvalidArgument, options.path.string(),
          "has no {}; runs are in {} of it, such as {}; name one of these, or two folders of such runs",
          observe::kRunRecordFile, count_text(static_cast<int64_t>(runs.size()), "folder"),
          runs.empty() ? "" : runs.front().filename().string());
  const RunRecord record = read(options.path, options);
  const std::vector<RunReport> reports = reports_of(record);
  require(!reports.empty(), ErrorCode::kBadFormat, options.path.string(), "contains no run");
  fmt::print("{}\n\n{}", record.title, observe::summary_text(reports));
  if (later_run_is_unfinished(options.path))
    fmt::print(
        "note: {} is newer than {}: a later run in this folder is still running or was killed; this is "
        "the run before it\n",
        train::kLiveFile, observe::kRunRecordFile);
  if (!options.json.empty()) {
    std::string list;
    for (const RunReport& report : reports) list += (list.empty() ? "" : ",\n") + to_json(report);
    write_output(options.json, "[" + list + "]\n");
  }
  const bool folder = std::filesystem::is_directory(options.path);
  if (!options.out.empty() || folder)
    write_page(options.out.empty() ? options.path / kPageFile : options.out, record);
  if (!options.require_flat) return;
  for (const RunReport& report : reports) {
    if (report.time.kind == observe::Flatness::kFlat) continue;
    throw CheckFailed(fmt::format("the time of an iteration of '{}' was not found to be flat: {}",
                                  report.name, report.time.reason));
  }
}

/// Adds the files of a run, which must not be overwritten. The page is left out, because it is made again.
void add_inputs(std::vector<NamedFile>& inputs, const std::filesystem::path& path) {
  std::vector<std::filesystem::path> folders = runs_within(path);
  if (std::filesystem::is_directory(path)) folders.push_back(path);
  if (folders.empty()) inputs.push_back({"the run to read", path});
  for (const std::filesystem::path& folder : folders) {
    for (NamedFile& file : files_of_run(folder)) {
      if (file.path.filename() != kPageFile) inputs.push_back(std::move(file));
    }
  }
}

void require_distinct_files(const ReportOptions& options) {
  std::vector<NamedFile> inputs, outputs = {{"--json", options.json}, {"--out", options.out}};
  add_inputs(inputs, options.path);
  if (!options.other.empty()) add_inputs(inputs, options.other);
  const bool page = options.out.empty() && std::filesystem::is_directory(options.path);
  if (page) outputs.insert(outputs.begin(), {"the page", options.path / kPageFile});
  require_distinct(inputs, outputs);
}

/// Reads the run in a folder or file, or the runs in the folders within a folder.
std::vector<RunRecord> read_runs(const std::filesystem::path& path, const ReportOptions& options) {
  std::vector<std::filesystem::path> folders = runs_within(path);
  if (folders.empty()) folders.push_back(path);
  std::vector<RunRecord> records;
  for (const std::filesystem::path& folder : folders) records.push_back(read(folder, options));
  return records;
}

void report_both(const ReportOptions& options) {
  const observe::RunComparison comparison =
      observe::compare_records(read_runs(options.path, options), read_runs(options.other, options));
  const std::string names[] = {options.path.string(), options.other.string()};
  fmt::print("{}", observe::comparison_text(comparison, names[0], names[1]));
  if (!options.out.empty())
    write_page(options.out, observe::comparison_record(comparison, names[0], names[1]));
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      app.add_subcommand("report", "judge a recorded run again and write its page, or compare two runs");
  command->add_option("run", options->path, "folder that `train --out` wrote, or its run.json")->required();
  command->add_option("other", options->other,
                      "a second run, to compare with the first; either may also be a folder that contains "
                      "the folders of several runs");
  command
      ->add_option("--bound", options->bound_percent,
                   "the largest change, in %, that still counts as flat, for one run; default: the one it "
                   "was made with")
      ->check(bound_percent());
  command->add_option(
      "--out", options->out,
      "HTML file for the page; default: report.html in the run's folder, and no page for two runs");
  command->add_option("--json", options->json, "file for the verdicts on one run, as a JSON list");
  command->add_flag("--require-flat", options->require_flat,
                    "exit with 1 unless the verdict on one run is flat");
  command->callback([options] {
    require_distinct_files(*options);
    keep_standard_output_for({options->json, options->out});
    tell_unreadable(options->path);
    if (!options->other.empty()) tell_unreadable(options->other);
    require_folder_of(options->out);
    require_folder_of(options->json);
    if (options->other.empty()) return report_one(*options);
    require(options->json.empty() && !options->require_flat && options->bound_percent == 0,
            ErrorCode::kInvalidArgument, "report", "{} is for one run; with two runs, use --out",
            !options->json.empty()  ? "--json"
            : options->require_flat ? "--require-flat"
                                    : "--bound");
    report_both(*options);
  });
}

}  // namespace isochron::apps
