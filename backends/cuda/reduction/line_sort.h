// Sorts lines of entries in device kernels (sort_text.h).
#pragma once

#include <string>

#include "isochron/backends/cuda/common/launches.h"

namespace isochron::ops {

struct LineSort {
  int64_t lines, count, kept;  // `count` entries per line, of which the first `kept` are stored
  bool wide;                   // entries have keys of 64 bits: WideEntry instead of NarrowEntry
  std::string load;            // expression for the entry at `place` of `line`, both unsigned long long
  std::string store;           // statement that stores `entry`, sorted to `place` of `line`

  std::string_view entry() const { return wide ? "WideEntry" : "NarrowEntry"; }
  size_t entry_bytes() const { return wide ? 16 : 8; }
};

/// Adds the launches of a sort. Their functions have the call's tensors as parameters. The sort's part of the
/// workspace begins at `workspace_from`, a multiple of 16 bytes.
void add_line_sort(LaunchKernel& kernel, const graph::KernelRequest& request, const LineSort& sort,
                   size_t workspace_from = 0);

}  // namespace isochron::ops
