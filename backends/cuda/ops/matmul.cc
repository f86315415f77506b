// Matrix products on a device: by the machine's library where it computes the like, else by a kernel of one
// tile a block.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/backends/common/matmul_add.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/launches.h"
#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/backends/cuda/library_kernel.h"
#include "isochron/backends/cuda/texts.h"
#include "isochron/backends/cuda/texts/block_sizes.h"
#include "isochron/ops/matmul/matmul_add.h"
#include "isochron/ops/matmul/matmul_geometry.h"

namespace isochron::ops {
namespace {

using cuda::ProductSpec;
using graph::KernelRequest;

/// `request` as the library is told of it, for which rows are columns: the transposed result is the product
/// of the transposed factors in the other order. None where it takes several calls: nothing to multiply, or a
/// batch that counts through an operand in more than one stride.
std::optional<ProductSpec> product_spec(const KernelRequest& request, const MatmulGeometry& g) {
  const int64_t count = g.batch.elems();
  const DType factors = request.inputs[0].dtype, result = request.outputs[0].dtype;
  if (g.m == 0 || g.n == 0 || g.k == 0 || count == 0) return {};
  if (request.inputs[1].dtype != factors || (result != factors && result != DType::kF32)) return {};
  const auto step_of = [&](const Strides& matrices) -> std::optional<int64_t> {
    const std::vector<IndexAxis> axes = joined_axes(g.batch, matrices);
    if (axes.size() > 1) return {};
    return axes.empty() ? 0 : axes[0].stride;
  };
  const std::optional<int64_t> a_step = step_of(g.a_matrices), b_step = step_of(g.b_matrices);
  if (!a_step || !b_step) return {};
  return ProductSpec{.m = g.n,
                     .n = g.m,
                     .k = g.k,
                     .transpose_a = g.transpose_b,
                     .transpose_b = g.transpose_a,
                     .a_lead = g.transpose_b ? g.k : g.n,
                     .b_lead = g.transpose_a ? g.m : g.k,
                     .c_lead = g.n,
                     .count = count,
                     .a_step = *b_step * g.k * g.n,
                     .b_step = *a_step * g.m * g.k,
                     .c_step = g.m * g.n,
                     .factors = factors,
                     .result = result,
                     .tf32 = request.module->tf32()};
}

/// `spec` by the library. Null where it has no way, or there is none.
std::unique_ptr<graph::Kernel> prepare_by_library(const KernelRequest& request, const ProductSpec& spec,
                                                  std::vector<Slot> tensors) {
  cuda::ProductLibrary* library = request.module->sources().library<cuda::ProductSpec>();
  if (library == nullptr) return nullptr;
  cuda::LibraryCalls ways = library->ways(request.module->context(), spec);
  std::vector<size_t> bytes;
  for (const Slot& slot : tensors)
    bytes.push_back((slot.kind == Slot::kInput ? request.inputs : request.outputs)[slot.index].size_bytes());
  if (spec.relu) {
    ways = ways_that_keep_nan(request.module->context(), std::move(ways), bytes, 2, spec.result);
    if (ways.empty()) return nullptr;
  }
  LibraryParts parts;
  parts.tensors = std::move(tensors);
  parts.call = choose_way(request, fmt::format("cublasLt {}", library->version()), std::move(ways), bytes);
  return parts.call ? std::make_unique<LibraryKernel>(std::move(parts)) : nullptr;
}

/// With the library's factors in its order.
std::vector<Slot> product_tensors() { return {{Slot::kInput, 1}, {Slot::kInput, 0}, {Slot::kOutput, 0}}; }

std::unique_ptr<graph::Kernel> prepare_tiles(const KernelRequest& request, const MatmulGeometry& g) {
  using element::kMatmulTile;
  auto kernel = std::make_unique<LaunchKernel>(request);
  const int64_t rows = (g.m + kMatmulTile - 1) / kMatmulTile, columns = (g.n + kMatmulTile - 1) / kMatmulTile;
  const int64_t blocks = rows * columns * g.batch.elems();
  if (blocks == 0) return kernel;
  require(std::max({g.m, g.n, g.k}) < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
          "a product of {} x {} x {} has more rows or columns than its kernel counts", g.m, g.k, g.n);
  request.module->add_shared(std::string(backends::texts::kMatmul));
  kernel->add(
      request,
      fmt::format("// threads meet\n"
                  "  const unsigned tile = blockIdx.x % {}u, entry = blockIdx.x / {}u;\n"
                  "  multiply_tile<{}, {}, {}>(in0 + ({}) * {}ull, in1 + ({}) * {}ull, out0 + entry * {}ull, "
                  "{}u, {}u, {}u, tile / {}u, tile % {}u);",
                  rows * columns, rows * columns,
                  request.outputs[0].dtype == DType::kF64 ? "double" : "float", g.transpose_a, g.transpose_b,
                  offset_text("entry", joined_axes(g.batch, g.a_matrices)), g.m * g.k,
                  offset_text("entry", joined_axes(g.batch, g.b_matrices)), g.k * g.n, g.m * g.n, g.m, g.n,
                  g.k, columns, columns),
      row_of_blocks(request, blocks, kMatmulTile * kMatmulTile));
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul_cuda(const KernelRequest& request) {
  const MatmulGeometry g = matmul_geometry(request);
  if (const std::optional<ProductSpec> spec = product_spec(request, g)) {
    if (auto kernel = prepare_by_library(request, *spec, product_tensors())) return kernel;
  }
  return prepare_tiles(request, g);
}

std::unique_ptr<graph::Kernel> prepare_matmul_add_cuda(const KernelRequest& request) {
  std::optional<ProductSpec> spec = product_spec(request, matmul_geometry(request));
  const MatmulTerms terms = matmul_terms(request.op, request.inputs, request.outputs[0].shape);
  // What is added must be stored as the result is.
  for (const TensorSpec& term : request.inputs.subspan(2)) {
    if (term.dtype != request.outputs[0].dtype) spec = {};
  }
  if (spec && spec->factors != DType::kF64) {
    std::vector<Slot> tensors = product_tensors();
    if (terms.matrix) tensors.push_back({Slot::kInput, *terms.matrix});
    if (terms.vector) tensors.push_back({Slot::kInput, *terms.vector});
    spec->add_matrix = terms.matrix.has_value();
    spec->add_bias = terms.vector.has_value();
    spec->relu = request.attributes.get<bool>("relu");
    if (auto kernel = prepare_by_library(request, *spec, std::move(tensors))) return kernel;
  }
  return prepare_matmul_add(request);
}

}  // namespace isochron::ops
