#include "isochron/observe/host/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "isochron/core/base/clock.h"

namespace isochron::observe {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double own_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

namespace internal {

CpuTicks parse_cpu_ticks(std::string_view text) {
  if (!text.starts_with("cpu ")) return {};
  std::istringstream line(std::string(text.substr(4, text.find('\n') - 4)));
  // user nice system idle iowait irq softirq steal
  std::array<int64_t, 8> ticks{};
  for (int64_t& value : ticks) line >> value;
  if (!line) return {};
  return {ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7]};
}

int64_t parse_memory_field(std::string_view text, std::string_view name) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    int64_t kilobytes = 0;
    std::from_chars(line.data(), line.data() + line.size(), kilobytes);
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace internal

MachineLoad measure_load(double seconds) {
  const auto ticks_before = internal::parse_cpu_ticks(text_of("/proc/stat"));
  const double own_before = own_seconds();
  const int64_t began_ns = now_ns();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const auto ticks = internal::parse_cpu_ticks(text_of("/proc/stat"));
  const double passed = static_cast<double>(now_ns() - began_ns) * 1e-9;
  const double per_tick = 1.0 / (static_cast<double>(::sysconf(_SC_CLK_TCK)) * passed);
  const std::string memory = text_of("/proc/meminfo");
  MachineLoad load;
  load.busy_cores = static_cast<double>(ticks.busy - ticks_before.busy) * per_tick;
  load.stolen_cores = static_cast<double>(ticks.stolen - ticks_before.stolen) * per_tick;
  load.own_cores = (own_seconds() - own_before) / passed;
  std::istringstream(text_of("/proc/loadavg")) >> load.load_average;
  load.available_bytes = internal::parse_memory_field(memory, "MemAvailable");
  load.swap_bytes =
      internal::parse_memory_field(memory, "SwapTotal") - internal::parse_memory_field(memory, "SwapFree");
  return load;
}

}  // namespace isochron::observe
