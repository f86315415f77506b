#include "isochron/observe/diagnose/cause.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/observe/statistics/windows.h"

namespace isochron::observe {
namespace {

constexpr auto kAtLeast = Condition::kAtLeast;
constexpr auto kBelow = Condition::kBelow;

constexpr std::string_view kOpsAdded = "ops added in the loop";
constexpr std::string_view kOneByOne = "ops run one by one";
constexpr std::string_view kRetraced = "retraced for new signatures";
constexpr std::string_view kPartialBatch = "the partial last batch";
constexpr std::string_view kHistory = "retained losses or history";
constexpr std::string_view kLists = "metrics kept in lists";
constexpr std::string_view kHooks = "hooks that pile up";
constexpr std::string_view kOptimizer = "optimizer state made again";
constexpr std::string_view kHeapFragments = "host heap fragmentation";
constexpr std::string_view kDeviceFragments = "device fragmentation";
constexpr std::string_view kRetries = "retries near the memory limit";
constexpr std::string_view kPinned = "pinned pool growth";
constexpr std::string_view kFaults = "page faults";
constexpr std::string_view kSwapping = "swapping";
constexpr std::string_view kUnbounded = "prefetch or cache without a bound";
constexpr std::string_view kStarvation = "starvation by the input";
constexpr std::string_view kReadAgain = "data read again from disk";
constexpr std::string_view kTransfers = "synchronous or many small transfers";
constexpr std::string_view kSubnormals = "subnormal numbers";
constexpr std::string_view kNan = "NaN";
constexpr std::string_view kQueue = "an asynchronous queue that fills";
constexpr std::string_view kClocks = "clocks or throttling";
constexpr std::string_view kStolen = "stolen CPU time";
constexpr std::string_view kMachine = "the machine slowed, not the program";
constexpr std::string_view kLogs = "event files and logs pile up";
constexpr std::string_view kCheckpointsLeft = "checkpoints pile up";
constexpr std::string_view kCheckpointsBlock = "checkpoints block";
constexpr std::string_view kProfiler = "the profiler itself";
constexpr std::string_view kAllocations = "system allocations in each step";
constexpr std::string_view kMoreSent = "communication that grows";
constexpr std::string_view kExposed = "exposed communication";
constexpr std::string_view kNetwork = "the network slowed";

// The consequences of causes. Making a plan may time kernels and store the choices on disk, hence kLogs.
// Anything that grows takes memory: tensors and the heap hold it, the system provides it page by page, and in
// the end none is left. Keeping the input also takes time while it is fetched, hence kStarvation.
constexpr std::string_view kOfUnbounded[] = {kHistory,     kLists,   kHeapFragments, kFaults,
                                             kAllocations, kRetries, kSwapping,      kStarvation};
constexpr std::string_view kOfOpsAdded[] = {kHistory, kLists,    kHeapFragments, kFaults, kAllocations,
                                            kRetries, kSwapping, kRetraced,      kLogs};
constexpr std::string_view kOfPartialBatch[] = {kRetraced, kFaults, kAllocations, kLogs};
constexpr std::string_view kOfRetracing[] = {kFaults, kAllocations, kLists, kHeapFragments, kLogs};
constexpr std::string_view kOfHistory[] = {kLists,       kHooks,   kHeapFragments, kFaults,
                                           kAllocations, kRetries, kSwapping};
constexpr std::string_view kOfLists[] = {kFaults, kSwapping};
constexpr std::string_view kOfHooks[] = {kLists, kFaults};
constexpr std::string_view kOfOptimizer[] = {kHistory, kLists, kHeapFragments, kFaults, kAllocations};
constexpr std::string_view kOfHeapFragments[] = {kLists, kFaults, kRetries, kSwapping};
constexpr std::string_view kOfDeviceFragments[] = {kRetries};
constexpr std::string_view kOfRetries[] = {kFaults, kAllocations};
constexpr std::string_view kOfFaults[] = {kAllocations};
constexpr std::string_view kOfSwapping[] = {kFaults, kReadAgain};
constexpr std::string_view kOfStarvation[] = {kQueue};
constexpr std::string_view kOfReadAgain[] = {kStarvation, kFaults, kAllocations, kQueue};
constexpr std::string_view kOfTransfers[] = {kAllocations};
constexpr std::string_view kOfTheMachine[] = {kMachine};
constexpr std::string_view kOfMoreSent[] = {kExposed, kNetwork, kLists, kHeapFragments, kFaults};
constexpr std::string_view kOfStragglingRank[] = {kExposed};
constexpr std::string_view kOfNetwork[] = {kExposed};

constexpr CatalogueEntry kCatalogue[] = {
    {kOpsAdded, kOfOpsAdded},
    {kOneByOne},
    {kRetraced, kOfRetracing},
    {kPartialBatch, kOfPartialBatch},
    {kHistory, kOfHistory},
    {kLists, kOfLists},
    {kHooks, kOfHooks, Phase::kCallbacks},
    {kOptimizer, kOfOptimizer},
    {kHeapFragments, kOfHeapFragments},
    {kDeviceFragments, kOfDeviceFragments},
    {kRetries, kOfRetries},
    {kPinned},
    {kFaults, kOfFaults},
    {kSwapping, kOfSwapping},
    {kUnbounded, kOfUnbounded},
    {kStarvation, kOfStarvation, Phase::kDataWait},
    {kReadAgain, kOfReadAgain, Phase::kDataWait},
    {kTransfers, kOfTransfers, Phase::kHostToDevice},
    {kSubnormals},
    {kNan},
    {kQueue},
    {kClocks, kOfTheMachine},
    {kStolen, kOfTheMachine},
    {kMachine},
    {kLogs, {}, Phase::kLog},
    {kCheckpointsLeft},
    {kCheckpointsBlock, {}, Phase::kCheckpoint},
    {kProfiler},
    {kAllocations},
    {kStragglingRank, kOfStragglingRank, Phase::kRankWait},
    {kMoreSent, kOfMoreSent},
    {kExposed, {}, Phase::kCommunication},
    {kNetwork, kOfNetwork},
};

constexpr CauseRule kRules[] = {
    {kClocks,
     "cool the machine, raise the control group's quota, or use the performance governor",
     kTimeGrows | kAlways,
     {{{"time.machine_slowed", kAtLeast, 0.5}, {"thermal_throttles.gained", kAtLeast, 1}}}},
    {kClocks,
     "cool the machine, or use the performance governor",
     kTimeGrows | kAlways,
     {{{"time.machine_slowed", kAtLeast, 0.5}, {"clock_khz.drop", kAtLeast, 0.1}}}},
    {kClocks,
     "raise the control group's quota, or use fewer threads",
     kTimeGrows | kSlow,
     {{{"throttled.share", kAtLeast, 0.05}}}},
    {kClocks,
     "cool the device, or raise its power limit",
     kTimeGrows,
     {{{"device_throttled.more", kAtLeast, 0.05}}}},
    {kClocks,
     "cool the device, or raise its power limit",
     kTimeGrows,
     {{{"device_clock_khz.drop", kAtLeast, 0.1}}}},
    {kStolen, "use a dedicated machine", kTimeGrows | kAlways, {{{"stolen.more", kAtLeast, 0.05}}}},
    {kStolen, "use a dedicated machine", kTimeGrows | kSlow, {{{"stolen.share", kAtLeast, 0.1}}}},
    {kMachine, "compare with a run on a quiet machine", kAlways, {{{"time.machine_slowed", kAtLeast, 0.5}}}},
    {kOpsAdded,
     "build the graph once, or capture the loop's body",
     kTimeGrows | kMemoryGrows,
     {{{"graph_nodes.growing", kAtLeast, 0.5}, {"traces.per_iteration", kBelow, 0.01}}}},
    {kOpsAdded,
     "build the graph once, and make the number of iterations an input (while_loop, scan)",
     kTimeGrows | kMemoryGrows,
     {{{"graph_nodes.growing", kAtLeast, 0.5}, {"plans.growing", kBelow, 0.5}}}},
    {kOpsAdded,
     "build the graph once, and make the number of iterations an input (while_loop, scan)",
     kTimeGrows | kMemoryGrows | kSlow,
     {{{"nodes_made.per_iteration", kAtLeast, 1}, {"nodes_made.speed_up", kAtLeast, 1.5}}}},
    {kOpsAdded,
     "start a new tape each step, or stop the gradient at the loop's carried value",
     kTimeGrows | kMemoryGrows,
     {{{"tape_entries.drives_time", kAtLeast, 0.3}}}},
    {kPartialBatch,
     "plan it beforehand: capture(fn, batches.signatures()); or pad it, or drop the remainder",
     kAlways,
     {{{"partial_traces.gained", kAtLeast, 1}, {"traces.period", kAtLeast, 2}}}},
    {kPartialBatch,
     "plan it beforehand: capture(fn, batches.signatures()); or pad it, or drop the remainder",
     kAlways,
     {{{"partial_traces.gained", kAtLeast, 1}, {"traces.per_iteration", kBelow, 0.01}}}},
    {kPartialBatch,
     "pad it, or drop the remainder",
     kAlways,
     {{{"spikes.plan_period", kAtLeast, 2}, {"spikes.plan_share", kAtLeast, 0.05}}}},
    {kRetraced,
     "fix or pad the shapes, or plan all signatures before the loop",
     kTimeGrows | kMemoryGrows | kSlow,
     {{{"traces.per_iteration", kAtLeast, 0.01},
       {"traces.gained", kAtLeast, 4},
       {"traces.late_share", kAtLeast, 0.2}}}},
    {kOptimizer,
     "make the optimizer once, outside the loop",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"optimizer_states.per_iteration", kAtLeast, 0.01},
       {"optimizer_states.gained", kAtLeast, 4},
       {"optimizer_states.late_share", kAtLeast, 0.2}}}},
    {kHooks,
     "register each hook once, before the loop, or remove it when it is done",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"hooks.rise", kAtLeast, 0.4}, {"hooks.gained", kAtLeast, 8}}}},
    {kUnbounded,
     "give shuffle, prefetch and cache a size that fits in memory",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"pipeline_bytes.rise", kAtLeast, 0.4}, {"pipeline_bytes.gained", kAtLeast, 1e6}}}},
    {kUnbounded,
     "give shuffle, prefetch and cache a size that fits in memory",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"buffered_elements.growing", kAtLeast, 0.5}, {"buffered_elements.rise", kAtLeast, 0.4}}}},
    {kUnbounded,
     "cache each element once and limit the size of the cache, or do not cache",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"cached_bytes.growing", kAtLeast, 0.5}, {"cached_bytes.rise", kAtLeast, 0.4}}}},
    {kUnbounded,
     "keep only as much of the input as fits in memory, and drop the oldest",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"live_tensors.rise", kAtLeast, 0.7},
       {"live_tensors.gained", kAtLeast, 32},
       {"gained_bytes.input_share", kAtLeast, 0.5},
       {"tape_entries.growing", kBelow, 0.5}}}},
    {kHistory,
     "keep the number (item()), not the tensor; release the tape after each step",
     kTimeGrows | kMemoryGrows,
     {{{"tape_entries.growing", kAtLeast, 0.5}}}},
    {kHistory,
     "keep the number (item()), not the tensor",
     kTimeGrows | kMemoryGrows,
     {{{"live_tensors.growing", kAtLeast, 0.5}, {"live_tensors.gained", kAtLeast, 32}}}},
    {kHistory,
     "keep the number (item()), not the tensor",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"live_tensors.rise", kAtLeast, 0.7}, {"live_tensors.gained", kAtLeast, 32}}}},
    {kHeapFragments,
     "plan the step into an arena, or use a pool with size classes",
     kMemoryGrows | kTimeGrows,
     {{{"bytes_reserved.growing", kAtLeast, 0.5}, {"pool.slack", kAtLeast, 0.5}}}},
    {kHeapFragments,
     "plan the step into an arena, or use a pool with size classes",
     kMemoryGrows | kTimeGrows | kAlways,
     {{{"bytes_reserved.rise", kAtLeast, 0.4},
       {"bytes_reserved.gained", kAtLeast, 1e6},
       {"pool.slack", kAtLeast, 0.5}}}},
    {kHeapFragments,
     "allocate long-lived blocks before short-lived ones, or separately; use a pool with size classes",
     kMemoryGrows | kTimeGrows | kAlways,
     {{{"heap_free_bytes.rise", kAtLeast, 0.4},
       {"heap_free_bytes.in_jumps", kBelow, 0.75},
       {"heap_free_bytes.gained", kAtLeast, 4e6},
       {"heap.slack", kAtLeast, 0.5}}}},
    {kDeviceFragments,
     "plan the step into an arena, or let the device's segments grow",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"device_reserved_bytes.growing", kAtLeast, 0.5}, {"device.slack", kAtLeast, 0.5}}}},
    {kDeviceFragments,
     "plan the step into an arena, or let the device's segments grow",
     kTimeGrows | kSlow | kAlways,
     {{{"device_retries.per_iteration", kAtLeast, 0.01}, {"device.free_share", kAtLeast, 0.3}}}},
    {kRetries,
     "make batches or buffers smaller, or raise the limit",
     kTimeGrows | kSlow | kAlways,
     {{{"memory_retries.per_iteration", kAtLeast, 0.01},
       {"memory_retries.gained", kAtLeast, 4},
       {"memory_retries.late_share", kAtLeast, 0.2}}}},
    {kRetries,
     "make batches or buffers smaller",
     kTimeGrows | kSlow | kAlways,
     {{{"device_retries.per_iteration", kAtLeast, 0.01},
       {"device_retries.gained", kAtLeast, 4},
       {"device_retries.late_share", kAtLeast, 0.2}}}},
    {kPinned,
     "pin a ring of buffers once, and reuse it",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"pinned_bytes.rise", kAtLeast, 0.4}, {"pinned_bytes.gained", kAtLeast, 1e6}}}},
    {kLists,
     "keep running sums, or the newest entries only",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"heap_bytes.rise", kAtLeast, 0.25},
       {"heap_bytes.in_jumps", kBelow, 0.75},
       {"heap_bytes.gained", kAtLeast, 262144},
       {"heap_bytes.per_iteration", kAtLeast, 1}}}},
    {kLists,
     "keep running sums, or the newest entries only",
     kTimeGrows,
     {{{"heap_bytes.rise", kAtLeast, 0.25},
       {"heap_bytes.in_jumps", kBelow, 0.75},
       {"heap_bytes.gained", kAtLeast, 16384},
       {"heap_bytes.per_iteration", kAtLeast, 1}}}},
    {kLists,
     "keep running sums, or the newest entries only",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"heap_bytes.doublings", kAtLeast, 3},
       {"heap_bytes.gained", kAtLeast, 65536},
       {"heap_bytes.growing", kAtLeast, 0.5}}}},
    {kSwapping,
     "make the model or the buffers smaller",
     kTimeGrows | kSlow | kAlways,
     {{{"major_faults.per_second", kAtLeast, 100}, {"swap_bytes.last", kAtLeast, 1}}}},
    {kSwapping,
     "make the model or the buffers smaller",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"swap_bytes.rise", kAtLeast, 0.4}, {"swap_bytes.gained", kAtLeast, 1e6}}}},
    {kFaults,
     "reuse memory instead of giving it back to the system each step",
     kTimeGrows | kSlow,
     {{{"minor_faults.share", kAtLeast, 0.05}}}},
    {kReadAgain,
     "cache the decoded dataset in memory",
     kSlow,
     {{{"disk_read_bytes.usual_per_iteration", kAtLeast, 1}}}},
    {kReadAgain,
     "cache the decoded dataset in memory",
     kSlow,
     {{{"phase.data_wait.usual_share", kAtLeast, 0.3}, {"read_bytes.usual_per_iteration", kAtLeast, 1024}}}},
    {kReadAgain,
     "cache the decoded dataset in memory",
     kTimeGrows,
     {{{"phase.data_wait.growth_share", kAtLeast, 0.5}, {"read_bytes.per_iteration", kAtLeast, 1024}}}},
    {kReadAgain,
     "cache the decoded dataset in memory",
     kSlow,
     {{{"phase.unexplained.usual_share", kAtLeast, 0.3},
       {"read_bytes.usual_per_iteration", kAtLeast, 4096},
       {"read_bytes.usual_per_second", kAtLeast, 1e6}}}},
    {kReadAgain,
     "cache the decoded dataset in memory, or map files that fit in memory",
     kTimeGrows | kSlow,
     {{{"major_faults.usual_per_second", kAtLeast, 100}, {"swap_bytes.last", kBelow, 1}}}},
    {kStarvation,
     "prefetch, or map in parallel",
     kTimeGrows,
     {{{"phase.data_wait.growth_share", kAtLeast, 0.5}, {"phase.data_wait.usual_share", kAtLeast, 0.1}}}},
    {kStarvation, "prefetch, or map in parallel", kSlow, {{{"phase.data_wait.usual_share", kAtLeast, 0.3}}}},
    {kStarvation,
     "prefetch, or map in parallel",
     kSlow,
     {{{"phase.data_wait.share", kAtLeast, 0.6}, {"phase.data_wait.steady_share", kAtLeast, 0.3}}}},
    {kTransfers,
     "copy whole batches from pinned buffers while the previous step computes",
     kTimeGrows,
     {{{"phase.host_to_device.growth_share", kAtLeast, 0.5}}}},
    {kTransfers,
     "copy whole batches from pinned buffers while the previous step computes",
     kSlow,
     {{{"phase.host_to_device.usual_share", kAtLeast, 0.3}}}},
    {kTransfers,
     "copy whole batches",
     kSlow,
     {{{"host_copies.usual_per_iteration", kAtLeast, 16}, {"host_copies.bytes_each", kBelow, 4096}}}},
    {kSubnormals,
     "call flush_subnormals_to_zero() in every thread that computes, including the loop's",
     kTimeGrows | kSlow,
     {{{"subnormals.share", kAtLeast, 0.25}}}},
    {kNan,
     "find the op with check_numerics, lower the learning rate or clip the gradients",
     kAlways,
     {{{"not_finite.met", kAtLeast, 1}}}},
    {kQueue,
     "wait for the work of each measured step, or limit the length of the queue",
     kTimeGrows | kAlways,
     {{{"time.quick_beginning", kAtLeast, 3},
       {"time.usually_slower_after", kAtLeast, 1.5},
       {"own_waits.before", kBelow, 0.25},
       {"own_waits.more", kAtLeast, 0.5},
       {"run.iterations", kAtLeast, 64}}}},
    {kQueue,
     "wait for the work of each measured step, or limit the length of the queue",
     kTimeGrows | kAlways,
     {{{"time.quick_beginning", kAtLeast, 2},
       {"queue_depth.fills", kAtLeast, 0.5},
       {"run.iterations", kAtLeast, 64}}}},
    {kOneByOne,
     "capture the step with capture(fn), or use a Trainer",
     kSlow,
     {{{"time.slower", kAtLeast, kSlowFactor},
       {"eager_ops.usual_per_iteration", kAtLeast, 8},
       {"phase.compute.share", kAtLeast, 0.5}}}},
    {kOneByOne,
     "capture the step with capture(fn), or use a Trainer",
     kSlow,
     {{{"time.slower", kAtLeast, kSlowFactor},
       {"eager_ops.usual_per_iteration", kAtLeast, 8},
       {"phase.unexplained.share", kAtLeast, 0.5}}}},
    {kAllocations,
     "plan the step into an arena",
     kSlow,
     {{{"system_allocations.usual_per_iteration", kAtLeast, 1}}}},
    {kCheckpointsLeft,
     "keep the last few, or save less often",
     kDiskGrows,
     {{{"disk_bytes.growing", kAtLeast, 0.5}, {"disk_bytes.weights_share", kAtLeast, 0.3}}}},
    {kCheckpointsLeft,
     "keep the last few, or save less often",
     kDiskGrows | kAlways,
     {{{"weight_files.left", kAtLeast, 16}, {"weight_files.left_share", kAtLeast, 0.9}}}},
    {kCheckpointsBlock,
     "save in the background, or less often",
     kTimeGrows,
     {{{"phase.checkpoint.growth_share", kAtLeast, 0.5}}}},
    {kCheckpointsBlock,
     "save in the background, or less often",
     kSlow,
     {{{"phase.checkpoint.share_of_run", kAtLeast, 0.1}}}},
    {kCheckpointsBlock,
     "save in the background, or less often",
     kAlways,
     {{{"spikes.checkpoint.time_share", kAtLeast, 0.02}, {"run.seconds", kAtLeast, 0.3}}}},
    {kCheckpointsBlock,
     "save less often: writing takes a core from the step",
     kAlways,
     {{{"spikes.saving_beside.time_share", kAtLeast, 0.05}, {"run.seconds", kAtLeast, 0.3}}}},
    {kLogs,
     "log less often, rotate the logs, and clean up the temporary folder",
     kDiskGrows,
     {{{"disk_bytes.growing", kAtLeast, 0.5}, {"disk_bytes.weights_share", kBelow, 0.7}}}},
    {kLogs,
     "write one event file per run, and clean up the temporary folder",
     kDiskGrows | kAlways,
     {{{"event_files.left", kAtLeast, 16}, {"event_files.left_share", kAtLeast, 0.9}}}},
    {kLogs,
     "log less often, and rotate the logs",
     kDiskGrows | kAlways,
     {{{"logs.per_iteration", kAtLeast, 32},
       {"logs.per_second", kAtLeast, 2000},
       {"logs.gained", kAtLeast, 262144}}}},
    {kLogs,
     "write histograms and scalars less often",
     kDiskGrows | kAlways,
     {{{"event_bytes.gained", kAtLeast, 67108864}, {"event_bytes.usual_per_iteration", kAtLeast, 32}}}},
    {kProfiler,
     "sample less often, time longer steps, or use fewer scopes",
     kSlow,
     {{{"overhead.share", kAtLeast, 0.1}}}},
    {kStragglingRank,
     "prefetch or map in parallel on that rank, or give it storage as fast as the others'",
     kTimeGrows | kSlow,
     {{{"straggler.share", kAtLeast, 0.1},
       {"straggler.steady", kAtLeast, 0.75},
       {"straggler.input_share", kAtLeast, 0.5}}}},
    {kStragglingRank,
     "raise the CPU quota of that rank's control group, or use fewer threads there",
     kTimeGrows | kSlow,
     {{{"straggler.share", kAtLeast, 0.1},
       {"straggler.steady", kAtLeast, 0.75},
       {"straggler.throttled_share", kAtLeast, 0.3}}}},
    {kStragglingRank,
     "give that rank its own cores: other programs are using them",
     kTimeGrows | kSlow,
     {{{"straggler.share", kAtLeast, 0.1},
       {"straggler.steady", kAtLeast, 0.75},
       {"straggler.waited_share", kAtLeast, 0.3}}}},
    {kStragglingRank,
     "check that rank's network: its card, cable and port, and what else uses them",
     kTimeGrows | kSlow,
     {{{"straggler.share", kAtLeast, 0.1}, {"straggler.link_slower", kAtLeast, 2}}}},
    {kStragglingRank,
     "check that rank's machine for slower or hotter cores or fewer threads, or give it less work",
     kTimeGrows | kSlow,
     {{{"straggler.share", kAtLeast, 0.1}, {"straggler.steady", kAtLeast, 0.75}}}},
    {kMoreSent,
     "exchange what is new, not all that was gathered so far",
     kTimeGrows | kMemoryGrows | kAlways,
     {{{"sent_bytes.speed_up", kAtLeast, 1.5}, {"sent_bytes.per_iteration", kAtLeast, 64}}}},
    {kNetwork,
     "look for other traffic on the links between the ranks",
     kTimeGrows,
     {{{"phase.communication.growth_share", kAtLeast, 0.5}, {"sent_bytes.speed_up", kBelow, 1.2}}}},
    {kExposed,
     "make batches larger, accumulate more of them per update, or use a faster network",
     kSlow,
     {{{"phase.communication.usual_share", kAtLeast, 0.3}}}},
};

