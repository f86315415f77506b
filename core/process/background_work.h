// Marks threads that work beside the training (writing checkpoints), so that their allocations are not taken
// for the step's.
#pragma once

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

}  // namespace isochron
