// Coalescing of row-sparse gradients, so that each row occurs once, on a device.
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/reduction/axis_scan.h"
#include "isochron/backends/cuda/reduction/line_sort.h"
#include "isochron/core/base/checked.h"

namespace isochron::ops {

/// Indices are sorted with their positions. A scan then numbers the rows, i.e. the runs of equal indices.
/// Finally, each row is summed in the order of the positions.
std::unique_ptr<graph::Kernel> prepare_coalesce_rows_cuda(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const TensorSpec &updates = request.inputs[0], &indices = request.inputs[1];
  const int64_t count = indices.shape.elems();
  if (count == 0) {
    kernel->add_loop(request, 1, "*out2 = 0;");
    return kernel;
  }
  const int64_t row_elems = updates.shape.elems() / count;
  counted(request, count);

  LineSort sort;
  sort.lines = 1;
  sort.count = sort.kept = count;
  sort.wide = false;
  sort.load = fmt::format(
      "NarrowEntry::of(checked_index(in1[place], {}u, \"coalesce_rows\"), static_cast<unsigned>(place))",
      counted(request, request.attributes.get<int64_t>("extent")));
  const int64_t padding = request.attributes.get<int64_t>("padding");
  if (padding >= 0)
    sort.load = fmt::format("in1[place] == {} ? NarrowEntry::last() : {}", padding, sort.load);
  // The workspace: the sorted entries, then the first entry of each row, then the memory of the sort and the
  // scan.
  const size_t starts_from = checked_mul(static_cast<size_t>(count), sort.entry_bytes());
  const size_t others_from = (starts_from + static_cast<size_t>(count) * sizeof(uint32_t) + 15) / 16 * 16;
  constexpr std::string_view kEntries = "static_cast<NarrowEntry*>(workspace)";
  const std::string starts =
      fmt::format("reinterpret_cast<unsigned*>(static_cast<char*>(workspace) + {}ull)", starts_from);
  sort.store = fmt::format("{}[place] = entry;\n    out1[place] = -1;", kEntries);
  kernel->need_workspace(others_from);
  add_line_sort(*kernel, request, sort, others_from);

  AxisScan scan{.view = AxisView({count}, 0), .scan = "SumScan<unsigned long long>", .load = "", .store = ""};
  scan.load = fmt::format("begins_run({}, at)", kEntries);
  scan.store = fmt::format(
      "if (after != before) {{\n          out1[before] = {}[at].key();\n          {}[before] = "
      "static_cast<unsigned>(at);\n        }}\n        if (at + 1 == {}ull) *out2 = after;",
      kEntries, starts, count);
  request.module->add_shared(std::string(backends::texts::kIndexing));
  add_axis_scan(*kernel, request, scan, others_from);

  if (row_elems == 0) return kernel;
  kernel->add_loop(
      request, updates.shape.elems(),
      fmt::format("const long long row = i / {0}ll, column = i % {0}ll;\n"
                  "  out0[i] = row >= *out2 ? 0 : sum_of_run<{1}>({2}, {3}[row], {4}ull, [&](unsigned "
                  "long long position) {{\n    return in0[position * {0}ull + column];\n  }});",
                  row_elems, computed_type(updates.dtype), kEntries, starts, count));
  return kernel;
}

}  // namespace isochron::ops
