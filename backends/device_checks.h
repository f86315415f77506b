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
  int wrong = 0;                           // of them
  std::vector<std::string> findings = {};  // of those, one or more each
};

/// Whether the op has samples and a kernel for devices.
bool is_device_checked(const graph::OpDef& op);

/// Runs the samples of each row of `registry` that has a kernel for it, in all its dtypes and, where it has
/// one for calls of mixed precision, on tensors in 16 bits, on `gpu` and on the CPU; results may be as far
/// apart as each may be from the definition. What libraries compute is checked by their kernels and by the
/// project's own, whichever is faster. `selected`: leaves calls out. `every_way`: each call in one dtype, f32
/// where there is one, also runs at once without a capture, and captured and replayed, which must give the
/// same numbers; and what multiplies runs in TF32 too. `gpu` must be the process' for that. What a call
/// throws is a finding, but for kDeviceLost, after which no other call can tell anything: it is thrown on.
std::vector<DeviceCheck> check_device(
    const std::shared_ptr<cuda::Gpu>& gpu, const graph::Registry& registry,
    const std::function<bool(const graph::OpDef& op, DType dtype, size_t sample)>& selected = {},
    bool every_way = false);

}  // namespace isochron::ops
