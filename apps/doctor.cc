// `isochron doctor`: reports on the machine, the libraries, MPI and the limit of every cache, and checks
// whether a device computes the same as the CPU.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "isochron/apps/commands.h"
#include "isochron/apps/device_option.h"
#include "isochron/apps/doctor_ranks.h"
#include "isochron/backends/common/choices.h"
#include "isochron/backends/common/choices_file.h"
#include "isochron/backends/common/libraries.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/backends/device_checks.h"
#include "isochron/backends/device_parts.h"
#include "isochron/core/base/error.h"
#include "isochron/core/cuda/device_monitor.h"
#include "isochron/core/cuda/driver.h"
#include "isochron/core/cuda/kernel_cache.h"
#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/core/files/cache_folder.h"
#include "isochron/core/files/written_files.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/core/text/count_text.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plan_picture.h"
#include "isochron/observe/host/machine.h"
#include "isochron/observe/host/machine_load.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/observe/record/trace.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/train/callbacks/graph_dump.h"
#include "isochron/train/callbacks/memory_watch.h"
#include "isochron/train/callbacks/results.h"
#include "isochron/train/callbacks/tensor_board.h"

namespace isochron::apps {
namespace {

/// Thresholds from which a finding is reported.
constexpr double kBusyCores = 0.25, kStolenCores = 0.02, kLittleMemory = 0.1;
constexpr double kLoadSeconds = 0.3;

std::string choices_on_disk() {
  const std::filesystem::path path = ops::choices_path();
  if (path.empty()) return "switched off (ISOCHRON_CACHE)";
  std::string now;
  try {
    now = fmt::format("{} now", ops::read_choices_file(path).size());
  } catch (const Error& error) {
    now = fmt::format("unusable: {}", error.what());
  }
  return fmt::format("{} in {} ({}), at most {} such files; delete it to time kernels again",
                     ops::kMaxRecordedChoices, path.string(), now, ops::kMaxChoicesFiles);
}

std::string kernels_on_disk() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return "switched off (ISOCHRON_CACHE)";
  return fmt::format("{} files in {}", cuda::KernelCache::kMaxFiles, folder.string());
}

/// The available devices, or what is missing.
std::string cuda_text() {
  try {
    cuda::Driver& driver = cuda::machine_driver();
    return fmt::format("driver {}, {} device(s); docs/gpu.md says what runs on a device",
                       cuda::version_text(driver.version()), driver.device_count());
  } catch (const Error& error) {
    return std::string(error.text());
  }
}

std::string vector_instructions() {
  return fmt::format("{}, oneDNN up to {} (ISOCHRON_VECTOR_TARGET: {})", ops::vector_target(),
                     ops::onednn_target(), fmt::join(ops::vector_targets(), ", "));
}

std::vector<DoctorRow> caps() {
  const CaptureOptions capture;
  return {
      {"plans of a captured function",
       fmt::format("{}, the least recently used is dropped", capture.max_plans)},
      {"traces remembered by a captured function", "256, the oldest is dropped"},
      {"signatures a captured function recognizes", "1024"},
      {"eager kernels",
       fmt::format("{} per thread, the least recently used is dropped", graph::kEagerCacheEntries)},
      {"arena of a plan", "fixed by the plan; the total is limited by max_arena_bytes"},
      {"oneDNN primitives", "1,024, kept by oneDNN (ONEDNN_PRIMITIVE_CACHE_CAPACITY)"},
      {"choices of kernels by timing", fmt::format("{} in memory", ops::kMaxRecordedChoices)},
      {"the same on disk", choices_on_disk()},
      {"kernels compiled for devices", kernels_on_disk()},
      {"plans of cuDNN", fmt::format("{} of convolutions and {} of attention, the oldest is dropped",
                                     cuda::kMaxPlansKept, cuda::kMaxPlansKept)},
      {"free memory of the pool", "as much as was in use at the peak; trim() returns it"},
      {"prefetched batches",
       "with kAutotune as many as fill 32 MiB, at least 2 and at most 16, plus one per further worker"},
      {"windows of a recorder", "256 per step class, then pairs are merged"},
      {"samples of a recorder",
       fmt::format("{}, then every other one is dropped", observe::Recorder::kMaxSamples)},
      {"spikes of a recorder", fmt::format("{} newest and {} largest", observe::Recorder::kMaxRecentSpikes,
                                           observe::Recorder::kMaxLargestSpikes)},
      {"events of a recorder", fmt::format("{} first and {} newest of each kind", observe::EventLog::kFirst,
                                           observe::EventLog::kNewest)},
      {"moments of a memory watch",
       fmt::format("{}, of {} tags each, the others summed", train::MemoryWatch::kMaxMoments,
                   observe::MemoryMoment::kMaxTags)},
      {"stacks of a sealed loop", fmt::format("the first of each of {} kinds, {} frames; {} bytes",
                                              kMadeCount, StackTrace::kMaxFrames, sizeof(Seal))},
      {"shapes of a plan's picture", fmt::format("{}, thinner ones are drawn together", observe::kMaxShapes)},
      {"the ledger of memory", "one entry per live allocator; tags are kept in the blocks' headers"},
      {"traced iterations of a recorder", fmt::format("the newest {}", observe::Recorder::kMaxTracings)},
      {"names of files written", fmt::format("{} per kind, the oldest is dropped", kMaxWrittenFiles)},
      {"spans and counters of a trace",
       fmt::format("the newest {} per thread of {} threads, only while a trace is recorded",
                   observe::TraceOptions{}.events_per_thread, TraceBuffer::kMaxThreads)},
      {"events in a trace", fmt::format("{}, the oldest is dropped", observe::TraceRecorder::kMaxMarks)},
      {"names of traced kernels and functions", fmt::format("{} per process", kMaxTraceNames)},
      {"graphs written by --graphs",
       fmt::format("{} traces of {} stages", train::GraphDump::kMaxTraces, train::GraphDump::kMaxStages)},
      {"nodes of a graph for TensorBoard", fmt::format("{}", observe::EventFile::kMaxGraphNodes)},
      {"histograms for TensorBoard",
       fmt::format("{} of weights and of gradients per epoch, {} buckets", train::TensorBoard::kMaxHistograms,
                   observe::HistogramSummary::kMaxBuckets)},
      {"epochs of a training history", fmt::format("{}, the oldest is dropped", train::History::kMaxEpochs)},
      {"records of a gradient tape", "until gradient() or the tape's end; counted as tape_entries"},
  };
}

/// `lines`: advice to list first.
std::vector<std::string> advice(const observe::MachineDescription& machine, const observe::MachineLoad& load,
                                std::vector<std::string> lines) {
  const double others = load.busy_cores - load.own_cores;
  if (others > kBusyCores) {
    lines.push_back(
        fmt::format("other programs use {:.1f} cores: steps will be slower and times noisier", others));
  }
  if (load.stolen_cores > kStolenCores) {
    lines.push_back(fmt::format(
        "the hypervisor gives the time of {:.2f} cores to others; nothing on this machine can fix that",
        load.stolen_cores));
  }
  const auto total = static_cast<double>(machine.memory_limit_bytes.value_or(machine.memory_bytes));
  if (load.available_bytes > 0 && static_cast<double>(load.available_bytes) < kLittleMemory * total) {
    lines.push_back(fmt::format("only {} of memory is available: pipelines use at most a quarter of it",
                                observe::bytes_text(static_cast<double>(load.available_bytes))));
  }
  if (load.swap_bytes > 0) {
    lines.push_back(fmt::format("{} is swapped out: reading it back shows as major page faults",
                                observe::bytes_text(static_cast<double>(load.swap_bytes))));
  }
  if (machine.usable_cores < machine.cores) {
    lines.push_back(fmt::format("this process may use {} of {} cores", machine.usable_cores, machine.cores));
  }
  if (machine.core_quota && *machine.core_quota < machine.usable_cores) {
    lines.push_back(
        fmt::format("the container's quota is {:g} cores: more threads than that will be throttled",
                    *machine.core_quota));
  }
  if (machine.virtual_machine) {
    lines.push_back(
        "this is a virtual machine: reports estimate stolen time and clock changes by timing a reference "
        "kernel");
  }
  if (machine.transparent_huge_pages == "never") {
    lines.push_back(
        "transparent huge pages are off: large arenas will cause more page faults when they are planned");
  }
  if (!machine.governor.empty() && machine.governor != "performance") {
    lines.push_back(fmt::format("the frequency governor is '{}': the first iterations may look too fast",
                                machine.governor));
  }
  if (lines.empty()) lines.push_back("nothing to improve");
  return lines;
}

void print_rows(std::string_view title, const std::vector<DoctorRow>& rows) {
  fmt::print("{}\n", title);
  for (const DoctorRow& row : rows) fmt::print("  {:<42} {}\n", row.what, row.text);
}

void run_doctor() {
  const observe::MachineDescription machine = observe::describe_machine();
  const LaunchReport ranks = launch_report(machine);
  if (!ranks.first) {
    fmt::print("{}\n", ranks.line);
    return;
  }
  const observe::MachineLoad load = observe::measure_load(kLoadSeconds);
  print_rows("Machine",
             {{"processor", observe::machine_text(machine)},
              {"kernel", machine.kernel},
              {"memory", observe::bytes_text(static_cast<double>(machine.memory_bytes))},
              {"memory limit", machine.memory_limit_bytes
                                   ? observe::bytes_text(static_cast<double>(*machine.memory_limit_bytes))
                                   : "none"},
              {"transparent huge pages",
               machine.transparent_huge_pages.empty() ? "unknown" : machine.transparent_huge_pages},
              {"frequency governor", machine.governor.empty() ? "unknown" : machine.governor},
              {"in use by other programs",
               fmt::format("{:.1f} cores now, load average {:.2f}",
                           std::max(0.0, load.busy_cores - load.own_cores), load.load_average)},
              {"memory available", observe::bytes_text(static_cast<double>(load.available_bytes))},
              {"compute threads", std::to_string(compute_threads())}});
  print_rows("Libraries", {{"isochron", ISOCHRON_VERSION},
                           {"oneDNN", ops::onednn_version()},
                           {"vector instructions in use", vector_instructions()},
                           {"bf16", ops::half_arithmetic(Precision::kMixedBf16)},
                           {"f16", ops::half_arithmetic(Precision::kMixedF16)},
                           {"fp8", ops::half_arithmetic(Precision::kMixedFp8)},
                           {"CUDA", cuda_text()},
                           {"NVTX ranges", built_with_nvtx() ? "built in; sent while a profiler is attached"
                                                             : "not built in"},
                           {"fmt", fmt::format("{}", FMT_VERSION)}});
  print_rows("Several processes", ranks.rows);
  print_rows("Caches, logs and buffers, and their limits", caps());
  fmt::print("Advice\n");
  for (const std::string& line : advice(machine, load, ranks.advice)) fmt::print("  {}\n", line);
}

/// The device's own readings.
std::string conditions_text(const cuda::DeviceProperties& device) {
  const auto monitor = cuda::machine_monitor(device);
  if (!monitor)
    return "no NVML: its clock, temperature and throttling, and other programs on it, are unknown";
  const cuda::DeviceConditions now = monitor->read();
  const auto told = [](const std::optional<int64_t>& value, double per, const char* unit) {
    return value ? fmt::format("{:g} {}", static_cast<double>(*value) / per, unit) : std::string("unknown");
  };
  return fmt::format(
      "clock {}, temperature {}, throttled for {} since the driver was loaded, other programs on it: {}",
      told(now.clock_khz, 1e3, "MHz"), told(now.temperature, 1, "C"), told(now.throttled_ns, 1e9, "s"),
      now.other_programs ? std::to_string(*now.other_programs) : "unknown");
}

/// Lists the ops that --verify checks.
void list_ops() {
  for (const graph::OpDef& op : ops::registry().rows()) {
    if (ops::is_device_checked(op)) fmt::print("{}\n", op.name);
  }
}

/// Lists the parts that --verify checks.
void list_parts() {
  for (const ops::DevicePart& part : ops::device_parts()) fmt::print("{}\n", part.name);
}

/// What --verify checks; everything if neither is named.
struct Verified {
  std::vector<std::string> ops, parts;

