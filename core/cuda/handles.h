// The driver's handles (core/cuda/driver.h), 0 for none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isochron::cuda {

/// An address on a device, 0 for none.
using DevicePtr = uint64_t;
/// Every device allocation and every kernel's workspace starts at a multiple of this. It is the alignment
/// that cuMemAlloc guarantees and cuBLASLt asks for, and suits the widest access of a warp.
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
/// The handle of a condition that decides whether a part of a graph runs. Kernels receive the handle as a
/// 64-bit number and set the condition.
enum class Condition : uint64_t { kNone = 0 };

}  // namespace isochron::cuda
