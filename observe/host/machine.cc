#include "isochron/observe/host/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <immintrin.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <span>
#include <sstream>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/process/threads.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // GCC has no header for it
#endif

namespace isochron::observe {
namespace {

/// The first line of a small file; empty if it can't be read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// The `n`-th (from 0) word of `text`, or empty.
std::string_view word(std::string_view text, int n) {
  for (;; --n) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (n == 0 || text.empty()) return text.substr(0, end);
    text.remove_prefix(end);
    if (!text.empty() && text.front() == '\n') return {};
  }
}

/// "always [madvise] never" -> "madvise".
std::string bracketed(const std::string& text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? std::string()
                                                                 : text.substr(open + 1, close - open - 1);
}

void read_cpuinfo(MachineDescription& machine) {
  constexpr std::string_view kFlags[] = {"sse4_2",      "avx",         "fma",      "f16c",     "avx2",
                                         "avx512f",     "avx512bw",    "avx512vl", "avx_vnni", "avx512_vnni",
                                         "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name") && machine.cpu_model.empty())
      machine.cpu_model = line.substr(colon + 2);
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(colon + 2));
    const std::set<std::string> present{std::istream_iterator<std::string>(words), {}};
    for (std::string_view flag : kFlags) {
      if (present.contains(std::string(flag))) machine.isa.emplace_back(flag);
    }
    machine.virtual_machine = present.contains("hypervisor");
    return;
  }
}

void read_limits(MachineDescription& machine) {
  machine.core_quota = core_quota();
  const std::optional<int64_t> memory = internal::memory_limit();
  if (memory && *memory < machine.memory_bytes) machine.memory_limit_bytes = memory;
}

}  // namespace

MachineDescription describe_machine() {
  MachineDescription machine;
  read_cpuinfo(machine);
  machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto usable = static_cast<int>(usable_cores().size());
  machine.usable_cores = usable > 0 ? usable : machine.cores;
  machine.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  read_limits(machine);
  machine.transparent_huge_pages = bracketed(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (utsname name; uname(&name) == 0) machine.kernel = fmt::format("{} {}", name.sysname, name.release);
  return machine;
}

std::string machine_text(const MachineDescription& machine) {
  std::string text =
      fmt::format("{}, {} cores, {:.1f} GB", machine.cpu_model.empty() ? "unknown CPU" : machine.cpu_model,
                  machine.cores, static_cast<double>(machine.memory_bytes) / 1e9);
  if (machine.usable_cores != machine.cores) text += fmt::format(", {} usable", machine.usable_cores);
  if (machine.core_quota) text += fmt::format(", quota {:.1f} cores", *machine.core_quota);
  if (machine.memory_limit_bytes) {
    text += fmt::format(", memory limit {:.1f} GB", static_cast<double>(*machine.memory_limit_bytes) / 1e9);
  }
  if (!machine.governor.empty()) text += fmt::format(", governor {}", machine.governor);
  if (!machine.isa.empty()) text += fmt::format(", {}", fmt::join(machine.isa, " "));
  if (machine.virtual_machine) text += ", virtual";
  return text;
}

namespace {

struct HeapUse {
  int64_t in_use_bytes = kUnknownReading;
  int64_t free_bytes = kUnknownReading;
};

/// Walks through all free blocks: 0.3 us each.
HeapUse heap_use() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {static_cast<int64_t>(__sanitizer_get_current_allocated_bytes()), kUnknownReading};
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 info = mallinfo2();
  return {static_cast<int64_t>(info.uordblks + info.hblkhd), static_cast<int64_t>(info.fordblks)};
#else
  return {};
#endif
}

/// The files that `Sensors::read_slow` reads, in this order.
enum SlowFile { kStatus, kQuota, kThrottles, kClock };

std::atomic<int64_t> g_read_by_sensors{0};  // bytes

/// Reads the beginning of an open file into `text`; empty if it can't be read.
std::string_view read_file(int fd, std::span<char> text) {
  const ssize_t size = fd < 0 ? -1 : ::pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return {};
  g_read_by_sensors.fetch_add(size, std::memory_order_relaxed);
  return {text.data(), static_cast<size_t>(size)};
}

int open_to_read(const char* path) { return ::open(path, O_RDONLY | O_CLOEXEC); }

int open_schedule() { return open_to_read("/proc/thread-self/schedstat"); }

}  // namespace

Sensors::Sensors()
    : statm_(open_to_read("/proc/self/statm")),
      stat_(open_to_read("/proc/stat")),
      io_(open_to_read("/proc/self/io")),
      schedules_(static_cast<size_t>(compute_threads())),
      quota_cores_(internal::quota_cores(core_quota(), usable_core_count())) {
  slow_[kStatus] = open_to_read("/proc/self/status");
  slow_[kQuota] = open_to_read(throttling_file().c_str());
  slow_[kThrottles] = open_to_read("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count");
  slow_[kClock] = open_to_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  for (int& schedule : schedules_) schedule = open_schedule();
}

