// A chapter of `isochron compare`: the loops of one document, each in its slow and cured forms, run on the
// same model and data until a verdict is possible, and held against what each should be found to be.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isochron/data/dataset.h"
#include "isochron/observe/recorder.h"
#include "isochron/observe/report.h"

namespace isochron::apps {

struct CompareOptions {
  int epochs = 10;         // the document's, each with its line
  int64_t iterations = 0;  // at most so many a loop; 0: as the verdict needs
  double seconds =
      2.6;             // of recorded iterations for the verdict; up to twenty times that until it is settled
  bool quiet = false;  // no line per epoch
};

/// What documents say a loop should be found to be.
struct Expectation {
  std::vector<observe::Flatness> time = {observe::Flatness::kFlat};  // any of these; empty: not judged
  bool slow = false;                                                 // against the cured form
  std::string grows = {};                // a sampled series that must be found growing: "rss_bytes"
  std::string cause = {};                // a name that must be among the causes; empty: none named
  std::optional<int> spike_period = {};  // spikes owned by this label or phase return every so many steps
  std::string spike_label = {};
  bool no_allocations = false;         // of ours, per step, after warm-up
  bool reports_fragmentation = false;  // the notes say how fragmented the memory was
};

/// One run of a loop, in progress.
struct LoopContext {
  observe::Recorder& recorder;
  const CompareOptions& options;
  /// To be called after each iteration: false when the loop is to end. Prints the epoch lines and seals the
  /// recorder after the first epoch.
  std::function<bool()> next;
};

/// `step` on batch after batch of a dataset without end until the loop has had enough: computing, then the
/// fetching of the next batch. Every `accumulate`th iteration is of a class of its own.
void run_steps(LoopContext& context, data::Dataset& batches,
               const std::function<void(const data::Element& batch)>& step, int64_t accumulate = 1);

struct Loop {
  std::string name;
  std::string what;          // one line: what it does
  std::string against = {};  // the loop that its time is held against; empty: the first cured one
  bool cured = false;
  int64_t iterations_per_epoch = 32;
  int64_t min_iterations = 0;      // before the verdict may end it
  int64_t max_iterations = 0;      // 0: none; a loop that can't run on for ever
  int64_t work_per_iteration = 1;  // document iterations that one recorded iteration does
  Expectation expected = {};
  std::vector<observe::Gauge> gauges = {};
  std::function<void(LoopContext&)> run = {};
  std::function<std::vector<std::string>()> notes = {};  // after the run, for people: "fragmentation 12 %"
};

struct Chapter {
  std::string name;
  std::string complaint;
  std::vector<Loop> loops;
  std::string summary;  // three sentences on what is seen
};

struct LoopResult {
  observe::RunReport report;
  std::vector<std::string> notes;
  std::vector<std::string> deviations;  // from the expectation; empty: as expected
};

Chapter long_run_chapter();
Chapter every_epoch_chapter();
Chapter gpu_memory_chapter();
Chapter growing_graph_chapter();
Chapter transfers_chapter();

/// Runs all loops of a chapter and prints lines, table, causes and deviations.
std::vector<LoopResult> run_chapter(const Chapter& chapter, const CompareOptions& options);

}  // namespace isochron::apps
