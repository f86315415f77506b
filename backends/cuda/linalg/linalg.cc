// Factorizations of batches of matrices on a device: each block processes one matrix, or some of its
// right-hand sides.
#include <algorithm>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

using element::kRowThreads;
using graph::KernelRequest;

constexpr int64_t kPanel = 32, kSides = 64;  // of matrix_text.h

/// The last two axes of a batch of matrices.
struct Matrices {
  int64_t rows, columns, count = 1;
  Dims batch;
  explicit Matrices(const Shape& shape) : rows(shape[shape.rank() - 2]), columns(shape.back()) {
    for (int i = 0; i + 2 < shape.rank(); ++i) {
      batch.push_back(shape[i]);
      count *= shape[i];
    }
  }
  int64_t elems() const { return rows * columns; }
};

/// Text that prints a line like the CPU's error message and traps. `what` follows the name of matrix `m` (an
/// expression) and has a placeholder for each of `numbers`.
std::string fault_text(const KernelRequest& request, const Matrices& a, std::string_view m,
                       std::string_view what, std::string_view numbers) {
  PlaceMessage place = place_message(m, a.batch);
  place.arguments.emplace_back(numbers);
  const std::string name = a.batch.empty()
                               ? "the matrix"
                               : fmt::format("matrix ({}) of the batch {}", place.format, dims_str(a.batch));
  return fmt::format("ISOCHRON_FAULT(\"{}: {} {}\", {});", request.op.name, name, what,
                     fmt::join(place.arguments, ", "));
}

std::unique_ptr<LaunchKernel> matrix_kernel(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  for (const std::string_view text : {backends::texts::kRows, backends::texts::kMatrix})
    request.module->add_shared(std::string(text));
  return kernel;
}

/// Text for the position of element `i` of n x n matrices after transposing each matrix.
std::string transposed_text(int64_t n, int64_t elems) {
  return fmt::format("i / {1}ll * {1}ll + i % {0}ll * {0}ll + i / {0}ll % {0}ll", n,
                     std::max<int64_t>(elems, 1));
}

/// Adds a launch of `blocks` blocks, whose threads share tiles.
void add_blocks(LaunchKernel& kernel, const KernelRequest& request, int64_t blocks, const std::string& body) {
  kernel.add(request,
             fmt::format("// threads meet\n  __shared__ MatrixTiles<{}> tiles;\n  {}",
                         storage_type(request.inputs[0].dtype), body),
             row_of_blocks(request, blocks, kRowThreads));
}

/// The location of the matrices' LU factors and row exchanges in the workspace.
class LuFactors {
 public:
  LuFactors(const KernelRequest& request, const Matrices& a)
      : request_(request), a_(a), n_(counted(request, a.rows)) {}

  /// Copies the matrices, or their transposes, to the memory in which `factors` works.
  void add_copies(LaunchKernel& kernel, bool transposed) const {
    const size_t elems = static_cast<size_t>(a_.count * a_.elems());
    kernel.need_workspace(elems * dtype_size(request_.inputs[0].dtype) +
                          2 * static_cast<size_t>(a_.count * a_.rows) * sizeof(unsigned));
    const std::string from = transposed ? transposed_text(n_, a_.elems()) : "i";
    kernel.add_loop(request_, a_.count * a_.elems(),
                    fmt::format("static_cast<{}*>(workspace)[i] = in0[{}];", type(), from),
                    {{Slot::kInput, 0}});
  }
  /// Text that factors matrix `blockIdx.x` and declares names for the results.
  std::string factors() const {
    return places("blockIdx.x") + fmt::format("\n  factor_lu(tiles, lu, {}u, pivots, order);", n_);
  }
  /// Text that declares names for the data of matrix `m`.
  std::string places(std::string_view m) const {
    return fmt::format(
        "{0}* const lu = static_cast<{0}*>(workspace) + {1} * {2}ull;\n"
        "  unsigned* const pivots = reinterpret_cast<unsigned*>(static_cast<{0}*>(workspace) + {3}ull) + "
        "{1} * {4}ull;\n"
        "  unsigned* const order = pivots + {5}ull;",
        type(), m, a_.elems(), a_.count * a_.elems(), 2 * a_.rows, a_.rows);
  }

 private:
  std::string_view type() const { return storage_type(request_.inputs[0].dtype); }

  const KernelRequest& request_;
  const Matrices& a_;
  const unsigned n_;
};

