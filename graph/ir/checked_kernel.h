// Kernels that check their own results, to find where NaN and infinity come from.
#pragma once

#include <memory>

#include "isochron/graph/ir/graph.h"
#include "isochron/graph/ir/kernel.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {

/// Wraps `kernel`, which computes `node`. Each run throws kNotANumber if a floating-point result holds NaN,
/// or infinity although all inputs are finite; the error names the node, the op, the result, the number of
/// such elements and the first one. So infinities that the program puts in, such as a mask of -infinity,
/// pass. Results are left as computed. `gpu`: null for CPU kernels; otherwise the host waits for each run and
/// copies its inputs and results.
std::unique_ptr<Kernel> checked_kernel(std::unique_ptr<Kernel> kernel, const Node& node,
                                       std::shared_ptr<cuda::Gpu> gpu = nullptr);

/// While it lives (and `on`), kernels that this thread prepares for nodes with sub-graphs also check the
/// results inside the sub-graphs if they run on the CPU. Nodes that a backward pass records then get the
/// scopes of the nodes that it differentiates, "gradients/dense/matmul_3/".
class CheckedScope {
 public:
  explicit CheckedScope(bool on);
  ~CheckedScope();
  CheckedScope(const CheckedScope&) = delete;
  CheckedScope& operator=(const CheckedScope&) = delete;
  static bool current();

 private:
  bool before_;
};

}  // namespace isochron::graph