  bool everything() const { return ops.empty() && parts.empty(); }
};

/// Runs each op that has a kernel for the device, and each part, on the device and on the CPU.
void verify(Device asked, const Verified& what) {
  for (const std::string& name : what.ops) ops::registry().at(name);  // throws for an unknown one
  for (const std::string& name : what.parts) ops::device_part(name);
  const auto gpu = cuda::gpu(asked);
  const cuda::DeviceProperties& device = gpu->context().properties();
  fmt::print("{}, compute capability {}.{}, {} multiprocessors, {}\n", device.name, device.major,
             device.minor, device.multiprocessors,
             observe::bytes_text(static_cast<double>(device.total_bytes)));
  fmt::print("{}\n", conditions_text(device));
  const auto named = [&](const std::vector<std::string>& names, std::string_view name) {
    return what.everything() || std::ranges::find(names, name) != names.end();
  };
  std::vector<ops::DeviceCheck> checks;
  if (what.everything() || !what.ops.empty()) {
    checks = ops::check_device(
        gpu, ops::registry(), [&](const graph::OpDef& op, DType, size_t) { return named(what.ops, op.name); },
        true);
  }
  std::erase_if(checks, [](const ops::DeviceCheck& check) { return check.calls == 0; });
  const size_t ops_checked = checks.size();
  for (const ops::DevicePart& part : ops::device_parts()) {
    if (named(what.parts, part.name)) checks.push_back(ops::check_device_part(gpu, part));
  }
  int calls = 0, wrong = 0;
  for (const ops::DeviceCheck& check : checks) {
    calls += check.calls;
    wrong += check.wrong;
    if (check.wrong == 0) continue;
    fmt::print("{}: {} of {} calls differ\n", check.op, check.wrong, check.calls);
    for (const std::string& finding : check.findings) fmt::print("  {}\n", finding);
  }
  if (wrong > 0)
    throw CheckFailed(fmt::format("{} of {} calls differ between {} and the CPU", wrong, calls, device.name));
  fmt::print("{} of {} and {}: all agree with the CPU\n", count_text(calls, "call"),
             count_text(ops_checked, "op"), count_text(checks.size() - ops_checked, "part"));
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor", "show the machine, the libraries, MPI, and the limit of every cache, log and buffer");
  auto device = std::make_shared<Device>();
  auto asked = std::make_shared<bool>(false);
  auto what = std::make_shared<Verified>();
  add_device_option(*command, *device, "device to check with --verify");
  command->add_flag("--verify", *asked,
                    "run every op that has a device kernel, and some functions of several ops, on the device "
                    "and on the CPU, and compare the results; exit with 1 if any differ");
  command->add_option("--op", what->ops, "check only these ops")->needs("--verify");
  command->add_option("--part", what->parts, "check only these functions (see --list-parts)")
      ->needs("--verify");
  auto listed = std::make_shared<bool>(false), parts_listed = std::make_shared<bool>(false);
  command->add_flag("--list-ops", *listed, "print the ops that --verify checks, and exit");
  command->add_flag("--list-parts", *parts_listed,
                    "print the names of the functions that --part accepts, and exit");
  command->callback([device, asked, what, listed, parts_listed] {
    if (*listed) list_ops();
    if (*parts_listed) list_parts();
    if (*listed || *parts_listed) return;
    require(*asked != device->is_cpu(), ErrorCode::kInvalidArgument, "doctor",
            "--verify and --device cuda go together: --verify compares the device with the CPU");
    return *asked ? verify(*device, *what) : run_doctor();
  });
}

}  // namespace isochron::apps