/// Adds a launch in which each block solves kSides right-hand sides of a matrix, in the memory of the result.
/// `solve`: text that solves them in `x`, with {m} for the matrix and {columns} for the number of sides.
/// `order`: text for a pointer to the order of their rows, or for a null pointer.
void add_sides(LaunchKernel& kernel, const KernelRequest& request, const Matrices& a, std::string_view places,
               std::string_view order, std::string_view solve) {
  const Matrices b(request.inputs[1].shape);
  if (a.count * b.elems() == 0) return;
  const int64_t chunks = (b.columns + kSides - 1) / kSides;
  add_blocks(
      kernel, request, a.count * chunks,
      fmt::format("const unsigned long long m = blockIdx.x / {chunks}u;\n"
                  "  const unsigned first = blockIdx.x % {chunks}u * kSides;\n"
                  "  const unsigned columns = {columns}u - first < kSides ? {columns}u - first : kSides;\n"
                  "  {places}\n"
                  "  const auto x = begin_sides(in1 + m * {elems}ull, out0 + m * {elems}ull, {n}u, "
                  "{columns}u, first, {order});\n  {solve}",
                  fmt::arg("chunks", chunks), fmt::arg("columns", counted(request, b.columns)),
                  fmt::arg("places", places), fmt::arg("elems", b.elems()), fmt::arg("n", a.rows),
                  fmt::arg("order", order), fmt::arg("solve", solve)));
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_cholesky_cuda(const KernelRequest& request) {
  auto kernel = matrix_kernel(request);
  const Matrices a(request.inputs[0].shape);
  const int64_t elems = a.count * a.elems();
  if (elems == 0) return kernel;
  const unsigned n = counted(request, a.rows);
  kernel->add_loop(request, elems,
                   fmt::format("out0[i] = (in0[i] + in0[{}]) / 2;", transposed_text(n, a.elems())));
  add_blocks(*kernel, request, a.count,
             fmt::format(
                 "auto* const factor = out0 + blockIdx.x * {0}ull;\n"
                 "  const unsigned failed = factor_cholesky(tiles, factor, {1}u);\n"
                 "  if (failed < {1}u && threadIdx.x == 0) {2}",
                 a.elems(), n,
                 fault_text(request, a, "blockIdx.x",
                            "is not positive definite: pivot %u is %g; add a multiple of the unit matrix?",
                            fmt::format("failed, static_cast<double>(factor[failed * {}ull])", a.rows + 1))));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_triangular_solve_cuda(const KernelRequest& request) {
  auto kernel = matrix_kernel(request);
  const Matrices a(request.inputs[0].shape);
  const unsigned n = counted(request, a.rows);
  const bool lower = request.attributes.get<bool>("lower"),
             transpose = request.attributes.get<bool>("transpose"),
             unit = request.attributes.get<bool>("unit_diagonal");
  if (!unit)
    kernel->add_loop(
        request, a.count * a.rows,
        fmt::format("const unsigned row = static_cast<unsigned>(i % {0}ll);\n"
                    "  if (in0[i * {0}ll + row] == 0) {1}",
                    n,
                    fault_text(request, a, fmt::format("(i / {}ll)", n),
                               "is singular: element (%u, %u) of its diagonal is 0", "row, row")),
        {{Slot::kInput, 0}});
  const std::string_view type = storage_type(request.inputs[0].dtype);
  add_sides(*kernel, request, a, "", "static_cast<const unsigned*>(nullptr)",
            fmt::format("const Strided<{0}> a = {{const_cast<{0}*>(in0) + m * {1}ull, {2}, {3}}};\n"
                        "  solve_triangle(tiles, a, {4}, {5}, x, {6}u, columns);",
                        type, a.elems(), transpose ? 1 : a.rows, transpose ? a.rows : 1, lower != transpose,
                        unit, n));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_solve_cuda(const KernelRequest& request) {
  auto kernel = matrix_kernel(request);
  const Matrices a(request.inputs[0].shape);
  if (a.count * a.elems() == 0) return kernel;
  const unsigned n = counted(request, a.rows);
  const LuFactors lu(request, a);
  lu.add_copies(*kernel, request.attributes.get<bool>("transpose"));
  add_blocks(*kernel, request, a.count, lu.factors());
  kernel->add_loop(
      request, a.count * a.rows,
      fmt::format(
          "const long long m = i / {0}ll;\n  const unsigned row = static_cast<unsigned>(i % {0}ll);\n  {1}\n"
          "  if (lu[row * {2}ull] == 0) {3}",
          n, lu.places("m"), a.rows + 1,
          fault_text(request, a, "m", "is singular: column %u depends on those before it", "row")),
      std::vector<Slot>{});
  add_sides(*kernel, request, a, lu.places("m"), "order",
            fmt::format("const Strided<{0}> factors = {{lu, {1}u, 1}};\n"
                        "  solve_triangle(tiles, factors, true, true, x, {1}u, columns);\n"
                        "  solve_triangle(tiles, factors, false, false, x, {1}u, columns);",
                        storage_type(request.inputs[0].dtype), n));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_slogdet_cuda(const KernelRequest& request) {
  auto kernel = matrix_kernel(request);
  const Matrices a(request.inputs[0].shape);
  if (a.count == 0) return kernel;
  const LuFactors lu(request, a);
  lu.add_copies(*kernel, false);
  add_blocks(*kernel, request, a.count,
             fmt::format("{}\n  determinant_of(lu, pivots, {}u, out0 + blockIdx.x, out1 + blockIdx.x);",
                         lu.factors(), counted(request, a.rows)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_qr_cuda(const KernelRequest& request) {
  auto kernel = matrix_kernel(request);
  const TensorSpec& x = request.inputs[0];
  const Matrices a(x.shape);
  const int64_t k = std::min(a.rows, a.columns), elems = a.count * a.elems();
  if (elems == 0) return kernel;
  request.module->add_shared(std::string(backends::texts::kReflections));
  // Reflections of reflections_text.h
  const int64_t scratch = kPanel * (a.rows + 2 * kPanel + 2 * a.columns) + k;
  kernel->need_workspace(static_cast<size_t>(elems + a.count * scratch) * dtype_size(x.dtype));
  kernel->add_loop(request, elems,
                   fmt::format("static_cast<{}*>(workspace)[i] = in0[i];", storage_type(x.dtype)),
                   {{Slot::kInput, 0}});
  add_blocks(
      *kernel, request, a.count,
      fmt::format("{0}* const memory = static_cast<{0}*>(workspace);\n"
                  "  factor_qr(tiles, memory + blockIdx.x * {1}ull, memory + {2}ull + blockIdx.x * {3}ull, "
                  "{4}u, {5}u, out0 + blockIdx.x * {6}ull, out1 + blockIdx.x * {7}ull);",
                  storage_type(x.dtype), a.elems(), elems, scratch, counted(request, a.rows),
                  counted(request, a.columns), a.rows * k, k * a.columns));
  return kernel;
}

}  // namespace isochron::ops
