// `isochron compare`: the documents' loops, slow and cured side by side.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "isochron/apps/commands.h"
#include "isochron/apps/compare/chapter.h"
#include "isochron/apps/compare/diagnosis.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/compare/run.h"
#include "isochron/apps/compare/tally.h"
#include "isochron/apps/compare/text.h"
#include "isochron/apps/device_option.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/error.h"
#include "isochron/core/file.h"
#include "isochron/core/threads.h"

namespace isochron::apps {
namespace {

struct Options {
  std::vector<std::string> chapters;
  CompareOptions run;
  Device device = {};
  std::filesystem::path out = "isochron-compare";
  std::filesystem::path json;
  int threads = 0;
  int repeat = 1;
  bool require_expected = false;
};

struct ChapterEntry {
  std::string name;
  Chapter (*make)(Device device);
  bool on_devices = false;  // else on the CPU alone
};

template <Chapter (*make)()>
Chapter on_cpu(Device) {
  return make();
}

const std::vector<ChapterEntry>& known_chapters() {
  static const std::vector<ChapterEntry> list = {{"growing-graph", on_cpu<growing_graph_chapter>},
                                                 {"long-run", on_cpu<long_run_chapter>},
                                                 {"every-epoch", on_cpu<every_epoch_chapter>},
                                                 {"gpu-memory", gpu_memory_chapter, true},
                                                 {"transfers", transfers_chapter, true}};
  return list;
}

std::string chapter_names() {
  std::string text;
  for (const ChapterEntry& entry : known_chapters()) text += (text.empty() ? "" : ", ") + entry.name;
  return text;
}

/// Throws kInvalidArgument for a name that there isn't, and kUnsupported for a chapter that doesn't run on
/// `device`.
const ChapterEntry& find_chapter(const std::string& name, Device device) {
  for (const ChapterEntry& entry : known_chapters()) {
    if (entry.name != name) continue;
    require(device.is_cpu() || entry.on_devices, ErrorCode::kUnsupported, "compare",
            "{} runs on the CPU only; the chapters for {} are gpu-memory and transfers", name, device.str());
    return entry;
  }
  fail(ErrorCode::kInvalidArgument, "compare", "no chapter '{}'; chapters are {}", name, chapter_names());
}

/// Those that were asked for; else all that run on the device. In their own order.
std::vector<Chapter> make_chapters(const Options& options) {
  std::vector<Chapter> chapters;
  for (const ChapterEntry& entry : known_chapters()) {
    const bool asked = options.chapters.empty() ? options.device.is_cpu() || entry.on_devices
                                                : std::ranges::count(options.chapters, entry.name) > 0;
    if (asked) chapters.push_back(entry.make(options.device));
  }
  return chapters;
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

nlohmann::json chapter_json(const ChapterResult& result) {
  nlohmann::json object = {{"chapter", result.chapter->name},    {"complaint", result.chapter->complaint},
                           {"summary", result.chapter->summary}, {"diagnoses", nlohmann::json::array()},
                           {"loops", nlohmann::json::array()},   {"tables", nlohmann::json::array()}};
  for (size_t i = 0; i < result.loops.size(); ++i) {
    object["loops"].push_back(loop_json(result.chapter->loops[i], result.loops[i]));
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

std::string json_text(std::span<const ChapterResult> results, Device device) {
  nlohmann::json document = {
      {"device", device.str()}, {"headline", headline(results)}, {"chapters", nlohmann::json::array()}};
  for (const ChapterResult& result : results) document["chapters"].push_back(chapter_json(result));
  return document.dump(2) + "\n";
}

/// A row an epoch and loop: chapter, loop, epoch, iterations (the document's), ns.
std::string epochs_csv(const ChapterResult& result) {
  std::string text = "chapter,loop,epoch,iterations,ns\n";
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.chapter->loops[i];
    int epoch = 0;
    for (const double ns : result.loops[i].epochs_ns)
      text += fmt::format("{},\"{}\",{},{},{:.0f}\n", result.chapter->name, loop.name, ++epoch,
                          loop.iterations_per_epoch * loop.work_per_iteration, ns);
  }
  return text;
}

/// The page, the data behind it, each chapter's figure and epochs, each loop's windows.
void write_results(std::span<const ChapterResult> results, Device device,
                   const std::filesystem::path& folder) {
  make_folder(folder);
  for (const ChapterResult& result : results) {
    if (const std::string figure = chapter_figure(result); !figure.empty()) {
      write_file_atomically(folder / fmt::format("{}.svg", result.chapter->name), figure);
    }
    write_file_atomically(folder / fmt::format("{}-epochs.csv", result.chapter->name), epochs_csv(result));
    for (const LoopResult& loop : result.loops) {
      const std::string name = fmt::format("{}-{}.csv", result.chapter->name, file_name(loop.report.name));
      write_file_atomically(folder / name, to_csv(loop.report));
    }
  }
  write_file_atomically(folder / "compare.json", json_text(results, device));
  write_file_atomically(folder / "report.html", compare_page(results, device));
}

/// One run of all chapters that were asked for, written to `folder`.
void run_once(const Options& options, const std::filesystem::path& folder, Tally& tally) {
  const std::vector<Chapter> chapters = make_chapters(options);
  const std::vector<ChapterResult> results = run_chapters(chapters, options.run, [&](const auto& result) {
    fmt::print("{}", chapter_text(result, options.run.verbose));
    std::fflush(stdout);
  });
  tally.add(results);
  write_results(results, options.device, folder);
  if (!options.json.empty()) write_file_atomically(options.json, json_text(results, options.device));
  fmt::print("\n{} {}\n{}.\nThe report is in {}; figures, JSON and CSV files are in the same folder.\n",
             headline(results), device_text(options.device), tally.latest_text(),
             (folder / "report.html").string());
  std::fflush(stdout);
}

void run(const Options& options) {
  for (const std::string& name : options.chapters) find_chapter(name, options.device);
  if (options.threads > 0) set_compute_threads(options.threads);
  require_folder_of(options.json);
  const auto locks = make_own_folders({options.out});

  Tally tally;
  for (int i = 1; i <= options.repeat; ++i) {
    if (options.repeat > 1) fmt::print("\nRun {} of {}\n", i, options.repeat);
    run_once(options, options.repeat > 1 ? options.out / fmt::format("run-{}", i) : options.out, tally);
    if (options.repeat == 1) continue;
    write_file_atomically(options.out / "tally.json", tally.json().dump(2) + "\n");  // whatever comes
    fmt::print("\n{}", tally.text());
    std::fflush(stdout);
  }
  if (options.require_expected && tally.not_as_expected() > 0) {
    throw CheckFailed(fmt::format("{} loops did not give the expected result", tally.not_as_expected()));
  }
}

/// What `--long` sets where nothing else is asked for.
void run_at_length(CompareOptions& run, const CLI::App& command) {
  run.at_length = true;
  if (command.count("--seconds") == 0) run.seconds = 20;
  if (command.count("--budget") == 0) run.budget_seconds = 1800;
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto at_length = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "compare",
      "run training loops that are known to slow down, next to cured ones, with a verdict on each");
  command->add_option("chapters", options->chapters,
                      "chapters to run: " + chapter_names() + "; default: all");
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
                   "seconds for all loops together; no loop is extended beyond them; 1800 with --long")
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
      ->check(whole_number(1, kMostComputeThreads));
  command
      ->add_option("--out", options->out,
                   "folder for report.html, compare.json, each chapter's figure (SVG) and epochs, each "
                   "loop's windows (CSV)")
      ->capture_default_str();
  command->add_option("--json", options->json, "file for the whole result as JSON");
  command->add_flag("--verbose", options->run.verbose,
                    "print every epoch, the numbers and reasons behind each verdict, and all tables");
  command->add_flag("--require-expected", options->require_expected,
                    "exit with 1 unless every loop gives the expected result");
  command->callback([options, at_length, command] {
    if (*at_length) run_at_length(options->run, *command);
    run(*options);
  });
}

}  // namespace isochron::apps
