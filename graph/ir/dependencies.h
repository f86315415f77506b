// Which steps of a sequence must wait for which, found in the memory that they touch: what was written is
// read later, and what is read or written isn't overwritten before. Bytes alone count, so that it holds for
// views, results in place and memory that serves one buffer after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isochron::graph {

/// Bytes that a step reads or writes.
struct MemoryUse {
  int space = 0;  // bytes of different spaces are different ones
  uintptr_t begin = 0, end = 0;
  bool writes = false;
};

/// For each step the earlier ones that it waits for, in rising order; those that these wait for are left out.
std::vector<std::vector<size_t>> dependencies(std::span<const std::vector<MemoryUse>> steps);

/// The most steps of which each waits for the one before.
size_t longest_chain(std::span<const std::vector<size_t>> dependencies);

}  // namespace isochron::graph
