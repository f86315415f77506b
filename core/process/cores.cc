#include "isochron/core/process/cores.h"

#include <sched.h>

#include <charconv>

namespace isochron {

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
