// Ops that select elements by an index along an axis, and triangles of matrices, on a device.
#include <algorithm>

#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/reduction/line_sort.h"
#include "isochron/core/base/checked.h"

namespace isochron::ops {
namespace {

using graph::KernelRequest;

/// The type in which sums of elements are kept; integers wrap around.
std::string_view sum_type(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "unsigned long long";
    case DType::kI32:
      return "unsigned";
    default:
      return computed_type(dtype);
  }
}

/// Adds a launch with one thread per column, which adds the column's elements one after the other.
void add_by_columns(LaunchKernel& kernel, const KernelRequest& request) {
  const TensorSpec &updates = request.inputs[0], &sums = request.outputs[0];
  const AxisView from(updates.shape, axis_of(request)), to(sums.shape, axis_of(request));
  const bool apart = is_half(sums.dtype);  // sums are kept in f32
  const std::string kept = apart ? "static_cast<float*>(workspace)"
                                 : fmt::format("reinterpret_cast<{}*>(out0)", sum_type(sums.dtype));
  if (apart) kernel.need_workspace(static_cast<size_t>(sums.shape.elems()) * sizeof(float));
  kernel.add_loop(request, sums.shape.elems(), fmt::format("{}[i] = 0;", kept));
  if (updates.shape.elems() > 0)
    kernel.add_loop(
        request, from.outer * from.inner,
        fmt::format("const long long outer = i / {0}ll, column = i % {0}ll, begin = outer * {1}ll + column;\n"
                    "  put_add_column(in0 + begin, in1 + begin, {2}u, {0}ull, {3}u, {4} + (outer * {5}ll + "
                    "column));",
                    from.inner, from.extent * from.inner, counted(request, from.extent),
                    counted(request, to.extent), kept, to.extent * to.inner));
  if (apart) kernel.add_loop(request, sums.shape.elems(), fmt::format("put(out0 + i, {}[i]);", kept));
}

/// Sorts the entries of each line and stores them, line by line, at the beginning of the workspace. `load` is
/// as in LineSort.
void sort_into_workspace(LaunchKernel& kernel, const KernelRequest& request, int64_t lines, int64_t count,
                         std::string load) {
  LineSort sort{lines, count, count, false, std::move(load), {}};
  sort.store = fmt::format("static_cast<NarrowEntry*>(workspace)[line * {}ull + place] = entry;", count);
  const size_t bytes =
      align_up(checked_mul(static_cast<size_t>(lines * count), sort.entry_bytes()), size_t{16});
  kernel.need_workspace(bytes);
  add_line_sort(kernel, request, sort, bytes);
}

/// Sorts each column's indices together with their places. Then one thread per run of equal indices adds
/// their updates.
void add_by_runs(LaunchKernel& kernel, const KernelRequest& request) {
  const TensorSpec &updates = request.inputs[0], &sums = request.outputs[0];
  const AxisView from(updates.shape, axis_of(request)), to(sums.shape, axis_of(request));
  const bool half = is_half(sums.dtype);
  const std::string_view stored = half ? storage_type(sums.dtype) : sum_type(sums.dtype);
  kernel.add_loop(request, sums.shape.elems(),
                  fmt::format("put(reinterpret_cast<{}*>(out0) + i, {}(0));", stored,
                              half ? "float" : fmt::format("static_cast<{}>", stored)));
  const int64_t elems = updates.shape.elems();
  if (elems == 0) return;
  const std::string place =  // of an element of a line
      fmt::format("(line / {0}ull * {1}ull + {{}}) * {0}ull + line % {0}ull", from.inner, from.extent);
  sort_into_workspace(kernel, request, from.outer * from.inner, from.extent,
                      fmt::format("NarrowEntry::of(checked_index(in1[{}], {}u, \"put_add_along_axis\"), "
                                  "static_cast<unsigned>(place))",
                                  fmt::format(fmt::runtime(place), "place"), counted(request, to.extent)));
  kernel.add_loop(
      request, elems,
      fmt::format(
          "const unsigned long long line = i / {0}ull, at = i % {0}ull;\n"
          "  const NarrowEntry* const entries = static_cast<NarrowEntry*>(workspace) + (i - at);\n"
          "  if (!begins_run(entries, at)) return;\n"
          "  put(reinterpret_cast<{1}*>(out0) + ((line / {2}ull * {3}ull + entries[at].key()) * {2}ull "
          "+ line % {2}ull),\n"
          "      sum_of_run<{4}>(entries, at, {0}ull, [&](unsigned long long place) {{\n"
          "        return widen(in0[{5}]);\n      }}));",
          from.extent, stored, from.inner, to.extent, sum_type(sums.dtype),
          fmt::format(fmt::runtime(place), "place")));
}

/// Sorts the indices of slices together with their places, for `scatter`, `scatter_max` and `scatter_min`.
void sort_slices(LaunchKernel& kernel, const KernelRequest& request, int64_t extent, int64_t count) {
  sort_into_workspace(kernel, request, 1, count,
                      fmt::format("NarrowEntry::of(checked_index(in1[place], {}u, \"{}\"), "
                                  "static_cast<unsigned>(place))",
                                  counted(request, extent), request.op.name));
}

/// One thread per column of a run of equal indices walks through its updates. The result may be stored in the
/// memory of the base.
std::unique_ptr<graph::Kernel> scatter_extreme(const KernelRequest& request, bool largest) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView to(request.inputs[0].shape, axis_of(request));
  const int64_t count = request.inputs[1].shape.elems();
  request.module->add_shared(std::string(backends::texts::kIndexing));
  if (to.outer * to.extent * to.inner == 0) return kernel;
  kernel->add_loop(request, to.outer * to.extent * to.inner,
                   "if (out0 != in0) out0[i] = in0[i];\n  if (out1) out1[i] = -1;");
  if (count == 0) return kernel;
  sort_slices(*kernel, request, to.extent, count);
  kernel->add_loop(
      request, to.outer * count * to.inner,
      fmt::format(
          "const unsigned long long at = i / {0}ull % {1}ull, outer = i / {2}ull, column = i % {0}ull;\n"
          "  const NarrowEntry* const entries = static_cast<const NarrowEntry*>(workspace);\n"
          "  if (!begins_run(entries, at)) return;\n"
          "  const unsigned long long to = (outer * {3}ull + entries[at].key()) * {0}ull + column;\n"
          "  extreme_of_run<{4}>(entries, at, {1}ull, in2 + (outer * {2}ull + column), {0}ull, out0 + to, "
          "out1 ? out1 + to : out1);",
          to.inner, count, count * to.inner, to.extent, largest));
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_scatter_max_cuda(const KernelRequest& request) {
  return scatter_extreme(request, true);
}
std::unique_ptr<graph::Kernel> prepare_scatter_min_cuda(const KernelRequest& request) {
  return scatter_extreme(request, false);
}

std::unique_ptr<graph::Kernel> prepare_take_along_axis_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView from(request.inputs[0].shape, axis_of(request)),
      to(request.outputs[0].shape, axis_of(request));
  const int64_t elems = request.outputs[0].shape.elems();
  if (elems == 0) return kernel;
  kernel->add_loop(
      request, elems,
      fmt::format("const long long index = reinterpret_cast<const {0}*>(in1)[i];\n"
                  "  out0[i] = in0[(i / {1}ll * {2}ll + checked_index(index, {2}u, \"take_along_axis\")) * "
                  "{3}ll + i % {3}ll];",
                  storage_type(request.inputs[1].dtype), to.extent * to.inner, counted(request, from.extent),
                  to.inner),
      moved_type);
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_put_add_along_axis_cuda(const KernelRequest& request) {
  constexpr int64_t kManyColumns = 1 << 14;  // enough threads for the device
  constexpr int64_t kFewUpdates = 16;        // of a column
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView from(request.inputs[0].shape, axis_of(request));
  request.module->add_shared(std::string(backends::texts::kIndexing));
  if (from.outer * from.inner >= kManyColumns || from.extent <= kFewUpdates) {
    add_by_columns(*kernel, request);
  } else {
    add_by_runs(*kernel, request);
  }
  return kernel;
}

/// Sorts the indices together with their places. The last entry of each run of equal indices gives the update
/// that wins. The result may be stored in the memory of the base.
std::unique_ptr<graph::Kernel> prepare_scatter_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView to(request.inputs[0].shape, axis_of(request));
  const int64_t count = request.inputs[1].shape.elems();
  request.module->add_shared(std::string(backends::texts::kIndexing));
  if (to.outer * to.extent * to.inner == 0) return kernel;
  kernel->add_loop(request, to.outer * to.extent * to.inner, "if (out0 != in0) out0[i] = in0[i];",
                   moved_type);
  if (count == 0) return kernel;
  sort_slices(*kernel, request, to.extent, count);
  kernel->add_loop(
      request, to.outer * count * to.inner,
      fmt::format(
          "const unsigned long long at = i / {0}ull % {1}ull, outer = i / {2}ull, column = i % {0}ull;\n"
          "  const NarrowEntry* const entries = static_cast<const NarrowEntry*>(workspace);\n"
          "  if (!ends_run(entries, at, {1}ull)) return;\n"
          "  out0[(outer * {3}ull + entries[at].key()) * {0}ull + column] =\n"
          "      in2[(outer * {1}ull + entries[at].position()) * {0}ull + column];",
          to.inner, count, count * to.inner, to.extent),
      moved_type);
  return kernel;
}

/// The result may be stored in the memory of the input.
std::unique_ptr<graph::Kernel> prepare_triangle_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const Shape& shape = request.inputs[0].shape;
  const int64_t elems = shape.elems();
  if (elems == 0) return kernel;
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  const int64_t diagonal = std::clamp(request.attributes.get<int64_t>("diagonal"), -rows - 1, columns + 1);
  kernel->add_loop(request, elems,
                   fmt::format("out0[i] = i % {0}ll - i / {0}ll % {1}ll {2} {3}ll ? in0[i] : {4}(0);",
                               columns, rows, request.attributes.get<bool>("lower") ? "<=" : ">=", diagonal,
                               "static_cast<" + std::string(moved_type(request.inputs[0].dtype)) + ">"),
                   moved_type);
  return kernel;
}

}  // namespace isochron::ops
