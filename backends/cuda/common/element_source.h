// Generates CUDA C++ text from an element program: a loop over the elements that computes each of them in
// registers, and for each closing reduction a separate kernel that also folds the elements. Which thread
// folds which elements, and in which order, depends only on the shapes, so results are bitwise reproducible.
// Nothing here needs a device.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// One kernel of a source. All kernels of a source have the same parameters: the address of each operand that
/// isn't an immediate number, then of each output, then of the workspace.
struct ElementLaunch {
  std::string function;
  std::array<unsigned, 2> grid{1, 1};
  unsigned block = 1;
  /// How many elements of the array `arrivals` (core/cuda/kernel_module.h) the kernel uses. If not 0, the
  /// kernel has an additional `unsigned` parameter: the index of the first one.
  int64_t arrivals = 0;
};

struct ElementSource {
  std::string text;                     // behind element_prelude()
  std::vector<ElementLaunch> launches;  // in this order; empty if there are no elements
  size_t workspace_bytes = 0;           // partial results of large reductions
};

/// How blocks of 256 threads share the folding of columns: within a block, `along` threads work on each
/// column; `across` blocks cover all columns, and there are `splits` such sets of blocks, one for each part
/// of the rows.
struct ColumnBlocks {
  int64_t along, across, splits;
};
ColumnBlocks column_blocks(int64_t rows, int64_t columns, int multiprocessors);

/// `name`: the prefix of its functions' names. `multiprocessors`: the number of the device's multiprocessors,
/// for which the launch sizes are chosen. Throws kUnsupported for an op that isn't defined on its operands'
/// dtype, as the CPU's kernels do.
ElementSource element_source(const graph::ElementProgram& program, const std::string& name,
                             int multiprocessors);

/// The epilogue of a product kernel for one of its sums: statements that store the outputs of `program` for
/// element `i`. None of the outputs may be reduced. The program's first operand is the variable `sum`; the
/// others are the kernel's inputs from `first` on. Throws as element_source.
std::string element_statements(const graph::ElementProgram& program, size_t first);

/// The text that precedes all sources: types and element functions.
const std::string& element_prelude();

}  // namespace isochron::ops
