// `isochron compare`: runs the documents' loops, slow and cured, side by side.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "isochron/apps/commands.h"
#include "isochron/apps/compare/diagnosis.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/compare/run.h"
#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tally.h"
#include "isochron/apps/compare/text.h"
#include "isochron/apps/device_option.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/output_files.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/text/count_text.h"

namespace isochron::apps {
namespace {

struct Options {
  std::vector<std::string> scenarios;
  CompareOptions run;
  Device device = {};
  std::filesystem::path out = "isochron-compare";
  std::filesystem::path json;
  int threads = 0;
  int repeat = 1;
  bool require_expected = false;
  std::string told;  // text to print before anything runs
};

struct ScenarioEntry {
  std::string name;
  Scenario (*make)(Device device);
  bool on_devices = false;  // false: it runs only on the CPU
};

template <Scenario (*make)()>
Scenario on_cpu(Device) {
  return make();
}

const std::vector<ScenarioEntry>& known_scenarios() {
  static const std::vector<ScenarioEntry> list = {{"growing-graph", on_cpu<growing_graph_scenario>},
                                                  {"long-run", on_cpu<long_run_scenario>},
                                                  {"every-epoch", on_cpu<every_epoch_scenario>},
                                                  {"gpu-memory", gpu_memory_scenario, true},
                                                  {"transfers", transfers_scenario, true}};
  return list;
}

std::string scenario_names() {
  std::string text;
  for (const ScenarioEntry& entry : known_scenarios()) text += (text.empty() ? "" : ", ") + entry.name;
  return text;
}

/// Throws kInvalidArgument for an unknown name, and kUnsupported for a scenario that doesn't run on `device`.
const ScenarioEntry& find_scenario(const std::string& name, Device device) {
  for (const ScenarioEntry& entry : known_scenarios()) {
    if (entry.name != name) continue;
    require(device.is_cpu() || entry.on_devices, ErrorCode::kUnsupported, "compare",
            "{} runs on the CPU only; the scenarios for {} are gpu-memory and transfers", name, device.str());
    return entry;
  }
  fail(ErrorCode::kInvalidArgument, "compare", "no scenario '{}'; scenarios are {}", name, scenario_names());
}

/// The requested scenarios, or all that run on the device. The order is that of the list of scenarios.
std::vector<Scenario> make_scenarios(const Options& options) {
  std::vector<Scenario> scenarios;
  for (const ScenarioEntry& entry : known_scenarios()) {
    const bool asked = options.scenarios.empty() ? options.device.is_cpu() || entry.on_devices
                                                 : std::ranges::count(options.scenarios, entry.name) > 0;
    if (asked) scenarios.push_back(entry.make(options.device));
  }
  return scenarios;
}

/// "ops added in the loop" as a file name.
std::string file_name(const std::string& loop) {
  std::string name;
  for (char c : loop) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return name;
}

nlohmann::json loop_json(const Loop& loop, const LoopResult& result) {
  nlohmann::json object = nlohmann::json::parse(to_json(result.report, -1));
  object["what"] = loop.what;
  object["cured"] = loop.cured;
  object["verdict"] = observe::flatness_name(result.report.time.kind);
  object["settled"] = result.settled;
  object["work_per_iteration"] = loop.work_per_iteration;
  object["iterations_per_epoch"] = loop.iterations_per_epoch;
  object["epochs_ns"] = result.epochs_ns;
  object["notes"] = result.notes;
  object["as_expected"] = result.deviations.empty();
  object["deviations"] = nlohmann::json::array();
  for (const Deviation& deviation : result.deviations) object["deviations"].push_back(deviation.text);
  return object;
}

nlohmann::json scenario_json(const ScenarioResult& result) {
  nlohmann::json object = {{"scenario", result.scenario->name},   {"complaint", result.scenario->complaint},
                           {"summary", result.scenario->summary}, {"diagnoses", nlohmann::json::array()},
                           {"loops", nlohmann::json::array()},    {"tables", nlohmann::json::array()}};
  for (size_t i = 0; i < result.loops.size(); ++i) {
    object["loops"].push_back(loop_json(result.scenario->loops[i], result.loops[i]));
  }
  for (const Diagnosis& diagnosis : diagnoses_of(result)) {
    object["diagnoses"].push_back({{"loop", diagnosis.loop},
                                   {"what", diagnosis.what},
                                   {"since", diagnosis.since},
                                   {"also", diagnosis.also}});
  }
  for (const observe::Table& table : result.tables) {
    object["tables"].push_back(
        {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}, {"says", table.says}});
  }
  return object;
}

std::string json_text(std::span<const ScenarioResult> results, Device device) {
  nlohmann::json document = {
      {"device", device.str()}, {"headline", headline(results)}, {"scenarios", nlohmann::json::array()}};
  for (const ScenarioResult& result : results) document["scenarios"].push_back(scenario_json(result));
  return document.dump(2) + "\n";
}

/// One row per epoch and loop: scenario, loop, epoch, iterations (the document's), ns.
std::string epochs_csv(const ScenarioResult& result) {
  std::string text = "scenario,loop,epoch,iterations,ns\n";
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.scenario->loops[i];
    int epoch = 0;
    for (const double ns : result.loops[i].epochs_ns)
      text += fmt::format("{},\"{}\",{},{},{:.0f}\n", result.scenario->name, loop.name, ++epoch,
                          loop.iterations_per_epoch * loop.work_per_iteration, ns);
  }
  return text;
}

