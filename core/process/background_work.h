// Marks threads that work alongside the training (writing checkpoints), so that their allocations aren't
// attributed to the step.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace isochron {

namespace internal {
inline thread_local int t_background_work = 0;
}

/// Scope of such work on this thread.
class BackgroundWork {
 public:
  BackgroundWork() { ++internal::t_background_work; }
  ~BackgroundWork() { --internal::t_background_work; }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  static bool active() { return internal::t_background_work > 0; }
};

/// Permanently gives the compute threads priority over the calling thread. If they compete for a core, the
/// calling thread gets about a tenth of it, and its work takes longer. Nothing changes on an idle core, or if
/// a sandbox forbids the call.
inline void give_way_to_compute() {
  constexpr int kMoreNice = 10;  // than the process
  const id_t thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kMoreNice);
}

}  // namespace isochron
