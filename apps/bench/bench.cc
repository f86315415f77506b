// `isochron bench`: times the reference cases and prints a table, or one JSON object per line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "isochron/apps/allocation_counter.h"
#include "isochron/apps/bench/cases.h"
#include "isochron/apps/bench/ranks.h"
#include "isochron/apps/commands.h"
#include "isochron/apps/device_option.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/precision_option.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/join.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/cuda/device_monitor.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/host/machine.h"
#include "isochron/train/callbacks/memory_watch.h"
#include "isochron/train/callbacks/step_profile.h"

namespace isochron::apps {
namespace {

/// Resident memory; 0 if the system doesn't report it.
int64_t resident_bytes(observe::Sensors& sensors) { return std::max<int64_t>(0, sensors.read().rss_bytes); }

constexpr int64_t kWarmupNs = 300'000'000;
constexpr int64_t kMinWarmupSteps = 3;
constexpr train::ProfileOptions kShortProfile{.rounds = 31, .seconds = 0.5};
constexpr size_t kMaxTimes = size_t{1} << 22;  // number of newest steps that are kept; preallocated, 32 MiB

struct Options {
  std::vector<std::string> cases;
  CaseOptions how;
  int threads = 0;
  double seconds = 3;
  int64_t steps = 0;
  bool json = false;
  bool ranks = false;
  bool profile = false;
  bool enforce_sealed = false;
  bool memory = false;
  bool plain_kernels = false;  // time the plain kernels
  std::string predict;         // a name in train::data_sheets()
};

struct Measurement {
  std::string name;
  std::string precision;
  std::string device;
  int64_t steps = 0;
  double p50_us = 0;
  double p99_us = 0;
  double min_us = 0;
  double drift = 1;  // median of the last tenth over that of the first
  double rss_mb = 0;
  double rss_growth_mb = 0;
  double memory_mb = 0;  // resident memory of the case: model, data, arena and what libraries keep for it
  double heap_allocations = 0;  // per step
  double library_allocations = 0;
  size_t arena_bytes = 0;
  size_t lower_bound_bytes = 0;
  size_t activation_bytes = 0;  // bytes that the backward pass keeps
  size_t instructions = 0;
  int device_nodes = 0;
  std::vector<std::string_view> plain_kernels;  // work on the device that runs without a library
  int64_t other_programs = -1;                  // other programs using the device; -1: unknown
  size_t longest_chain = 0;                     // instructions that must run one after another
  double capture_ms = 0;                        // tracing, gradients, passes, planning with kernel choice
  std::optional<train::StepPrediction> predicted;
  double limit_share = 0;  // time at the machine's limits over a train step's time; 0 for other cases
  // Per step of the first rank, if there are several ranks.
  double exposed_us = 0;  // time spent waiting for other ranks
  double bytes_sent = 0;
};

double quantile_us(std::vector<int64_t>& times, double fraction) {
  const size_t index =
      std::min(times.size() - 1, static_cast<size_t>(fraction * static_cast<double>(times.size())));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(index), times.end());
  return static_cast<double>(times[index]) * 1e-3;
}

double median_us(std::vector<int64_t> times) { return quantile_us(times, 0.5); }

/// `rss_before_case`: resident memory before the case was created.
Measurement measure(const BenchCase& entry, CaseRun& run, Options options, int64_t rss_before_case) {
  Measurement result;
  const bool ranks = comm::world()->size() > 1;
  result.name = entry.name;
  result.precision = entry.trains ? precision_name(options.how.precision) : std::string_view(entry.precision);
  result.device =
      options.how.device.is_cpu() ? "cpu" : cuda::gpu(options.how.device)->context().properties().name;
  if (!options.how.device.is_cpu()) result.plain_kernels = cuda::gpu(options.how.device)->sources().plain;
  const int64_t warm_start = now_ns();
  for (int64_t i = 0;
       i < kMinWarmupSteps || (!ranks && options.steps == 0 && now_ns() - warm_start < kWarmupNs); ++i)
    run.step();
  if (ranks) {
    const int64_t more =
        steps_of_all(kMinWarmupSteps, now_ns() - warm_start, static_cast<double>(kWarmupNs) * 1e-9);
    const int64_t began = now_ns();
    for (int64_t i = 0; i < more; ++i) run.step();
    if (options.steps == 0) options.steps = steps_of_all(more, now_ns() - began, options.seconds);
  }
  std::vector<int64_t> times(options.steps > 0 ? std::min(static_cast<size_t>(options.steps), kMaxTimes)
                                               : kMaxTimes);
  std::fill(times.begin(), times.end(), 0);  // so that its page faults are part of the warm-up
  std::optional<Seal> seal;
  if (options.enforce_sealed) seal.emplace();
  observe::Sensors sensors;
  const int64_t rss_before = resident_bytes(sensors);
  const int64_t heap_before = heap_allocations();
  const int64_t library_before = library_allocations();
  const comm::CommunicationStats sent_before = comm::world()->stats();
  const int64_t end = now_ns() + to_ns(options.seconds);
  int64_t now = now_ns();
  do {
    {
      const SealedSection section(seal ? &*seal : nullptr);
      run.step();
    }
    if (seal) seal->check(entry.name, result.steps + 1);
    const int64_t after = now_ns();
    times[static_cast<size_t>(result.steps++) % times.size()] = after - now;
    now = after;
  } while (options.steps > 0 ? result.steps < options.steps : now < end);
  const double steps = static_cast<double>(result.steps);
  result.heap_allocations = static_cast<double>(heap_allocations() - heap_before) / steps;
  result.library_allocations = static_cast<double>(library_allocations() - library_before) / steps;
  const comm::CommunicationStats sent = comm::world()->stats();
  result.exposed_us = static_cast<double>(sent.exposed_ns - sent_before.exposed_ns) * 1e-3 / steps;
  result.bytes_sent = static_cast<double>(sent.bytes_sent - sent_before.bytes_sent) / steps;
  const int64_t rss_after = resident_bytes(sensors);
  result.rss_mb = static_cast<double>(rss_after) * 1e-6;
  result.rss_growth_mb = static_cast<double>(rss_after - rss_before) * 1e-6;
  result.memory_mb = static_cast<double>(rss_after - rss_before_case) * 1e-6 -
                     static_cast<double>(times.size() * sizeof(int64_t)) * 1e-6;
  if (static_cast<size_t>(result.steps) > times.size()) {
    std::rotate(times.begin(),
                times.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(result.steps) % times.size()),
                times.end());
  }
  times.resize(std::min(times.size(), static_cast<size_t>(result.steps)));
  const size_t tenth = std::max<size_t>(1, times.size() / 10);
  result.drift = median_us({times.end() - static_cast<std::ptrdiff_t>(tenth), times.end()}) /
                 median_us({times.begin(), times.begin() + static_cast<std::ptrdiff_t>(tenth)});
  const double units = run.units();
  result.p50_us = quantile_us(times, 0.5) / units;
  result.p99_us = quantile_us(times, 0.99) / units;
  result.min_us = static_cast<double>(*std::min_element(times.begin(), times.end())) * 1e-3 / units;
  if (CapturedFunction* captured = run.captured()) {
    result.arena_bytes = captured->plan_report().arena_bytes;
    result.lower_bound_bytes = captured->plan_report().lower_bound_bytes;
    result.activation_bytes = captured->plan_report().activation_bytes;
    result.instructions = captured->plan_report().instructions;
    result.device_nodes = captured->plan_report().device_nodes;
    result.longest_chain = captured->plan_report().longest_chain;
    for (const TraceRecord& trace : captured->traces())
      result.capture_ms += static_cast<double>(trace.trace_ns + trace.passes_ns + trace.plan_ns) * 1e-6;
  }
  return result;
}