constexpr std::string_view kMemorySeries[] = {"rss_bytes",    "bytes_in_use", "bytes_reserved",
                                              "live_tensors", "tape_entries", "graph_nodes"};

/// The minimum length of a run for rates and shares: a shorter run is mostly its own beginning.
constexpr double kMinIterations = 64, kMinSeconds = 0.3;

unsigned symptoms_of(const Evidence& evidence) {
  unsigned symptoms = kAlways;
  if (evidence.holds("time.growing")) symptoms |= kTimeGrows;
  for (std::string_view series : kMemorySeries) {
    // A level that rises only once, however late, isn't growth.
    const bool rises = evidence.get(fmt::format("{}.rise", series)).value_or(1) > 0;
    if (rises && evidence.holds(fmt::format("{}.growing", series))) symptoms |= kMemoryGrows;
  }
  if (evidence.holds("disk_bytes.growing")) symptoms |= kDiskGrows;
  const bool long_enough = evidence.get("run.iterations").value_or(kMinIterations) >= kMinIterations &&
                           evidence.get("run.seconds").value_or(kMinSeconds) >= kMinSeconds;
  if (long_enough && evidence.get("time.slower").value_or(kSlowFactor) >= kSlowFactor) symptoms |= kSlow;
  return symptoms;
}

