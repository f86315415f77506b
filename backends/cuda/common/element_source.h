// Generates CUDA C++ text from an element program: one kernel with a loop over the elements, computed in
// registers, and for each final reduction a separate kernel that also folds the elements. Which thread folds
// which elements, and in which order, depends only on the shapes, so results are bitwise reproducible.
// Nothing here needs a device.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// One kernel of a source. All kernels of a source have the same parameters: the addresses of all operands
/// that aren't immediate numbers, then of all outputs, then of the workspace.
struct ElementLaunch {
  std::string function;
  std::array<unsigned, 2> grid{1, 1};
  unsigned block = 1;
  /// How many elements of the array `arrivals` (core/cuda/kernel_module.h) the kernel uses. If not 0, the
  /// kernel has an additional `unsigned` parameter: the index of the first one.
  int64_t arrivals = 0;
};

struct ElementSource {
  std::string text;                     // comes after element_prelude()
  std::vector<ElementLaunch> launches;  // in this order; empty if there are no elements
  size_t workspace_bytes = 0;           // partial results of large reductions
};

/// How blocks of 256 threads divide the folding of columns. Within a block, `along` threads work on each
/// column. `across` blocks cover all columns. There are `splits` such sets of blocks, one for each part of
/// the rows.
struct ColumnBlocks {
  int64_t along, across, splits;
};
ColumnBlocks column_blocks(int64_t rows, int64_t columns, int multiprocessors);

/// `name`: the prefix of its functions' names. `multiprocessors`: the number of the device's multiprocessors,
/// for which the launch sizes are chosen. Throws kUnsupported, like the CPU's kernels, for an op that isn't
/// defined for its operands' dtype.
ElementSource element_source(const graph::ElementProgram& program, const std::string& name,
                             int multiprocessors);

/// The epilogue of a product kernel: statements that compute and store the outputs of `program` for element
/// `i`. The program must not contain reductions. Its first operand is the variable `sum`; the others are the
/// kernel's inputs from `first` on. Throws as element_source.
std::string element_statements(const graph::ElementProgram& program, size_t first);

/// The text that precedes all sources: types and element functions.
const std::string& element_prelude();

}  // namespace isochron::ops