nlohmann::ordered_json as_json(const Measurement& m) {
  return {{"case", m.name},
          {"precision", m.precision},
          {"device", m.device},
          {"threads", compute_threads()},
          {"steps", m.steps},
          {"p50_us", m.p50_us},
          {"p99_us", m.p99_us},
          {"min_us", m.min_us},
          {"drift", m.drift},
          {"rss_mb", m.rss_mb},
          {"rss_growth_mb", m.rss_growth_mb},
          {"memory_mb", m.memory_mb},
          {"heap_allocations", m.heap_allocations},
          {"library_allocations", m.library_allocations},
          {"arena_bytes", m.arena_bytes},
          {"lower_bound_bytes", m.lower_bound_bytes},
          {"activation_bytes", m.activation_bytes},
          {"instructions", m.instructions},
          {"longest_chain", m.longest_chain},
          {"device_nodes", m.device_nodes},
          {"plain_kernels", m.plain_kernels},
          {"other_programs", m.other_programs},
          {"capture_ms", m.capture_ms},
          {"limit_share", m.limit_share},
          {"predicted_us", m.predicted ? m.predicted->ns * 1e-3 : 0.0},
          {"ranks", comm::world()->size()},
          {"exposed_us", m.exposed_us},
          {"bytes_sent", m.bytes_sent}};
}

/// Reports other programs on the device. The device alternates between programs, so their time is part of a
/// step's time.
void note_other_programs(Device device, Measurement& m) {
  if (device.is_cpu()) return;
  const auto monitor = cuda::machine_monitor(cuda::gpu(device)->context().properties());
  if (!monitor) return;
  m.other_programs = monitor->read().other_programs.value_or(-1);
  if (m.other_programs > 0)
    emit({EventKind::kNotice, "bench",
          fmt::format("{} {} also using {}, so the times of {} may be too long", m.other_programs,
                      m.other_programs == 1 ? "program is" : "programs are", m.device, m.name)});
}