bool holds(const Condition& condition, const Evidence& evidence) {
  const std::optional<double> value = evidence.get(condition.quantity);
  switch (condition.comparison) {
    case Condition::kAtLeast:
      return value && *value >= condition.threshold;
    case Condition::kBelow:
      return !value || *value < condition.threshold;
    case Condition::kNone:
      return true;
  }
  return false;
}

/// Returns an empty entry for a cause that isn't in the catalogue.
CatalogueEntry entry_of(std::string_view cause) {
  const auto found = std::ranges::find(kCatalogue, cause, &CatalogueEntry::cause);
  return found == std::end(kCatalogue) ? CatalogueEntry{} : *found;
}

std::string numbers_of(const CauseRule& rule, const Evidence& evidence) {
  std::string text;
  for (const Condition& condition : rule.conditions) {
    const std::optional<double> value = evidence.get(condition.quantity);
    if (condition.comparison != kAtLeast || !value) continue;
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", condition.quantity, *value);
  }
  return text;
}

Cause unexplained(unsigned symptoms, const Evidence& evidence) {
  std::vector<std::string> what;
  if (symptoms & kTimeGrows) what.emplace_back("time grows");
  if (symptoms & kMemoryGrows) what.emplace_back("memory grows");
  if (symptoms & kDiskGrows) what.emplace_back("disk use grows");
  std::string text = fmt::format("{}", fmt::join(what, ", "));
  std::string_view most;
  double largest = 0;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const std::string_view phase = phase_name(static_cast<Phase>(p));
    const double share = evidence.get(fmt::format("phase.{}.growth_share", phase)).value_or(0);
    if (share <= largest) continue;
    largest = share;
    most = phase;
  }
  if ((symptoms & kTimeGrows) && !most.empty())
    text += fmt::format("; {:.0f} % of it in phase {}", 100 * largest, most);
  return {"unexplained", "profile the phase, and add a gauge for what may grow", text, {}};
}

}  // namespace

