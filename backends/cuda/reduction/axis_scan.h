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
  std::string load;   // an expression: the state of the element at `at`, whose place on the axis is `place`
  std::string store;  // a statement for the element at `at`: folded `before` it, and with it, `after`
};

/// Adds the launches of a scan, whose functions have the call's tensors as parameters. Its own part of the
/// workspace begins at `workspace_from`, a multiple of 16 bytes.
void add_axis_scan(LaunchKernel& kernel, const graph::KernelRequest& request, const AxisScan& scan,
                   size_t workspace_from = 0);

}  // namespace isochron::ops
