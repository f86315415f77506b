#include "isochron/core/process/cores.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <string>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

/// The number that the file begins with; 0 for none.
double number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  double number = 0;
  return stream >> number ? number : 0;
}

/// What the control group of this folder allows, of either version.
std::optional<double> quota_in(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream both(folder / "cpu.max"); !(both >> quota >> period)) {  // "max" is no number
    quota = number_in(folder / "cpu.cfs_quota_us");                          // -1: none
    period = number_in(folder / "cpu.cfs_period_us");
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

std::atomic<int>& share_setting() {
  static std::atomic<int> setting{[] {
    const auto cores = static_cast<double>(usable_cores().size());
    return std::max(1, static_cast<int>(std::min(cores, core_quota().value_or(cores))));
  }()};
  return setting;
}

}  // namespace

std::optional<double> core_quota(const std::filesystem::path& groups, const std::filesystem::path& own) {
  std::optional<double> least;
  const auto look = [&](const std::filesystem::path& folder) {
    const std::optional<double> quota = quota_in(folder);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  };
  // Within a container the group's own folder may be the root.
  look(groups);
  look(groups / "cpu");
  std::ifstream lines(own);
  // "4:cpu,cpuacct:/a/b"; of the second version "0::/a/b".
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == std::string::npos) continue;
    const std::filesystem::path base = unified ? groups : groups / "cpu";
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path()) look(base / path);
  }
  return least;
}

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
