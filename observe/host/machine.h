// The machine: its description (for `isochron doctor` and the environment sections of reports), and its
// influence on a running loop: memory, faults, context switches, stolen time, and a fixed reference kernel
// whose time distinguishes a slowed machine from a slowed program. Linux only; values that the system doesn't
// report keep their defaults.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::observe {

struct MachineDescription {
  std::string cpu_model;
  int cores = 0;                     // online
  int usable_cores = 0;              // cores that this process may run on (affinity)
  std::optional<double> core_quota;  // cgroup CPU limit, in cores
  int64_t memory_bytes = 0;
  std::optional<int64_t> memory_limit_bytes;  // cgroup limit, if it is below memory_bytes
  std::string transparent_huge_pages;         // "always", "madvise", "never"; empty: unknown
  std::string governor;                       // frequency governor; empty: unknown (virtual machines)
  std::string kernel;
  bool virtual_machine = false;
  std::vector<std::string> isa;  // CPU flags that matter to kernels, if present
};
MachineDescription describe_machine();
/// "AMD EPYC, 2 cores, 8.0 GB, avx2 avx512f": one line.
std::string machine_text(const MachineDescription& machine);

/// A reading that isn't available.
inline constexpr int64_t kUnknownReading = -1;

/// Readings of this process, its machine and its device. Values marked "level" are current values; all others
/// are totals since the start.
struct SensorReading {
  int64_t rss_bytes = 0;  // level; may lag by 64 pages per core: the kernel counts in batches; may be unknown
  int64_t minor_faults = 0;
  int64_t major_faults = 0;
  int64_t voluntary_switches = 0;
  int64_t involuntary_switches = 0;
  int64_t own_waits = 0;      // how often the recording thread gave up its core to wait
  int64_t read_bytes = 0;     // from files and pipes, without the sensors' own reads
  int64_t written_bytes = 0;  // to files, pipes, terminals and, by some libraries, to the network
  int64_t stored_bytes = 0;   // to files on storage, in whole pages

  // The slow group. A value that the system doesn't report is kUnknownReading.
  int64_t heap_bytes = kUnknownReading;         // level: handed out by malloc
  int64_t heap_free_bytes = kUnknownReading;    // level: free memory that malloc keeps
  int64_t swap_bytes = kUnknownReading;         // level
  int64_t stolen_ns = 0;                        // CPU time the hypervisor gave to others, over all cores
  int64_t throttled_ns = kUnknownReading;       // CPU quota used up; mean over the cores that share it
  int64_t thermal_throttles = kUnknownReading;  // of core 0
  int64_t clock_khz = kUnknownReading;          // level: of core 0

  // Readings of a device, if one supplies them.
  int64_t device_in_use_bytes = kUnknownReading;    // level
  int64_t device_reserved_bytes = kUnknownReading;  // level
  int64_t device_retries = kUnknownReading;       // requests that succeeded after free memory was given back
  int64_t pinned_bytes = kUnknownReading;         // level: host memory that is page-locked for a device
  int64_t device_clock_khz = kUnknownReading;     // level
  int64_t device_temperature = kUnknownReading;   // level: degrees Celsius
  int64_t device_throttled_ns = kUnknownReading;  // time below its clocks because of temperature or power
};

/// The source from which a recorder reads the machine (RecorderOptions::sensors). Replace `Sensors` with
/// another source to simulate a machine that throttles, swaps or steals, or to add the readings of a device.
/// Called on the recording thread; must not allocate.
class SensorSource {
 public:
  virtual ~SensorSource() = default;
  /// Sets everything but the slow group.
  virtual void read(SensorReading& reading) = 0;
  /// Sets the slow group. This may take long: it walks through the heap block by block, and the system takes
  /// 10 to 100 us for its own statistics.
  virtual void read_slow(SensorReading& reading) = 0;
  /// The total time in ns that the recording thread, since its start, was ready to run but waited for a core.
  /// After `watch_team(true)`, includes the waits of the team's other threads, because a step whose kernels
  /// run on all of them waits for each. 0 if the system doesn't report it.
  virtual int64_t waited_ns() = 0;
  virtual void watch_team(bool team) = 0;
  /// A time to use for the reference kernel instead of running it; a simulated machine returns one.
  virtual std::optional<double> reference_ns() { return std::nullopt; }
};

