// Sliding windows over series, as rows: nothing is copied until a window is delivered.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

struct WindowOptions {
  int64_t length = 1;    // steps that a window holds
  int64_t horizon = 0;   // steps after the window that the target holds; 0: no target
  int64_t stride = 1;    // from one window to the next
  int64_t dilation = 1;  // from one step of a window to the next
};

/// Windows of a series (steps, ...), contiguous: "window" (length, ...) and, with a horizon, "target"
/// (horizon, ...), the steps that follow the window's last one. Row n begins at step n x stride. Throws
/// kInvalidArgument for options below 1 (horizon: 0), a scalar, a strided series, or one that is too short
/// for one window.
Dataset from_windows(const Tensor& series, const WindowOptions& options);

/// The number of windows of a series of `steps`; 0 if it is too short. Throws kInvalidArgument for options
/// out of range, kOverflow.
int64_t window_count(int64_t steps, const WindowOptions& options);

}  // namespace isochron::data
