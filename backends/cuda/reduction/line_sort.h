// Sorts lines of entries in device kernels (sort_text.h).
#pragma once

#include <string>

#include "isochron/backends/cuda/common/launches.h"

namespace isochron::ops {

struct LineSort {
  int64_t lines, count, kept;  // entries of a line, and how many of them in order are wanted
  bool wide;                   // entries have keys of 64 bits: WideEntry in place of NarrowEntry
  std::string load;            // an expression: the entry at `place` of `line`, both unsigned long long
  std::string store;           // a statement that takes `entry`, at `place` of `line` in order

  std::string_view entry() const { return wide ? "WideEntry" : "NarrowEntry"; }
  size_t entry_bytes() const { return wide ? 16 : 8; }
};

/// Adds the launches of a sort, whose functions have the call's tensors as parameters. Its own part of the
/// workspace begins at `workspace_from`, a multiple of 16 bytes.
void add_line_sort(LaunchKernel& kernel, const graph::KernelRequest& request, const LineSort& sort,
                   size_t workspace_from = 0);

}  // namespace isochron::ops
