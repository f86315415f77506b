// Derives named causes from evidence, a set of named numbers. A rule is a row of `cause_rules()`: the cause,
// its fix, the symptoms that it explains, and the conditions that must all hold. A new cause needs a new row
// (and, if no number shows it yet, a counter, a sensor or a gauge) and an entry in `catalogue()`, which lists
// the causes that follow from it. If several causes hold, only the root causes are named, and the others are
// listed as their consequences. A symptom that no row explains is called "unexplained". docs/causes.md
// describes all causes and their thresholds.
//
// Quantities, as `add_evidence` (evidence.h) sets them:
//   run.iterations, run.seconds               number of recorded iterations; length of the run
//   time.growing, time.machine_slowed         1 or 0
//   time.slower                               mean step time divided by the cured form's; absent without one
//   time.quick_beginning                      if the run begins faster than it goes on: mean step time after
//                                             the beginning divided by that in it
//   time.usually_slower_after                 the same ratio for median step times
//   phase.<phase>.share                       share of the time inside iterations
//   phase.<phase>.usual_share                 the same without the extra time of spikes
//   phase.data_wait.steady_share              the same share as the median over eight parts of the run
//   phase.<phase>.growth_share                share of the growth of step time from the first to the last
//                                             tenth
//   phase.checkpoint.share_of_run             share of all time, including the time between iterations
//   spikes.<phase>.time_share                 if spikes are periodic: share of the time that spikes owned by
//                                             the phase take beyond the usual duration
//   spikes.saving_beside.time_share           the same for spikes during which another thread wrote weights
//   spikes.plan_period, spikes.plan_share     period and share of the time of spikes that traced or switched
//                                             plans
//   <series>.growing                          1 or 0, for sampled levels: rss_bytes, a gauge
//   <series>.rise                             for levels: share of the seven steps between eighths of the run
//                                             that go up; 0 if either half gains little
//   <series>.in_jumps                         for levels: share of the gain that came in the eight largest
//                                             rises
//   heap_bytes.doublings                      how many of the newest jumps of the heap in use are each about
//                                             twice the one before, as when a list grows
//   <series>.drives_time                      if both grow: the exponent with which step time follows the
//                                             level
//   <series>.per_iteration, .per_second       for all sampled series: mean gain over the run
//   <series>.usual_per_iteration, ..._second  for totals: the same, but at most the median over eight parts
//   <series>.late_share                       for totals: share of the gain in the second half of the run
//   <series>.speed_up                         for totals: rate in the last third divided by that in the first
//   <series>.gained, .last                    gain over the run (for levels, of the last eighth over the
//                                             first); value at the end
//   pool.slack, heap.slack, device.slack      share of the growth of reserved memory that isn't in use
//   device.free_share                         share of a device's reserved memory that isn't in use at the
//                                             end
//   gained_bytes.input_share                  share of the bytes left in use by iterations that fetching the
//                                             input allocated
//   traces.separate, traces.period            number and period of iterations that traced plans when the one
//                                             before didn't
//   host_copies.bytes_each                    mean size of the tensors copied from the program's numbers
//   disk_bytes.weights_share                  share of the growth that is checkpoints and weights
//   weight_files.left, event_files.left       number of files written in this run that still exist
//   weight_files.left_share, event_files...   the same as a share of the files written
//   minor_faults.share                        share of the time, at half a microsecond per fault and the
//                                             usual rate
//   logs.per_iteration, logs.per_second       usual rate of bytes stored in files other than checkpoints and
//                                             event files
//   logs.gained                               the total of these bytes
//   own_waits.before                          waits per iteration in the quick beginning
//   own_waits.more                            waits per iteration after it, minus those before
//   queue_depth.fills                         1 if the queue filled during the quick beginning and stayed
//                                             full
//   subnormals.share                          share of the inspected iterations that met subnormal numbers
//   not_finite.met                            how often a check met NaN or infinity
//   stolen.share, throttled.share             share of the run's CPU time taken by the hypervisor, by a quota
//   stolen.more, throttled.more               share in the second half minus that in the first
//   device_throttled.share, ....more          the same for the time that a device ran below its clocks
//   clock_khz.drop, device_clock_khz.drop     relative drop from the first to the last tenth
//   overhead.undisturbed_ns                   time of samples and the reference kernel if nothing had
//                                             interrupted them
//   overhead.share                            the recorder's own share of the run's time
//   straggler.rank                            the rank to which the others lose most time (straggler.h)
//   straggler.slower, .share, .steady         its work time divided by the others'; share of the time that
//                                             the others lose to it; share of the windows in which they do
//   straggler.input_share, .throttled_share,
//   straggler.waited_share                    shares of its extra work time due to input, its CPU quota,
//                                             waiting for a core
//   straggler.core_wait_share                 share of the time that it waits for cores, if the others lose
//                                             most to that
//   straggler.link_slower                     how many times as long its messages take, if the others lose
//                                             most to that
//
// Gauges that rules know by name, when a caller supplies them: buffered_elements, cached_bytes, disk_bytes,
// queue_depth (levels), disk_read_bytes (cumulative).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/statistics/windows.h"