/// The data sheet of the requested device, or else of the present device; null if there is none.
const train::DataSheet* data_sheet(const Options& options, std::string_view device) {
  for (const train::DataSheet& sheet : train::data_sheets()) {
    if (options.predict.empty() ? sheet.driver_name == device : sheet.name == options.predict) return &sheet;
  }
  return nullptr;
}

/// Joins the other ranks, if any. Only the first rank prints.
void join_ranks(const Options& options) {
  const comm::Group& ranks = *comm::join();
  require(ranks.size() > 1 || !options.ranks, ErrorCode::kInvalidArgument, "bench",
          "--ranks compares a step over several ranks with one alone, and this process has no other ranks; "
          "start it as: mpirun -np 2 --bind-to none isochron bench --ranks");
  if (ranks.size() == 1) return;
  require(!options.profile, ErrorCode::kUnsupported, "bench",
          "--profile is for one process, but {} were started", ranks.size());
  if (ranks.rank() > 0) print_nothing();
}

/// The requested cases, or all cases that support the options.
std::vector<const BenchCase*> chosen_cases(const Options& options) {
  std::vector<const BenchCase*> chosen;
  const bool several = comm::world()->size() > 1;
  const bool mixed = options.how.precision != Precision::kF32, there = !options.how.device.is_cpu();
  for (const std::string& name : options.cases) {
    chosen.push_back(&bench_case(name));
    require(chosen.back()->trains || !mixed, ErrorCode::kInvalidArgument, "bench",
            "case '{}' does not train, so it has no precision; leave --precision out", name);
    require(chosen.back()->trains || !there, ErrorCode::kUnsupported, "bench",
            "case '{}' does not train, and runs on the CPU only; leave --device out", name);
    require(chosen.back()->trains || !several, ErrorCode::kUnsupported, "bench",
            "case '{}' does not train, so it cannot be divided among ranks; leave it out", name);
  }
  if (!chosen.empty()) return chosen;
  for (const BenchCase& entry : bench_cases()) {
    if (entry.trains || !(mixed || there || several)) chosen.push_back(&entry);
  }
  return chosen;
}

/// Whether a case uses the computation `what`, an entry of `KernelSources::plain`.
bool uses(const BenchCase& entry, std::string_view what, Precision precision) {
  if (what == "convolutions") return entry.uses == Uses::kConvolutions;
  if (what == "attention in 16 bits")
    return entry.uses == Uses::kAttention && precision != Precision::kF32 && precision != Precision::kTf32;
  return true;
}

/// Reports that plain kernels on a device will be timed. Throws unless the user asked for that.
void require_libraries(const std::vector<const BenchCase*>& chosen, const Options& options) {
  if (options.how.device.is_cpu()) return;
  std::vector<std::string_view> plain = cuda::gpu(options.how.device)->sources().plain;
  std::erase_if(plain, [&](std::string_view what) {
    return std::ranges::none_of(
        chosen, [&](const BenchCase* entry) { return uses(*entry, what, options.how.precision); });
  });
  if (plain.empty()) return;
  require(options.plain_kernels, ErrorCode::kUnsupported, "bench",
          "{} would run in plain kernels, which are slow; install cuBLASLt and cuDNN, or time plain kernels "
          "alone with --plain-kernels",
          fmt::join(plain, ", "));
  if (!options.json)
    fmt::print("In plain kernels, without NVIDIA's libraries: {}.\n", fmt::join(plain, ", "));
}

