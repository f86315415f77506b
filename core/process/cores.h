// The cores that a process may run on, and the time that a thread waits for one, as reported by the system.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace isochron {

/// A function like sched_getaffinity(2), which only tests replace.
using AffinityFunction = int (*)(pid_t process, size_t bytes, cpu_set_t* set);

/// The numbers of the cores that process `process` (0: the calling thread) may run on, in order; empty if the
/// system doesn't report them.
std::vector<int> usable_cores(pid_t process = 0, AffinityFunction ask = sched_getaffinity);
/// How many cores the calling thread may run on; the number of online cores if the system doesn't report it.
/// At least 1.
int usable_core_count(AffinityFunction ask = sched_getaffinity);

/// How many cores this process may count on: those that it may run on, limited by its control group's quota,
/// or the number given to `set_core_share`. At least 1.
int core_share();
/// Sets what core_share() returns, for a process that shares the machine with other processes of the same
/// job. Throws kInvalidArgument for less than 1.
void set_core_share(int cores);

/// The folders of this process's control groups for `controller` ("cpu", "memory"), of either version: its
/// own group, the groups above it, and last the mount points, which in a container are its own group. The
/// folders need not exist. `groups`, `own`: where the system mounts the groups and lists those of this
/// process.
std::vector<std::filesystem::path> control_groups(std::string_view controller,
                                                  const std::filesystem::path& groups = "/sys/fs/cgroup",
                                                  const std::filesystem::path& own = "/proc/self/cgroup");

/// The lowest quota, in cores, of this process's control group and those above it; none if there is no limit.
std::optional<double> core_quota(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                 const std::filesystem::path& own = "/proc/self/cgroup");

/// The file cpu.stat that reports how long processes were throttled because the quota was used up. It belongs
/// to the group with the lowest quota or, if there is no quota, to the nearest group that counts this time.
/// Empty if no group does.
std::filesystem::path throttling_file(const std::filesystem::path& groups = "/sys/fs/cgroup",
                                      const std::filesystem::path& own = "/proc/self/cgroup");

/// Time on the run queue in ns from the text of /proc/.../schedstat; 0 when malformed. Allocates nothing.
int64_t parse_core_wait_ns(std::string_view schedstat);

}  // namespace isochron