std::string figure_name(std::string_view scenario) { return fmt::format("{}.svg", scenario); }
std::string epochs_name(std::string_view scenario) { return fmt::format("{}-epochs.csv", scenario); }

/// Writes the page, the data behind it, each scenario's figure and epochs, and each loop's windows.
void write_results(std::span<const ScenarioResult> results, Device device,
                   const std::filesystem::path& folder) {
  make_folder(folder);
  for (const ScenarioResult& result : results) {
    if (const std::string figure = scenario_figure(result); !figure.empty()) {
      write_file_atomically(folder / figure_name(result.scenario->name), figure);
    }
    write_file_atomically(folder / epochs_name(result.scenario->name), epochs_csv(result));
    for (const LoopResult& loop : result.loops) {
      const std::string name = fmt::format("{}-{}.csv", result.scenario->name, file_name(loop.report.name));
      write_file_atomically(folder / name, to_csv(loop.report));
    }
  }
  write_file_atomically(folder / "compare.json", json_text(results, device));
  write_file_atomically(folder / "report.html", compare_page(results, device));
}

/// One run of all requested scenarios, written to `folder`.
void run_once(const Options& options, const std::filesystem::path& folder, Tally& tally) {
  const std::vector<Scenario> scenarios = make_scenarios(options);
  const std::vector<ScenarioResult> results = run_scenarios(scenarios, options.run, [&](const auto& result) {
    fmt::print("{}", scenario_text(result, options.run));
    std::fflush(stdout);
  });
  tally.add(results);
  write_results(results, options.device, folder);
  if (!options.json.empty()) write_output(options.json, json_text(results, options.device));
  fmt::print("\n{} {}\n{}.\nThe report is in {}; figures, JSON and CSV files are in the same folder.\n",
             headline(results), device_text(options.device), tally.latest_text(),
             (folder / "report.html").string());
  std::fflush(stdout);
}

/// Checks the output files whose names are known before anything runs.
void require_distinct_files(const Options& options) {
  std::vector<NamedFile> outputs;
  const auto add = [&](const std::string& name) {
    outputs.push_back({name + " of --out", options.out / name});
  };
  for (const char* name : {"report.html", "tally.json"}) add(name);
  for (const ScenarioEntry& entry : known_scenarios()) {
    add(figure_name(entry.name));
    add(epochs_name(entry.name));
  }
  outputs.push_back({"--json", options.json});
  require_distinct({}, outputs);
}