void run(const Options& options) {
  require_precision(options.how.precision, options.how.device);
  join_ranks(options);
  const bool several = comm::world()->size() > 1;
  if (options.threads > 0) set_compute_threads(options.threads);
  const std::vector<const BenchCase*> chosen = chosen_cases(options);
  const bool there = !options.how.device.is_cpu();
  if (!options.json && options.how.precision != Precision::kF32 && !there)
    fmt::print("{}\n", ops::half_arithmetic(options.how.precision));
  require(there || options.predict.empty(), ErrorCode::kUnsupported, "bench",
          "--predict applies only to steps that are planned for a device; add --device cuda");
  require_libraries(chosen, options);
  if (options.ranks) return bench_ranks(chosen, {options.how, options.seconds, options.steps, options.json});
  if (!options.json) {
    fmt::print("{:<16} {:>9} {:>11} {:>11} {:>11} {:>6} {:>9} {:>12} {:>12} {:>12} {:>10} {:>7}{}\n", "case",
               "steps", "p50", "p99", "min", "drift", "heap/step", "library/step", "arena", "activations",
               "capture", "limits", there ? "  nodes  chain" : "");
  }
  for (const BenchCase* entry : chosen) {
    observe::Sensors sensors;
    const int64_t rss_before = resident_bytes(sensors);
    const std::unique_ptr<CaseRun> prepared = entry->make(options.how);
    Measurement m = measure(*entry, *prepared, options, rss_before);
    note_other_programs(options.how.device, m);
    const observe::MemoryMoment memory =
        options.memory ? train::memory_moment(entry->name, m.steps) : observe::MemoryMoment();
    std::optional<train::StepProfile> profile;
    // Measuring a device's limits takes device time, so it is done only on request.
    CapturedFunction* captured = entry->trains || options.profile ? prepared->captured() : nullptr;
    if (captured != nullptr && !several && (options.profile || !there)) {
      profile = train::profile(*captured, options.profile ? train::ProfileOptions() : kShortProfile);
      m.limit_share = profile->share();
    }
    if (const train::DataSheet* sheet = there ? data_sheet(options, m.device) : nullptr)
      m.predicted = train::predict(*prepared->captured(), *sheet);
    if (options.json) {
      nlohmann::ordered_json json = as_json(m);
      if (options.memory)
        json["memory"] = nlohmann::ordered_json::parse(observe::memory_json({&memory, 1}, -1));
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print(
          "{:<16} {:>9} {:>11} {:>11} {:>11} {:>6.3f} {:>9.3g} {:>12.3g} {:>12} {:>12} {:>10} {:>7}{}\n",
          m.name, m.steps, observe::duration_text(m.p50_us * 1e3), observe::duration_text(m.p99_us * 1e3),
          observe::duration_text(m.min_us * 1e3), m.drift, m.heap_allocations, m.library_allocations,
          observe::bytes_text(static_cast<double>(m.arena_bytes)),
          observe::bytes_text(static_cast<double>(m.activation_bytes)),
          observe::duration_text(m.capture_ms * 1e6), profile ? fmt::format("{:.2f}", m.limit_share) : "-",
          there ? fmt::format(" {:>6} {:>6}", m.device_nodes, m.longest_chain) : "");
      if (several)
        fmt::print("{:<16} {} ranks: per step each sends {} and waits {} for the others\n", "",
                   comm::world()->size(), observe::bytes_text(m.bytes_sent),
                   observe::duration_text(m.exposed_us * 1e3));
      if (m.predicted) fmt::print("{:<16} {}\n", "", m.predicted->text());
      if (options.memory) fmt::print("{}", observe::memory_text({&memory, 1}));
      if (options.profile && profile) fmt::print("\n{}\n", profile->text());
    }
    std::fflush(stdout);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "time the reference cases");
  std::string names;
  for (const BenchCase& entry : bench_cases())
    names += fmt::format("\n    {:<14} {}", entry.name, entry.what);
  command->add_option("case", options->cases, "cases to run; default: all" + names);
  auto named = std::make_shared<std::vector<std::string>>();
  command->add_option("--case", *named, "the same as naming the cases without --case");
  add_precision_option(*command, options->how.precision);
  add_device_option(*command, options->how.device, "device that the train steps run on");
  command->add_flag(
      "!--in-order", options->how.concurrent,
      "on a device, run all kernels one after another, even those that do not depend on each other");
  command->add_option("--threads", options->threads, "compute threads")
      ->check(whole_number(1, kMaxComputeThreads));
  command->add_option("--seconds", options->seconds, "seconds to measure each case")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--steps", options->steps, "number of steps to measure, instead of --seconds")
      ->check(whole_number(1));
  CLI::Option* const json = command->add_flag("--json", options->json, "print one JSON object per line");
  CLI::Option* const ranks = command->add_flag("--ranks", options->ranks,
                                               "under mpirun or srun: time each train step over all ranks "
                                               "and, in turns, the same step on every rank alone");
  command->add_flag("--profile", options->profile, "print where the time of a step goes, kernel by kernel")
      ->excludes(ranks)
      ->excludes(json);
  std::vector<std::string> sheets;
  for (const train::DataSheet& sheet : train::data_sheets()) sheets.emplace_back(sheet.name);
  command
      ->add_option("--predict", options->predict,
                   "on a device, also print the step time that a roofline model predicts from the data sheet "
                   "of this device; default: the device in use, if it is known")
      ->check(CLI::IsMember(sheets))
      ->excludes(ranks);
  command
      ->add_flag(
          "--enforce-sealed", options->enforce_sealed,
          "fail with a stack trace as soon as a step after warm-up creates something (see train --help)")
      ->excludes(ranks);
  command
      ->add_flag("--memory", options->memory,
                 "print the resident set by owner, and allocators by tag, after each case")
      ->excludes(ranks);
  command->callback([options, named, command] {
    options->plain_kernels = command->count("--plain-kernels") > 0;
    options->cases.insert(options->cases.end(), named->begin(), named->end());
    run(*options);
  });
}

}  // namespace isochron::apps
