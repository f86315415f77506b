// The driver's handles (core/cuda/driver.h), 0 for none.
#pragma once

#include <cstdint>

namespace isochron::cuda {

/// An address on a device, 0 for none.
using DevicePtr = uint64_t;

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
/// What a part of a graph waits for to be set by kernels, to which it is given as a number of 64 bits.
enum class Condition : uint64_t { kNone = 0 };

}  // namespace isochron::cuda