Sensors::~Sensors() {
  for (const int fd : {statm_, stat_, io_}) ::close(fd);
  for (const int fd : slow_) ::close(fd);
  for (const int schedule : schedules_) ::close(schedule);
}

void Sensors::watch_team(bool team) {
  watched_ = 1;
  if (!team || compute_threads() != static_cast<int>(schedules_.size())) return;
  each_thread(compute_threads(), [&](int64_t thread) {
    const int own = thread == 0 ? -1 : open_schedule();
    if (own < 0) return;
    ::dup3(own, schedules_[static_cast<size_t>(thread)], O_CLOEXEC);
    ::close(own);
  });
  watched_ = schedules_.size();
}

int64_t Sensors::waited_ns() {
  int64_t total = 0;
  char text[kShortText];
  for (size_t i = 0; i < watched_; ++i) total += parse_core_wait_ns(read_file(schedules_[i], text));
  return total;
}

SensorReading Sensors::read() {
  SensorReading reading;
  read(reading);
  read_slow(reading);
  return reading;
}

void Sensors::read(SensorReading& reading) {
  char text[kShortText];
  const int64_t pages = internal::parse_resident_pages(read_file(statm_, text));
  reading.rss_bytes = pages > 0 ? pages * sysconf(_SC_PAGESIZE) : kUnknownReading;
  if (rusage usage; getrusage(RUSAGE_SELF, &usage) == 0) {
    reading.minor_faults = usage.ru_minflt;
    reading.major_faults = usage.ru_majflt;
    reading.voluntary_switches = usage.ru_nvcsw;
    reading.involuntary_switches = usage.ru_nivcsw;
  }
  if (rusage usage; getrusage(RUSAGE_THREAD, &usage) == 0) reading.own_waits = usage.ru_nvcsw;
  const int64_t own_bytes = g_read_by_sensors;  // the system counts a read when it has finished
  const std::string_view io = read_file(io_, text);
  reading.read_bytes = std::max<int64_t>(internal::parse_named(io, "rchar: ").value_or(0) - own_bytes, 0);
  reading.written_bytes = internal::parse_named(io, "wchar: ").value_or(0);
  reading.stored_bytes = internal::parse_named(io, "write_bytes: ").value_or(0);
}

