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

/// Lets the compute threads go before the calling thread where they want the same core, for good: about a
/// tenth of a busy core is left to it, and its work takes longer. Nothing changes on an idle core, nor where
/// a sandbox refuses it.
inline void give_way_to_compute() {
  constexpr int kMoreNice = 10;  // than the process
  const id_t thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kMoreNice);
}

}  // namespace isochron
