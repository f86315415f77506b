// From evidence to a named cause. Evidence is a set of named numbers. A rule is a row of `cause_rules()`: the
// cause, its fix, the symptoms that it explains, and the conditions that must all hold. A new cause needs a
// new row (and, if no number shows it yet, a counter, a sensor or a gauge) and an entry in `catalogue()`,
// which lists the causes that follow from it. If several causes hold, only the roots are named, with the
// others as their consequences. A symptom that no row explains is called unexplained. docs/causes.md
// describes all causes and their thresholds.
//
// Names of quantities, as `add_evidence` (evidence.h) sets them:
//   run.iterations, run.seconds               recorded
//   time.growing, time.machine_slowed         1 or 0
//   time.slower                               mean step against the cured form's; absent when there is none
//   time.quick_beginning                      the level of the rest against that of a quicker beginning
//   phase.<phase>.share                       of the time inside iterations
//   phase.<phase>.usual_share                 the same, without what spikes lasted longer than usual
//   phase.data_wait.steady_share              in the median of eight parts of the run
//   phase.<phase>.growth_share                of the growth from first to last tenth, when time grows
//   phase.checkpoint.share_of_run             of all time, that between iterations too
//   spikes.<phase>.time_share                 where spikes are periodic: of the time, by who owns them
//   spikes.saving_beside.time_share           the same, where another thread wrote weights beside the steps
//   spikes.plan_period, spikes.plan_share     their period, where they traced or changed plans; of the time
//   <series>.growing                          1 or 0, for sampled levels: rss_bytes, a gauge
//   <series>.rise                             for them: how many of the run's eight parts lie above
//                                             the one before, as a share; 0 where a half gains little
//   <series>.in_jumps                         what of its gain came in its eight largest rises, as a share
//   heap_bytes.doublings                      how many of the newest jumps of the heap in use are each about
//                                             twice the one before: a list that grows
//   <series>.drives_time                      where both grow: the power of the level that time follows
//   <series>.per_iteration, .per_second       for all sampled series: what it gained, over the run
//   <series>.usual_per_iteration, ..._second  for totals: the same, no more than the median of eight parts
//   <series>.late_share                       for totals: what of it was gained in the run's second half
//   <series>.speed_up                         for totals: the rate in the last third against the first
//   <series>.gained, .last                    what it gained (a level: its last eighth); its end
//   pool.slack, heap.slack, device.slack      of what is held more than at first, what is not in use
//   device.free_share                         of what a device holds at the end, what is not in use
//   gained_bytes.input_share                  of what iterations left in use, what fetching brought
//   traces.separate, traces.period            stretches of iterations that traced plans; their period
//   host_copies.bytes_each                    of tensors copied from the program's numbers
//   disk_bytes.weights_share                  of the growth, what was written as checkpoints and weights
//   weight_files.left, event_files.left       written in this run and still there
//   weight_files.left_share, event_files...   the same, of the written ones
//   minor_faults.share                        of the time, at half a microsecond each; of usual ones
//   logs.per_iteration, logs.per_second       bytes written that are neither checkpoints nor event files,
//   logs.gained                               as a median; all of them
//   own_waits.before                          waits of an iteration in the quick beginning
//   own_waits.more                            after it, less those
//   queue_depth.fills                         1 when the gauge was filled by then
//   subnormals.share                          of the iterations looked at
//   not_finite.met                            NaN and infinity where the program looked
//   stolen.share, throttled.share             CPU time taken by the hypervisor, by a quota, of the run
//   stolen.more, throttled.more               the share in the second half less that in the first
//   device_throttled.share, ....more          the same of the time a device ran below its clocks
//   clock_khz.drop, device_clock_khz.drop     from the first to the last tenth, relative
//   overhead.undisturbed_ns                   of samples and reference kernel, had nothing interrupted them
//   overhead.share                            the recorder's own time, of the run
//   straggler.rank                            whose work takes longest against the median of the others'
//   straggler.slower, .share, .steady         how many times as long; of the time, that others wait for it;
//                                             of the windows, those in which they do (straggler.h)
//   straggler.input_share, .throttled_share,  of what it takes longer: waiting for input, its CPU quota,
//   straggler.waited_share                    waiting for a core
//   straggler.core_wait_share                 of the time, where it waits for cores more than its work takes
//                                             longer
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
  /// For quantities that are 1 or 0: whether the quantity is known and 1.
  bool holds(std::string_view name) const { return get(name).value_or(0) >= 0.5; }
  const std::map<std::string, double, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// The cause whose evidence also names a rank (straggler.h).
inline constexpr std::string_view kStragglingRank = "a straggling rank";

/// What needs an explanation. A rule has the bits of the symptoms that it explains.
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
  unsigned explains = 0;  // of Symptom
  std::array<Condition, 5> conditions{};
};
/// The table of rules; more specific rows come first.
std::span<const CauseRule> cause_rules();

/// A cause, the causes that may follow from it, and the phase whose periodic spikes it explains.
struct CatalogueEntry {
  std::string_view cause;
  std::span<const std::string_view> brings = {};
  std::optional<Phase> spikes_of = {};
};
/// Every cause that `attribute` may name, except "unexplained", in the order of docs/scenarios.md.
std::span<const CatalogueEntry> catalogue();
/// Whether `other` may be a consequence of `root`.
bool brings_along(std::string_view root, std::string_view other);
/// What the iterations of periodic spikes did, if that is more specific than their phase.
enum class SpikeWork { kOther, kPlans, kTookMemory };
/// Whether the cause explains periodic spikes of `phase` that did such work.
bool owns_spikes(std::string_view cause, Phase phase, SpikeWork work);

/// Whether the cause lies in the machine, not in the program.
bool of_machine(std::string_view cause);

struct Cause {
  std::string name;                            // as in the catalogue, or "unexplained"
  std::string fix;                             // what to do
  std::string evidence;                        // the deciding numbers, "graph_nodes.per_iteration 1"
  std::vector<std::string> consequences = {};  // other causes that hold and follow from it
};

/// All causes whose symptom is present and whose conditions hold, in the table's order, except those that
/// another cause brings along. An unknown quantity fails every kAtLeast condition and meets every kBelow
/// condition. Growth (of time, memory, disk) that no row explains adds one "unexplained" with the phase that
/// holds most of it. Empty when there is no symptom.
std::vector<Cause> attribute(const Evidence& evidence);

}  // namespace isochron::observe