void Sensors::read_slow(SensorReading& reading) {
  char text[kLongText];
  const HeapUse heap = heap_use();
  reading.heap_bytes = heap.in_use_bytes;
  reading.heap_free_bytes = heap.free_bytes;
  reading.stolen_ns = internal::parse_stolen_ns(read_file(stat_, text), 1'000'000'000 / sysconf(_SC_CLK_TCK));
  const auto swapped_kb = internal::parse_named(read_file(slow_[kStatus], text), "VmSwap:");
  reading.swap_bytes = swapped_kb ? *swapped_kb * 1024 : kUnknownReading;
  reading.throttled_ns = kUnknownReading;
  const std::string_view quota = read_file(slow_[kQuota], text);
  if (const auto us = internal::parse_named(quota, "throttled_usec ")) {
    reading.throttled_ns = *us * 1000 / quota_cores_;
  } else if (const auto ns = internal::parse_named(quota, "throttled_time ")) {
    reading.throttled_ns = *ns / quota_cores_;
  }
  reading.thermal_throttles = parse_int(read_file(slow_[kThrottles], text)).value_or(kUnknownReading);
  reading.clock_khz = parse_int(read_file(slow_[kClock], text)).value_or(kUnknownReading);
}

bool take_subnormal_note() {
#ifdef __SSE2__
  constexpr unsigned kOperandSubnormal = 1U << 1, kTiny = 1U << 4, kFlush = 1U << 15;
  const unsigned state = _mm_getcsr();
  if ((state & (kOperandSubnormal | kTiny)) == 0) return false;
  _mm_setcsr(state & ~(kOperandSubnormal | kTiny));
  // The processor also flags a tiny result that was flushed to zero, but that costs no time.
  return (state & kOperandSubnormal) != 0 || (state & kFlush) == 0;
#else
  return false;
#endif
}

ReferenceKernel::ReferenceKernel() : work_(static_cast<size_t>(compute_threads())) {
  for (Work& work : work_) {
    for (size_t i = 0; i < work.data.size(); ++i) work.data[i] = 1.0F + 1e-3F * static_cast<float>(i % 7);
  }
  use_team(false);
}

void ReferenceKernel::use_team(bool team) {
  constexpr int kTimings = 64;
  alone_.clear();
  // A team of another size would make the OpenMP library create new threads.
  threads_ = team && compute_threads() == static_cast<int>(work_.size()) ? compute_threads() : 1;
  if (threads_ > 1 && !team_meets()) threads_ = 1;
  for (int i = 0; i < kTimings; ++i) time_ns();
}

bool ReferenceKernel::team_meets() {
  constexpr int kTimings = 64;
  team_.clear();
  int met = 0;
  for (int i = 0; i < kTimings; ++i) {
    const double ns = run_team();
    team_.add(ns);
    met += std::isfinite(ns);
  }
  return 2 * met > kTimings && std::isfinite(team_.lowest);
}

void ReferenceKernel::Level::clear() {
  lowest = std::numeric_limits<double>::infinity();
  latest.fill(lowest);
  next = 0;
}

void ReferenceKernel::Level::add(double ns) {
  latest[next] = ns;
  next = (next + 1) % latest.size();
  std::array<double, 5> sorted = latest;
  std::nth_element(sorted.begin(), sorted.begin() + 2, sorted.end());
  lowest = std::min(lowest, sorted[2]);
}

namespace {

void sweep(std::span<float> data, int times) {
  for (int i = 0; i < times; ++i) {
    for (float& elem : data) elem = elem * 0.5F + 1.0F;  // converges to 2: never subnormal, never large
    asm volatile("" : : "r"(data.data()) : "memory");    // each sweep reads and writes anew
  }
}

/// A barrier for the threads of a team without system calls. If a thread doesn't arrive because it was
/// interrupted, the others give up waiting.
class MeetingPoint {
 public:
  explicit MeetingPoint(int threads) : threads_(threads) {}
  /// Waits until all threads have arrived for the `times`-th time; false if one doesn't arrive soon.
  bool meet(int times) {
    constexpr int kMaxWaits = 1000;
    here_.fetch_add(1, std::memory_order_acq_rel);
    for (int i = 0; i < kMaxWaits; ++i) {
      if (here_.load(std::memory_order_acquire) >= times * threads_) return true;
      _mm_pause();
    }
    return false;
  }

 private:
  const int threads_;
  std::atomic<int> here_ = 0;
};

}  // namespace

double ReferenceKernel::run_alone() {
  const int64_t begin = now_ns();
  sweep(work_[0].data, kSweeps);
  return static_cast<double>(now_ns() - begin);
}

double ReferenceKernel::run_team() {
  MeetingPoint point(threads_);
  each_thread(threads_, [&](int64_t thread) {
    double& ns = work_[static_cast<size_t>(thread)].ns;
    ns = std::numeric_limits<double>::infinity();
    sweep(work_[static_cast<size_t>(thread)].data, kSweeps / kRounds);
    int times = 0;
    if (!point.meet(++times)) return;
    const int64_t begin = now_ns();
    for (int64_t round = 1; round <= kRounds; ++round) {
      sweep(work_[static_cast<size_t>((thread + round) % threads_)].data, kSweeps / kRounds);
      if (!point.meet(++times)) return;
    }
    ns = static_cast<double>(now_ns() - begin);
  });
  double slowest = 0;
  for (const Work& work : work_) slowest = std::max(slowest, work.ns);
  return slowest;
}

double ReferenceKernel::time_ns() {
  run_alone();
  double ns = run_alone();
  alone_.add(ns);
  if (threads_ > 1) {
    const double team_ns = run_team();
    team_.add(team_ns);
    if (team_ns > kApart * team_.lowest) ns *= team_ns / team_.lowest;
  }
  return std::min(ns, kMaxTimes * alone_.lowest);
}

int64_t open_file_handles() {
  const int fd = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  // Entries of getdents64: inode, offset, then the record's length as 16 bits at byte 16 and the name at
  // byte 19.
  alignas(8) char buffer[4096];
  int64_t entries = 0;
  for (long size; (size = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < size;) {
      uint16_t length;
      std::copy_n(buffer + at + 16, sizeof length, reinterpret_cast<char*>(&length));
      if (buffer[at + 19] != '.') ++entries;
      at += length;
    }
  }
  ::close(fd);
  return entries - 1;  // without the directory's own descriptor
}

namespace internal {

int64_t parse_stolen_ns(std::string_view text, int64_t tick_ns) {
  // cpu  user nice system idle iowait irq softirq steal ...
  if (!text.starts_with("cpu ")) return 0;
  return parse_int(word(text, 8)).value_or(0) * tick_ns;
}

int64_t parse_resident_pages(std::string_view text) { return parse_int(word(text, 1)).value_or(0); }

std::optional<int64_t> memory_limit(const std::filesystem::path& groups, const std::filesystem::path& own) {
  std::optional<int64_t> least;
  for (const std::filesystem::path& folder : control_groups("memory", groups, own)) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = parse_int(first_line(folder / name));  // "max" is no number
      if (limit && *limit > 0) least = std::min(least.value_or(*limit), *limit);
    }
  }
  return least;
}

int64_t quota_cores(std::optional<double> quota, int usable) {
  const double cores = std::max(1, usable);
  return static_cast<int64_t>(std::ceil(std::min(cores, std::max(1.0, quota.value_or(cores)))));
}

std::optional<int64_t> parse_named(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    text.remove_prefix(at + name.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return parse_int(text);
  }
  return std::nullopt;
}

}  // namespace internal
}  // namespace isochron::observe
