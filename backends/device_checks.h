// Compares a device's kernels with the CPU's, call by call. Run this first on a new device.
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
  int wrong = 0;                           // calls with at least one finding
  std::vector<std::string> findings = {};  // at least one for each of these calls
};

/// Whether the op has samples and a kernel for devices.
bool is_device_checked(const graph::OpDef& op);

/// Runs the samples of each row of `registry` that has a kernel for `gpu`, on `gpu` and on the CPU: in all
/// dtypes of the row and, if it has a kernel for calls of mixed precision, on tensors in 16 bits. The two
/// results may differ by twice the tolerance against the reference. Calls that libraries can compute are
/// checked both with the libraries' kernels and with the project's own. `selected` can exclude calls. With
/// `every_way`, each call in one dtype (f32 if the op has it) also runs eagerly, and as a capture that is
/// replayed; these must give the same numbers; and products also run in TF32. `every_way` requires that `gpu`
/// is the process' device. An error thrown by a call is a finding, except kDeviceLost, which is rethrown
/// because no further call can be checked after it.
std::vector<DeviceCheck> check_device(
    const std::shared_ptr<cuda::Gpu>& gpu, const graph::Registry& registry,
    const std::function<bool(const graph::OpDef& op, DType dtype, size_t sample)>& selected = {},
    bool every_way = false);

}  // namespace isochron::ops
