// Finds which steps of a sequence must wait for earlier steps, from the memory that they access. A step waits
// for earlier writes of the bytes that it reads, and for earlier reads and writes of the bytes that it
// writes. Only bytes count, so this is also correct for views, in-place results and memory shared by several
// buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isochron::graph {

/// Bytes that a step reads or writes.
struct MemoryUse {
  int space = 0;  // equal addresses in different spaces are different bytes
  uintptr_t begin = 0, end = 0;
  bool writes = false;
};

/// For each step: the earlier steps that it waits for directly, in ascending order.
std::vector<std::vector<size_t>> dependencies(std::span<const std::vector<MemoryUse>> steps);

/// The length of the longest chain of steps in which each waits for the one before.
size_t longest_chain(std::span<const std::vector<size_t>> dependencies);

}  // namespace isochron::graph
