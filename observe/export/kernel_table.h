// Where the time of a captured function goes, kernel by kernel, computed from a recording
// (observe/record/trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/record/trace.h"

namespace isochron::observe {

struct KernelRow {
  std::string name;    // name of the node: "dense/matmul_3"
  std::string op;      // empty for a copy
  std::string shapes;  // of its inputs
  int64_t calls = 0;
  double ns_per_call = 0;  // the median, which other programs hardly affect
  double ns_per_step = 0;  // ns_per_call times its calls per call of the function
  double share = 0;        // of the function's time
  double flops = 0;        // of one call, from the op's row in the registry
  double bytes = 0;        // read and written by one call
};

struct KernelTable {
  std::string function;
  int64_t steps = 0;       // calls of the function that were recorded completely
  double ns_per_step = 0;  // the total of all rows and the time between kernels
  /// Median of the time per step outside kernels: the overhead of the executor and of the recording.
  double between_ns_per_step = 0;
  std::vector<KernelRow> rows;  // largest share first
};

/// A table of all complete calls of `function` (CaptureOptions::name) in the recording; `steps` is 0 if there
/// is none. Throws kInvalidArgument while recording.
KernelTable kernel_table(const TraceRecorder& recorder, std::string_view function);

/// The first `rows` kernels, then the total of the others, then the sums by op; columns are aligned.
std::string kernel_table_text(const KernelTable& table, size_t rows = 20);
/// {function, steps, ns_per_step, between_ns_per_step, kernels: [{name, op, shapes, calls, ns_per_call,
/// ns_per_step, share, flops, bytes}]}; `indent` < 0 gives a single line.
std::string kernel_table_json(const KernelTable& table, int indent = 2);
/// Parses the text of kernel_table_json. Throws kBadFormat, naming `where`, for any other text.
KernelTable parse_kernel_table(std::string_view json, std::string_view where);
/// A heading, a sentence and a table, for a page (observe/export/page.h).
std::string kernel_table_section(const KernelTable& table, size_t rows = 20);

}  // namespace isochron::observe
