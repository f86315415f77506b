#include "isochron/comm/launch/join.h"

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

int threads_of_rank(const Launch& launch) {
  // A launcher that binds its ranks has given each its cores already.
  if (std::getenv("ISOCHRON_THREADS") != nullptr || compute_threads() == 1) return compute_threads();
  return std::max(1, compute_threads() / launch.local_size);
}

}  // namespace isochron::comm