namespace isochron::observe {

class Evidence {
 public:
  void set(std::string name, double value) { values_.insert_or_assign(std::move(name), value); }
  std::optional<double> get(std::string_view name) const;
  /// Whether a quantity that is 1 or 0 is known and 1.
  bool holds(std::string_view name) const { return get(name).value_or(0) >= 0.5; }
  const std::map<std::string, double, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// The only cause whose evidence also names a rank (straggler.h).
inline constexpr std::string_view kStragglingRank = "a straggling rank";

/// What a cause may explain. Each rule has a bit mask of the symptoms that it explains.
enum Symptom : unsigned {
  kTimeGrows = 1,  // time.growing
  kMemoryGrows =
      2,  // any of rss_bytes, bytes_in_use, bytes_reserved, live_tensors, tape_entries, graph_nodes growing
  kDiskGrows = 4,  // disk_bytes.growing
  kSlow = 8,       // time.slower is kSlowFactor or more, or not known; of a run of at least 64 iterations
                   // and 0.3 s
  kAlways = 16,    // reported even without an effect on time and memory
};
inline constexpr double kSlowFactor = 1.2;

struct Condition {
  enum Comparison { kNone, kAtLeast, kBelow };
  std::string_view quantity = {};
  Comparison comparison = kNone;  // kNone: no condition
  double threshold = 0;
};

struct CauseRule {
  std::string_view cause;
  std::string_view fix;
  unsigned explains = 0;  // bits of Symptom
  std::array<Condition, 5> conditions{};
};
/// The table of rules; more specific rows come first.
std::span<const CauseRule> cause_rules();

/// A cause, its possible consequences, and the phase whose periodic spikes it explains.
struct CatalogueEntry {
  std::string_view cause;
  std::span<const std::string_view> brings = {};
  std::optional<Phase> spikes_of = {};
};
/// Every cause that `attribute` may name, except "unexplained", in the order of docs/scenarios.md.
std::span<const CatalogueEntry> catalogue();
/// Whether `other` may be a consequence of `root`.
bool brings_along(std::string_view root, std::string_view other);
/// What iterations with periodic spikes did, if this says more than their phase.
enum class SpikeWork { kOther, kPlans, kTookMemory };
/// Whether the cause explains periodic spikes of `phase` that did such work.
bool owns_spikes(std::string_view cause, Phase phase, SpikeWork work);

/// Whether the cause lies in the machine, not in the program.
bool of_machine(std::string_view cause);

struct Cause {
  std::string name;                            // from the catalogue, or "unexplained"
  std::string fix;                             // what to do
  std::string evidence;                        // the deciding numbers, "graph_nodes.per_iteration 1"
  std::vector<std::string> consequences = {};  // other causes that hold and follow from it
};

/// All causes whose symptom is present and whose conditions hold, in the table's order, except consequences
/// of other causes. An unknown quantity fails every kAtLeast condition and meets every kBelow condition.
/// Growth of time, memory or disk use that no row explains adds one cause "unexplained", which names the
/// phase with most of the growth if time grows. Returns an empty list if there is no symptom.
std::vector<Cause> attribute(const Evidence& evidence);

}  // namespace isochron::observe
