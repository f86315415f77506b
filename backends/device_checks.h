// A device's kernels against the CPU's, call by call: the first thing to run on a new one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isochron/graph/ir/kernel.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::ops {

struct DeviceCheck {
  std::string op;
  int calls = 0;
  std::vector<std::string> findings;  // one a call that went wrong or failed; empty: all agree
};

/// Whether the op has samples and a kernel for devices.
bool is_device_checked(const graph::OpDef& op);

/// Runs the samples of each row of `registry` that has a kernel for it, in all its dtypes and, where it has
/// one for calls of mixed precision, on tensors in 16 bits, on `gpu` and on the CPU; results may be as far
/// apart as each may be from the definition. What libraries compute is checked by their kernels and by the
/// project's own, whichever is faster. `selected`: leaves calls out. `eager`: each call in f32 also runs as
/// one without a capture, for which `gpu` must be the process'. What a call throws is a finding, but for
/// kDeviceLost, after which no other call can tell anything: it is thrown on.
std::vector<DeviceCheck> check_device(
    const std::shared_ptr<cuda::Gpu>& gpu, const graph::Registry& registry,
    const std::function<bool(const graph::OpDef& op, DType dtype, size_t sample)>& selected = {},
    bool eager = false);

}  // namespace isochron::ops
