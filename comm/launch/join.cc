#include "isochron/comm/launch/join.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/launch.h"
#include "isochron/comm/launch/launch_watch.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/process/threads.h"

namespace isochron::comm {

namespace {

/// What `join` keeps for the end of the process.
struct Joined {
  Launch launch;
  LaunchWatchOptions watch;
};
Joined* g_joined = nullptr;  // never deleted

}  // namespace

const std::shared_ptr<Group>& join(const LaunchWatchOptions& watch) {
  if (world()->size() > 1) return world();
  const std::optional<Launch> launch = detect_launch();
  if (!launch || launch->size == 1) return world();
  {
    const LaunchWatch starting(LaunchPhase::kStart, *launch, watch);
    set_world(std::make_shared<Group>([&launch] { return open_launched(*launch); }));
  }
  g_joined = new Joined{*launch, watch};
  std::atexit([] {
    const LaunchWatch ending(LaunchPhase::kEnd, g_joined->launch, g_joined->watch);
    world()->leave();
  });
  set_core_share(cores_of_rank(*launch));
  if (const int threads = threads_of_rank(*launch); threads != compute_threads())
    set_compute_threads(threads);
  return world();
}

int threads_of_rank(const Launch& launch) {
  if (std::getenv("ISOCHRON_THREADS") != nullptr) return compute_threads();
  return std::min(compute_threads(), cores_of_rank(launch));
}

int cores_of_rank(const Launch& launch) {
  const auto count = [](pid_t process) { return static_cast<int>(usable_cores(process).size()); };
  return share_of_cores(core_share(), count(0), count(getppid()), launch.local_size);
}

int share_of_cores(int usable, int own, int launchers, int local_size) {
  const bool bound = own < launchers;
  const int equal = std::max(1, (bound ? launchers : usable) / local_size);
  return std::min(usable, equal);
}

}  // namespace isochron::comm