/// The machine's own sensors, for the thread that creates the object. Keeps the files in /proc and /sys that
/// it reads open.
class Sensors final : public SensorSource {
 public:
  Sensors();
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;
  ~Sensors() override;
  void read(SensorReading& reading) override;
  void read_slow(SensorReading& reading) override;
  /// Reads both groups.
  SensorReading read();
  int64_t waited_ns() override;
  /// Doesn't change the number of open handles.
  void watch_team(bool team) override;

 private:
  static constexpr size_t kShortText = 256;
  static constexpr size_t kLongText = 4096;
  static constexpr size_t kSlowFiles = 4;

  int statm_ = -1;
  int stat_ = -1;
  int io_ = -1;
  std::array<int, kSlowFiles> slow_{};  // in the order of SlowFile (machine.cc)
  std::vector<int> schedules_;          // this thread's file, and a slot for each other thread of the team
  size_t watched_ = 1;
  int64_t quota_cores_ = 1;
};

/// Whether the calling thread has computed with subnormal numbers that weren't flushed to zero since the last
/// call; the processor records this at no cost. False if it can't be determined.
bool take_subnormal_note();

/// A fixed piece of work that keeps a core's execution units busy: independent multiplies and adds over 1 KB.
/// It slows down with the clock and, above all, when another hardware thread uses the core. Virtual machines
/// don't report the latter, and a chain of dependent operations would hardly show it. Takes about 1 us on a
/// core of 2023.
///
/// On a team, all threads also run it at the same time, in rounds: after a barrier, each works on the data
/// that its neighbor has just written. This shows when the host moves a virtual machine's cores apart:
/// fetching a cache line from another core then takes 350 ns instead of 45, and a step that runs on several
/// threads takes up to twice as long, although each core alone is as fast as before.
class ReferenceKernel {
 public:
  /// Prepares the kernel for one thread and for the compute_threads() that exist at construction.
  ReferenceKernel();
  /// Selects one thread (the default) or the team. The team is not used if its threads arrive too late at the
  /// barrier, because they sleep between loops or because other programs have their cores. Resets the lowest
  /// levels. Doesn't allocate.
  void use_team(bool team);
  int threads() const { return threads_; }
  /// Runs the kernel twice on this thread and returns the second duration in ns; the first run brings code
  /// and data back into the caches. On a team, multiplies it by the ratio of the team's duration to its
  /// lowest, if that ratio is above 1.5. Returns at most `kMaxTimes` times the quiet duration, since an
  /// interruption says nothing about speed.
  double time_ns();
  /// The lowest level seen on one thread. A level is the median of five timings.
  double quiet_ns() const { return alone_.lowest; }
  size_t bytes() const { return sizeof(*this) + work_.capacity() * sizeof(Work); }

 private:
  static constexpr int kElems = 256;
  static constexpr int kSweeps = 32;
  static constexpr int kRounds = 4;  // of a team
  static constexpr double kMaxTimes = 4;
  static constexpr double kApart = 1.5;  // times the lowest: more than the clock can explain
  using Block = std::array<float, kElems>;
  struct alignas(64) Work {
    Block data;
    double ns = 0;
  };
  struct Level {
    std::array<double, 5> latest;
    size_t next;
    double lowest;
    Level() { clear(); }
    void clear();
    void add(double ns);
  };
  bool team_meets();
  double run_alone();
  double run_team();

  std::vector<Work> work_;  // one per thread
  int threads_ = 1;
  Level alone_, team_;
};

/// The number of file descriptors that this process has open; -1 if /proc is missing. Doesn't allocate, so a
/// recorder's gauge may call it.
int64_t open_file_handles();

namespace internal {
/// Stolen time in ns from the text of /proc/stat, for ticks of `tick_ns`; 0 if the text has no such field.
int64_t parse_stolen_ns(std::string_view text, int64_t tick_ns);
/// Resident pages from the text of /proc/self/statm; 0 when malformed.
int64_t parse_resident_pages(std::string_view text);
/// The lowest memory limit of this process's control group and the groups above it. The arguments are those
/// of core_quota.
std::optional<int64_t> memory_limit(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                    const std::filesystem::path& own = "/proc/self/cgroup");
/// How many cores stop when a quota is used up. This is the quota rounded up to whole cores, but at most the
/// usable cores, and all of them if the quota is unknown. The system adds up the throttled time of these
/// cores.
int64_t quota_cores(std::optional<double> quota, int usable);
/// The number after `name` in a text of lines "name number", such as /proc/self/io ("rchar: ") or a control
/// group's cpu.stat ("throttled_usec "); nullopt if there is none.
std::optional<int64_t> parse_named(std::string_view text, std::string_view name);
}  // namespace internal

}  // namespace isochron::observe
