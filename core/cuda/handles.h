// The driver's handles (core/cuda/driver.h), 0 for none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isochron::cuda {

/// An address on a device, 0 for none.
using DevicePtr = uint64_t;
/// Every device allocation starts at a multiple of this, and so does a kernel's workspace: what cuMemAlloc
/// grants, what cuBLASLt asks for, and the widest access of a warp.
inline constexpr size_t kDeviceAlignment = 256;

enum class Stream : uintptr_t { kNone = 0 };
enum class Event : uintptr_t { kNone = 0 };
enum class Module : uintptr_t { kNone = 0 };
enum class Function : uintptr_t { kNone = 0 };
enum class Graph : uintptr_t { kNone = 0 };
enum class GraphExec : uintptr_t { kNone = 0 };
/// A part of a graph that is being captured.
enum class GraphNode : uintptr_t { kNone = 0 };
/// Memory without an address.
enum class PhysicalMemory : uintptr_t { kNone = 0 };
/// A condition of a conditional part of a graph. Kernels receive it as a 64-bit number and set it.
enum class Condition : uint64_t { kNone = 0 };

}  // namespace isochron::cuda
