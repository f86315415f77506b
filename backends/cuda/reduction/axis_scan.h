// Scans along an axis in device kernels (scan_text.h).
#pragma once

#include <string>

#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cuda/common/launches.h"

namespace isochron::ops {

struct AxisScan {
  AxisView view;
  bool reverse = false;
  std::string scan;   // a class of scan_text.h
  std::string load;   // expression for the state of element `at`, at position `place` of the axis
  std::string store;  // statement for element `at`, with the states `before` and `after` it
};

/// Adds the launches of a scan. Their functions have the call's tensors as parameters. The scan's part of the
/// workspace begins at `workspace_from`, a multiple of 16 bytes.
void add_axis_scan(LaunchKernel& kernel, const graph::KernelRequest& request, const AxisScan& scan,
                   size_t workspace_from = 0);

}  // namespace isochron::ops
