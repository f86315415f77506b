// The cores that a process may run on, and the time that a thread waits for one, as the system tells them.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace isochron {

/// As sched_getaffinity(2), which is asked unless a test says otherwise.
using AffinityFunction = int (*)(pid_t process, size_t bytes, cpu_set_t* set);

/// The numbers of the cores that process `process` (0: the calling thread) may run on, in order; empty where
/// the system doesn't tell.
std::vector<int> usable_cores(pid_t process = 0, AffinityFunction ask = sched_getaffinity);
/// How many the calling thread may run on; those that are online where the system doesn't tell. At least 1.
int usable_core_count(AffinityFunction ask = sched_getaffinity);

/// How many cores this process may count on: those it may run on, as far as its control group's quota goes,
/// or what `set_core_share` told. At least 1.
int core_share();
/// Where other processes on this machine do the same work at the same time. Throws kInvalidArgument for less
/// than 1.
void set_core_share(int cores);

/// The least quota, in cores, of this process's control group and those above it, of either version; none
/// where there is no limit. `groups`, `own`: where the system shows them.
std::optional<double> core_quota(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                 const std::filesystem::path& own = "/proc/self/cgroup");

/// Time on the run queue in ns from the text of /proc/.../schedstat; 0 when malformed. Allocates nothing.
int64_t parse_core_wait_ns(std::string_view schedstat);

}  // namespace isochron
