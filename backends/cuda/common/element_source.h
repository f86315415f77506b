// From an element program to CUDA C++ text: a loop over the elements that computes each in registers, and for
// each closing reduction a kernel of its own that folds what it computes. Which thread folds what, and in
// which order, depends on the shapes alone, so that results are the same bits at each run. Nothing here needs
// a device.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// One kernel of a source. All of a source have the same parameters: the address of each operand that is no
/// number, then of each output, then of the workspace.
struct ElementLaunch {
  std::string function;
  std::array<unsigned, 2> grid{1, 1};
  unsigned block = 1;
  /// How many elements of the array `arrivals` (core/cuda/kernel_module.h) it takes; not 0: one parameter
  /// more, an unsigned, is the first of them.
  int64_t arrivals = 0;
};

struct ElementSource {
  std::string text;                     // behind element_prelude()
  std::vector<ElementLaunch> launches;  // in this order; none where there is no element
  size_t workspace_bytes = 0;           // partial results of large reductions
};

/// How blocks of 256 threads share the folding of columns: `along` threads have each of the block's columns,
/// `across` blocks have all columns, and each of those `splits` of the rows.
struct ColumnBlocks {
  int64_t along, across, splits;
};
ColumnBlocks column_blocks(int64_t rows, int64_t columns, int multiprocessors);

/// `name`: what its functions' names begin with. `multiprocessors`: of the device, at which sizes are aimed.
/// Throws kUnsupported for an op that isn't defined on its operands' dtype, as the CPU's kernels do.
ElementSource element_source(const graph::ElementProgram& program, const std::string& name,
                             int multiprocessors);

/// What a kernel of a product's sums does with one of them: statements that store the outputs of `program`,
/// none of which is reduced, for element `i`. Its first operand is the variable `sum`, the others are the
/// kernel's inputs from `first` on. Throws as element_source.
std::string element_statements(const graph::ElementProgram& program, size_t first);

/// What stands before all sources: types and element functions.
const std::string& element_prelude();

}  // namespace isochron::ops
