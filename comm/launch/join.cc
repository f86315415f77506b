#include "isochron/comm/launch/join.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/launch.h"
#include "isochron/core/process/threads.h"

namespace isochron::comm {

const std::shared_ptr<Group>& join() {
  if (world()->size() > 1) return world();
  const std::optional<Launch> launch = detect_launch();
  if (!launch || launch->size == 1) return world();
  set_world(std::make_shared<Group>([&launch] { return open_launched(*launch); }));
  std::atexit([] { world()->leave(); });
  if (const int threads = threads_of_rank(*launch); threads != compute_threads())
    set_compute_threads(threads);
  return world();
}

namespace {

/// On which it may run; 0: not known.
int cores_of(pid_t process) {
  cpu_set_t cores;
  return sched_getaffinity(process, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

}  // namespace

int threads_of_rank(const Launch& launch) {
  if (std::getenv("ISOCHRON_THREADS") != nullptr) return compute_threads();
  return share_of_cores(compute_threads(), cores_of(0), cores_of(getppid()), launch.local_size);
}

int share_of_cores(int usable, int own, int launchers, int local_size) {
  const bool bound = own < launchers;
  const int equal = std::max(1, (bound ? launchers : usable) / local_size);
  return std::min(usable, equal);
}

}  // namespace isochron::comm