std::optional<double> Evidence::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional<double>(found->second);
}

std::span<const CauseRule> cause_rules() { return kRules; }
std::span<const CatalogueEntry> catalogue() { return kCatalogue; }

bool of_machine(std::string_view cause) { return cause == kMachine || cause == kStolen || cause == kClocks; }

bool brings_along(std::string_view root, std::string_view other) {
  const std::span<const std::string_view> brings = entry_of(root).brings;
  return std::ranges::find(brings, other) != brings.end();
}

bool owns_spikes(std::string_view cause, Phase phase, SpikeWork work) {
  if (work == SpikeWork::kPlans) return cause == kPartialBatch || cause == kRetraced;
  // A cause that makes memory grow also makes the pool grow.
  if (work == SpikeWork::kTookMemory) return brings_along(cause, kAllocations);
  return entry_of(cause).spikes_of == phase;
}

std::vector<Cause> attribute(const Evidence& evidence) {
  const unsigned symptoms = symptoms_of(evidence);
  unsigned open = symptoms & (kTimeGrows | kMemoryGrows | kDiskGrows);
  std::vector<const CauseRule*> found;  // the first row of each cause
  for (const CauseRule& rule : kRules) {
    const bool matches = (rule.explains & symptoms) != 0 &&
                         std::all_of(rule.conditions.begin(), rule.conditions.end(),
                                     [&](const Condition& condition) { return holds(condition, evidence); });
    if (!matches) continue;
    open &= ~rule.explains;
    const bool known =
        std::ranges::any_of(found, [&](const CauseRule* other) { return other->cause == rule.cause; });
    if (!known) found.push_back(&rule);
  }
  std::vector<Cause> causes;
  const auto follows = [&](const CauseRule* rule) {
    return std::ranges::any_of(found, [&](const CauseRule* other) {
      return other != rule && brings_along(other->cause, rule->cause);
    });
  };
  for (const CauseRule* rule : found) {
    if (follows(rule)) continue;
    Cause cause{std::string(rule->cause), std::string(rule->fix), numbers_of(*rule, evidence)};
    for (const CauseRule* other : found) {
      if (other != rule && brings_along(rule->cause, other->cause))
        cause.consequences.emplace_back(other->cause);
    }
    causes.push_back(std::move(cause));
  }
  if (open != 0) causes.push_back(unexplained(open, evidence));
  return causes;
}

}  // namespace isochron::observe
