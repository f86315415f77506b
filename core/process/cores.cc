#include "isochron/core/process/cores.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

/// Cores allowed by the cgroup v2 quota, or a large number without one.
double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1e9;
  return std::max(1.0, std::strtod(quota.c_str(), nullptr) / period);
}

std::atomic<int>& share_setting() {
  static std::atomic<int> setting{
      std::max(1, static_cast<int>(std::min(static_cast<double>(usable_cores().size()), quota_cores())))};
  return setting;
}

}  // namespace

int core_share() { return share_setting().load(std::memory_order_relaxed); }

void set_core_share(int cores) {
  require(cores >= 1, ErrorCode::kInvalidArgument, "set_core_share", "expected at least 1 core, got {}",
          cores);
  share_setting().store(cores);
}

std::vector<int> usable_cores(pid_t process) {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(process, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int64_t parse_core_wait_ns(std::string_view schedstat) {
  // time on a core, time waiting for one, time slices
  const size_t blank = schedstat.find(' ');
  if (blank == std::string_view::npos) return 0;
  const std::string_view rest = schedstat.substr(blank + 1);
  int64_t waited = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), waited);
  return error == std::errc() ? waited : 0;
}

}  // namespace isochron
