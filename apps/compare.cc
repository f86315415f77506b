// `isochron compare`: the documents' loops, slow and cured side by side.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "isochron/apps/commands.h"
#include "isochron/apps/compare/chapter.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/error.h"
#include "isochron/core/file.h"
#include "isochron/core/threads.h"

namespace isochron::apps {
namespace {

struct Options {
  std::vector<std::string> chapters;
  CompareOptions run;
  std::string device = "cpu";
  std::filesystem::path out;
  std::filesystem::path json;
  int threads = 0;
  bool require_expected = false;
};

struct ChapterEntry {
  std::string name;
  Chapter (*make)();
};

const std::vector<ChapterEntry>& known_chapters() {
  static const std::vector<ChapterEntry> list = {{"long-run", long_run_chapter},
                                                 {"every-epoch", every_epoch_chapter},
                                                 {"gpu-memory", gpu_memory_chapter},
                                                 {"growing-graph", growing_graph_chapter},
                                                 {"transfers", transfers_chapter}};
  return list;
}

std::string chapter_names() {
  std::string text;
  for (const ChapterEntry& entry : known_chapters()) text += (text.empty() ? "" : ", ") + entry.name;
  return text;
}

Chapter make_chapter(const std::string& name) {
  for (const ChapterEntry& entry : known_chapters()) {
    if (entry.name == name) return entry.make();
  }
  fail(ErrorCode::kInvalidArgument, "compare", "no chapter '{}'; chapters are {}", name, chapter_names());
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
  object["work_per_iteration"] = loop.work_per_iteration;
  object["notes"] = result.notes;
  object["as_expected"] = result.deviations.empty();
  object["deviations"] = result.deviations;
  return object;
}

void run(const Options& options) {
  require(options.device == "cpu", ErrorCode::kUnsupported, "compare",
          "device '{}' is not built; this build computes on the cpu", options.device);
  if (options.threads > 0) set_compute_threads(options.threads);
  make_folder(options.out);
  require_folder_of(options.json);
  std::vector<Chapter> chapters;
  if (options.chapters.empty()) {
    for (const ChapterEntry& entry : known_chapters()) chapters.push_back(entry.make());
  }
  for (const std::string& name : options.chapters) chapters.push_back(make_chapter(name));

  nlohmann::json document = {{"chapters", nlohmann::json::array()}};
  std::vector<ChapterResult> all;
  size_t unexpected = 0;
  for (const Chapter& chapter : chapters) {
    all.push_back({&chapter, run_chapter(chapter, options.run)});
    const std::vector<LoopResult>& results = all.back().loops;
    nlohmann::json loops = nlohmann::json::array();
    for (size_t i = 0; i < results.size(); ++i) {
      loops.push_back(loop_json(chapter.loops[i], results[i]));
      unexpected += !results[i].deviations.empty();
      if (options.out.empty()) continue;
      const std::string name = fmt::format("{}-{}.csv", chapter.name, file_name(results[i].report.name));
      write_file_atomically(options.out / name, to_csv(results[i].report));
    }
    document["chapters"].push_back({{"chapter", chapter.name}, {"loops", std::move(loops)}});
  }
  const std::string text = document.dump(2) + "\n";
  if (!options.json.empty()) write_file_atomically(options.json, text);
  if (!options.out.empty()) {
    write_file_atomically(options.out / "compare.json", text);
    write_file_atomically(options.out / "report.html", compare_page(all));
    fmt::print("\nreport.html, compare.json and every loop's windows are in {}\n", options.out.string());
  }
  if (options.require_expected && unexpected > 0) {
    throw CheckFailed(fmt::format("{} loops were not found to be what is expected of them", unexpected));
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "run the documents' training loops, slow and cured side by side, with a verdict");
  command->add_option("chapters", options->chapters,
                      "chapters to run: " + chapter_names() + "; default: all");
  command->add_option("--device", options->device, "cpu")->capture_default_str();
  command
      ->add_option("--epochs", options->run.epochs,
                   "epochs that print a line; loops run on for their verdict")
      ->check(whole_number(1, INT32_MAX))
      ->capture_default_str();
  command->add_option("--iterations", options->run.iterations, "stop each loop after so many iterations")
      ->check(whole_number(0));
  command->add_option("--seconds", options->run.seconds, "of recorded iterations a loop, for its verdict")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--threads", options->threads, "compute threads")->check(whole_number(1, INT32_MAX));
  command->add_option("--out", options->out,
                      "folder for report.html, compare.json and each loop's windows as CSV");
  command->add_option("--json", options->json, "file for the whole result as JSON");
  command->add_flag("--quiet", options->run.quiet, "no line per epoch");
  command->add_flag("--require-expected", options->require_expected,
                    "exit with 1 unless every loop is found to be what is expected of it");
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
