#include "isochron/core/process/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
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

/// The CPU quota of the control group of this folder, of either version.
std::optional<double> quota_in(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream both(folder / "cpu.max"); !(both >> quota >> period)) {  // "max" is no number
    quota = number_in(folder / "cpu.cfs_quota_us");                          // -1: none
    period = number_in(folder / "cpu.cfs_period_us");
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

bool counts_throttling(const std::filesystem::path& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("throttled_")) return true;
  }
  return false;
}

std::atomic<int>& share_setting() {
  static std::atomic<int> setting{[] {
    const double cores = usable_core_count();
    return std::max(1, static_cast<int>(std::min(cores, core_quota().value_or(cores))));
  }()};
  return setting;
}

}  // namespace

std::vector<std::filesystem::path> control_groups(std::string_view controller,
                                                  const std::filesystem::path& groups,
                                                  const std::filesystem::path& own) {
  std::vector<std::filesystem::path> folders;
  std::ifstream lines(own);
  // A line reads "4:cpu,cpuacct:/a/b" in version 1, and "0::/a/b" in version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const std::filesystem::path base = unified ? groups : groups / controller;
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path()) folders.push_back(base / path);
  }
  folders.push_back(groups);
  folders.push_back(groups / controller);
  return folders;
}

std::optional<double> core_quota(const std::filesystem::path& groups, const std::filesystem::path& own) {
  std::optional<double> least;
  for (const std::filesystem::path& folder : control_groups("cpu", groups, own)) {
    const std::optional<double> quota = quota_in(folder);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

std::filesystem::path throttling_file(const std::filesystem::path& groups, const std::filesystem::path& own) {
  std::filesystem::path found;
  std::optional<double> least;
  for (const std::filesystem::path& folder : control_groups("cpu", groups, own)) {
    std::filesystem::path file = folder / "cpu.stat";
    const std::optional<double> quota = quota_in(folder);
    const bool lower = quota && (!least || *quota < *least);
    if ((!lower && !found.empty()) || !counts_throttling(file)) continue;
    if (lower) least = quota;
    found = std::move(file);
  }
  return found;
}

int usable_core_count(AffinityFunction ask) {
  const auto cores = static_cast<int>(usable_cores(0, ask).size());
  return cores > 0 ? cores : std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

int core_share() { return share_setting().load(std::memory_order_relaxed); }

void set_core_share(int cores) {
  require(cores >= 1, ErrorCode::kInvalidArgument, "set_core_share", "expected at least 1 core, got {}",
          cores);
  share_setting().store(cores);
}

std::vector<int> usable_cores(pid_t process, AffinityFunction ask) {
  constexpr size_t kMaxSets = 1024;  // each holds the bits of CPU_SETSIZE cores
  std::vector<int> cores;
  std::vector<cpu_set_t> sets(1);  // contiguous, so that together they form one larger set
  const auto bytes = [&] { return sets.size() * sizeof(cpu_set_t); };
  while (ask(process, bytes(), sets.data()) != 0) {
    // EINVAL: the machine may have more cores than the set has room for.
    if (errno != EINVAL || sets.size() >= kMaxSets) return cores;
    sets.resize(2 * sets.size());
  }
  for (size_t core = 0; core < 8 * bytes(); ++core) {
    if (CPU_ISSET_S(core, bytes(), sets.data())) cores.push_back(static_cast<int>(core));
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
