// Kernels that look through what they have computed: for finding where NaN and infinity come from.
#pragma once

#include <memory>

#include "isochron/graph/ir/graph.h"
#include "isochron/graph/ir/kernel.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {

/// `kernel`, the one of `node`, whose every run throws kNotANumber when a floating result of it holds NaN or
/// infinity, naming node, op, result, how many and the first. Results are left as computed. `gpu`: null for
/// kernels of the CPU; else the host waits for each run and copies its results.
std::unique_ptr<Kernel> checked_kernel(std::unique_ptr<Kernel> kernel, const Node& node,
                                       std::shared_ptr<cuda::Gpu> gpu = nullptr);

/// While it lives (and `on`), kernels that this thread prepares for nodes with sub-graphs look through the
/// results inside those too, where they run on the CPU; and what a backward pass records lies in scopes of
/// the nodes that it differentiates, "gradients/dense/matmul_3/".
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
