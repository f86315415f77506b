// Marks threads that work beside the training (writing checkpoints), so that their allocations are not taken
// for the step's.
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

/// Lets the compute threads go before the calling thread where they want the same core, for good. Its work
/// takes longer then: on Linux about a tenth of a busy core is left to it. Nothing changes on an idle core.
inline void give_way_to_compute() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // refused by a sandbox: as before
}

}  // namespace isochron
