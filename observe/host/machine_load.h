// What else the machine is doing, for `isochron doctor`: other programs' use of the cores, time that the
// hypervisor took, and available memory. Linux only; values that the system doesn't report keep their
// defaults.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron::observe {

struct MachineLoad {
  double busy_cores = 0;    // used by any program (mean over the measured time)
  double own_cores = 0;     // by this process
  double stolen_cores = 0;  // given to other virtual machines by the hypervisor
  double load_average = 0;  // of the last minute
  int64_t available_bytes = 0;
  int64_t swap_bytes = 0;  // in use
};

/// Measures for `seconds`, during which this thread sleeps.
MachineLoad measure_load(double seconds);

namespace internal {
/// Sums over all cores, in ticks.
struct CpuTicks {
  int64_t busy = 0;
  int64_t stolen = 0;
};
/// From the text of /proc/stat; zeros if it is malformed.
CpuTicks parse_cpu_ticks(std::string_view text);
/// A field of /proc/meminfo ("MemAvailable"), in bytes; 0 if there is none.
int64_t parse_memory_field(std::string_view text, std::string_view name);
}  // namespace internal

}  // namespace isochron::observe