void run(const Options& options) {
  for (const std::string& name : options.scenarios) find_scenario(name, options.device);
  if (options.threads > 0) set_compute_threads(options.threads);
  require_distinct_files(options);
  require(options.json != "-" || options.repeat == 1, ErrorCode::kInvalidArgument, "--json",
          "'-' takes one result, but --repeat gives {}; name a file", options.repeat);
  keep_standard_output_for({options.json});
  require_folder_of(options.json);
  const auto locks = make_own_folders({options.out});

  fmt::print("{}", options.told);
  Tally tally;
  for (int i = 1; i <= options.repeat; ++i) {
    if (options.repeat > 1) fmt::print("\nRun {} of {}\n", i, options.repeat);
    run_once(options, options.repeat > 1 ? options.out / fmt::format("run-{}", i) : options.out, tally);
    if (options.repeat == 1) continue;
    write_file_atomically(options.out / "tally.json", tally.json().dump(2) + "\n");  // after every run
    fmt::print("\n{}", tally.text());
    std::fflush(stdout);
  }
  if (options.require_expected && tally.not_as_expected() > 0) {
    throw CheckFailed(fmt::format("{} did not give the expected result",
                                  isochron::count_text(tally.not_as_expected(), "loop")));
  }
}

/// Sets the defaults of `--long` for the options that were not given.
void run_at_length(CompareOptions& run, const CLI::App& command) {
  run.at_length = true;
  if (command.count("--seconds") == 0) run.seconds = 20;
  if (command.count("--budget") == 0) run.budget_seconds = 1800;
}

/// If --budget is given, each loop gets its share of it. It is an error if --seconds is given too and doesn't
/// fit into the budget.
void share_budget(Options& options, const CLI::App& command) {
  if (command.count("--budget") == 0) return;
  for (const std::string& name : options.scenarios) find_scenario(name, options.device);
  const double asked = options.run.seconds;
  fit_budget(make_scenarios(options), options.run);
  if (options.run.seconds == asked) return;
  require(command.count("--seconds") == 0, ErrorCode::kInvalidArgument, "--budget",
          "{:g} s are too few for loops of {:g} s; leave --seconds out, or make it at most {:g}",
          options.run.budget_seconds, asked, std::floor(100 * options.run.seconds) / 100);
  options.told = fmt::format("each loop runs for {:.2g} s, its share of --budget {:g}\n", options.run.seconds,
                             options.run.budget_seconds);
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto at_length = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "compare",
      "run training loops that are known to slow down, next to cured ones, with a verdict on each");
  command->add_option("scenarios", options->scenarios,
                      "scenarios to run: " + scenario_names() + "; default: all");
  add_device_option(*command, options->device, "device to run on; on cuda: gpu-memory and transfers only");
  command
      ->add_option("--epochs", options->run.epochs,
                   "number of epochs to time one by one; a loop goes on until its verdict is settled")
      ->check(whole_number(1, INT32_MAX))
      ->capture_default_str();
  command->add_option("--iterations", options->run.iterations, "stop each loop after this many iterations")
      ->check(whole_number(0));
  command
      ->add_option("--seconds", options->run.seconds,
                   "seconds that each loop runs before its first verdict; 20 with --long")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--budget", options->run.budget_seconds,
                   "seconds for all loops together: each loop runs for its share, and none is extended "
                   "beyond them; 1800 with --long")
      ->check(positive_number())
      ->capture_default_str();
  command->add_flag(
      "--long", *at_length,
      "run for longer: 20 s per loop, half an hour in total, ten times the iterations of long-run");
  command
      ->add_option(
          "--repeat", options->repeat,
          "run everything this many times, each into a folder run-N, and count the results of each loop")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "compute threads")
      ->check(whole_number(1, kMaxComputeThreads));
  command
      ->add_option("--out", options->out,
                   "folder for report.html, compare.json, each scenario's figure (SVG) and epochs, each "
                   "loop's windows (CSV)")
      ->capture_default_str();
  command->add_option("--json", options->json, "file for the whole result as JSON");
  command->add_flag("--verbose", options->run.verbose,
                    "print every epoch, the numbers and reasons behind each verdict, and all tables");
  command->add_flag("--require-expected", options->require_expected,
                    "exit with 1 unless every loop gives the expected result");
  command->callback([options, at_length, command] {
    if (*at_length) run_at_length(options->run, *command);
    share_budget(*options, *command);
    run(*options);
  });
}

}  // namespace isochron::apps
