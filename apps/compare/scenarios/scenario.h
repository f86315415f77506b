// A scenario of `isochron compare`: the loops of one document in slow and cured forms, on the same model and
// data, with the expected findings for each loop; and tables for the document's other subjects. compare/run.h
// runs them.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isochron/core/tensor/device.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/table.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::apps {

struct CompareOptions {
  int epochs = 10;              // the document's epochs, with one printed line each
  int64_t iterations = 0;       // maximum per loop; 0: as many as the verdict needs
  double seconds = 2.5;         // time that every loop runs before its verdict is checked
  double budget_seconds = 165;  // maximum for all loops and tables together
  bool at_length = false;       // ten times as many iterations of the loops that don't end by themselves
  bool verbose = false;         // lines per epoch, all tables and reasons
};

/// The findings for a loop that follow from the documents.
struct Expectation {
  std::vector<observe::Flatness> time = {observe::Flatness::kFlat};  // one of these; empty: not judged
  bool slow = false;                                                 // slower than the cured form
  std::vector<observe::Flatness> memory = {
      observe::Flatness::kFlat};         // of the resident set, like `time`; shrinking counts as flat
  std::string grows = {};                // a sampled series that must be found growing: "disk_bytes"
  std::string cause = {};                // a name that must be among the causes; empty: none named
  std::optional<int> spike_period = {};  // period in steps of spikes attributed to `spike_label`
  std::string spike_label = {};
  bool no_allocations = false;         // per step, by Isochron itself, after warm-up
  bool reports_fragmentation = false;  // the notes say how fragmented the memory was

  /// Whether any verdict on the time is as expected.
  bool leaves_time_open() const { return time.empty(); }
  bool allows(observe::Flatness found) const {
    return leaves_time_open() || std::find(time.begin(), time.end(), found) != time.end();
  }
};

/// One run of a loop, in progress.
struct LoopContext {
  observe::Recorder& recorder;
  const CompareOptions& options;
  /// Must be called after each iteration, outside of iterations. Times the epochs, seals the recorder after
  /// `warmup_epochs`, and waits for the loop's next turn. Returns false if the loop must end.
  std::function<bool()> next;
};

/// Runs `step` on the batches of an endless dataset until the loop must end. An iteration computes first and
/// then fetches the next batch. Every `accumulate`th iteration belongs to a separate class of steps.
void run_steps(LoopContext& context, data::Dataset& batches,
               const std::function<void(const data::Element& batch)>& step, int64_t accumulate = 1);

/// A fault that the recorder can't detect, but that the loop's own measurement shows.
struct KnownFault {
  std::string what;  // "trains incorrectly"
  std::string cause;
  std::string cure;
};

struct Loop {
  std::string name;
  std::string what;          // one line: what it does
  std::string against = {};  // name of the loop to compare its time with; empty: the first cured one
  bool cured = false;
  int64_t iterations_per_epoch = 32;
  int warmup_epochs = 1;           // not judged, because of one-time work (plans, first saves)
  int64_t min_iterations = 0;      // before a verdict may end the loop; ten times as many with `at_length`
  int64_t max_iterations = 0;      // 0: no limit; needed by a loop that can't run forever
  int64_t work_per_iteration = 1;  // document iterations per recorded iteration
  Expectation expected = {};
  std::optional<KnownFault> fault = {};
  std::vector<observe::Gauge> gauges = {};
  std::function<void(LoopContext&)> run = {};            // each call starts from the beginning
  std::function<std::vector<std::string>()> notes = {};  // after the run, for people: "fragmentation 12 %"
};

struct Scenario {
  std::string name;
  std::string complaint;
  std::vector<Loop> loops;
  std::string summary;  // what the scenario shows, and why
  /// Created once the loops have run, each in about `seconds` seconds.
  std::vector<std::function<observe::Table(double seconds)>> tables = {};
};

/// The loop that the time of `loop` is compared with. Throws kInvalidArgument if the scenario has none.
const Loop& held_against(const Scenario& scenario, const Loop& loop);

/// Whether the report's loop is slow compared with its cured form. The means decide, but only if medians or
/// periodic pauses confirm them, because other programs increase means too.
bool is_slow(const observe::RunReport& report);

/// How the findings for a loop compare with what the documents say.
enum class Finding {
  kAsExpected,
  kInconclusive,  // nothing contradicts the documents, but not everything they say was found
  kOtherwise,
};

struct Deviation {
  std::string kind;  // without numbers: "time growing"
  std::string text;
  bool inconclusive = false;
};

struct LoopResult {
  observe::RunReport report;
  std::vector<std::string> notes;
  std::vector<double> epochs_ns;      // of the first epochs, in order
  std::vector<Deviation> deviations;  // from the expectation; empty: as expected
  bool settled = true;                // false: the verdict needed more time

  Finding finding() const {
    Finding finding = Finding::kAsExpected;
    for (const Deviation& deviation : deviations) {
      if (!deviation.inconclusive) return Finding::kOtherwise;
      finding = Finding::kInconclusive;
    }
    return finding;
  }
};

struct ScenarioResult {
  const Scenario* scenario;
  std::vector<LoopResult> loops;  // one for each of the scenario's
  std::vector<observe::Table> tables;
};

/// How `result` deviates from the expectation for `loop`. Call this after the comparison with the cured form.
std::vector<Deviation> deviations_of(const Loop& loop, const LoopResult& result);

Scenario long_run_scenario();
Scenario every_epoch_scenario();
Scenario gpu_memory_scenario(Device device);
Scenario growing_graph_scenario();
Scenario transfers_scenario(Device device);

}  // namespace isochron::apps
