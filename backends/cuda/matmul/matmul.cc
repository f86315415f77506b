// Matrix products on a device: by the machine's library or in tiles, whichever is faster.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/backends/common/fused_product.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/libraries/library_epilogue.h"
#include "isochron/backends/cuda/libraries/library_kernel.h"
#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/backends/cuda/matmul/product_tiles.h"
#include "isochron/ops/matmul/fused_product.h"
#include "isochron/ops/matmul/matmul_geometry.h"

namespace isochron::ops {
namespace {

using cuda::ProductSpec;
using graph::KernelRequest;

/// The library call that computes `request`. The library is column-major, so it computes the transposed
/// result as the product of the transposed operands in reverse order. None if a single call can't do it:
/// there is nothing to multiply, or the batch needs more than one stride for an operand.
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

/// The library's candidates for `spec`; `terms` are the tensors that follow the product's. Empty if there is
/// no library or it has no algorithm for the call.
std::vector<Candidate> by_library(const KernelRequest& request, const ProductSpec& spec,
                                  const std::vector<Slot>& terms = {}) {
  cuda::ProductLibrary* library = request.module->sources().library<cuda::ProductSpec>();
  if (library == nullptr) return {};
  cuda::LibraryAlgorithms algorithms = library->algorithms(request.module->context(), spec);
  LibraryParts parts;
  parts.tensors = {{Slot::kInput, 1}, {Slot::kInput, 0}, {Slot::kOutput, 0}};
  parts.tensors.insert(parts.tensors.end(), terms.begin(), terms.end());
  std::vector<size_t> bytes;
  for (const Slot& slot : parts.tensors)
    bytes.push_back((slot.kind == Slot::kInput ? request.inputs : request.outputs)[slot.index].size_bytes());
  std::optional<NanResult> nan;
  if (spec.relu) nan = NanResult{2, spec.result};
  if (nan || !worth_trying(request))
    algorithms = working_algorithms(*request.module, std::move(algorithms), bytes, nan);
  return candidates_of(std::move(algorithms), std::move(parts));
}

/// A candidate that computes in tiles. The text `result` stores the sums.
Candidate by_tiles(const KernelRequest& request, const MatmulGeometry& g, std::string_view result) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const int64_t count = g.batch.elems();
  require(std::max({g.m, g.n, g.k}) < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
          "a product of {} x {} x {} has more rows or columns than its kernel counts", g.m, g.k, g.n);
  const ProductTiles tiles({g.m, g.n, g.k, count}, request);
  const std::string_view sum = request.inputs[0].dtype == DType::kF64 ? "double" : "float";
  add_product(*kernel, request, tiles, count * g.m * g.n, sum,
              fmt::format("const Tile tile = {};\n  ", tiles.tile()),
              fmt::format("multiply_tile<{}, {}, {}, {}>(in0 + ({}) * {}ull, in1 + ({}) * {}ull, "
                          "[&](unsigned long long i, {} sum) {{ to(tile.product * {}ull + i, sum); }}, "
                          "{}u, {}u, {}u, tile);",
                          sum, tiles.tiling(), g.transpose_a, g.transpose_b,
                          offset_text("tile.product", joined_axes(g.batch, g.a_matrices)), g.m * g.k,
                          offset_text("tile.product", joined_axes(g.batch, g.b_matrices)), g.k * g.n, sum,
                          g.m * g.n, g.m, g.n, g.k),
              result);
  return {tiles.name(), std::move(kernel)};
}

std::unique_ptr<graph::Kernel> choose_product(const KernelRequest& request, const MatmulGeometry& g,
                                              std::vector<Candidate> candidates, std::string_view result) {
  if (candidates.empty() || worth_trying(request)) candidates.push_back(by_tiles(request, g, result));
  return choose_kernel(request, "cublasLt", request.module->sources().library<cuda::ProductSpec>(),
                       std::move(candidates));
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul_cuda(const KernelRequest& request) {
  const MatmulGeometry g = matmul_geometry(request);
  std::vector<Candidate> candidates;
  if (const std::optional<ProductSpec> spec = product_spec(request, g))
    candidates = by_library(request, *spec);
  return choose_product(request, g, std::move(candidates), "put(out0 + i, sum);");
}

std::unique_ptr<graph::Kernel> prepare_fused_matmul_cuda(const KernelRequest& request,
                                                         const FusedProduct& fused) {
  const KernelRequest plain = fused.product_request(request);
  const MatmulGeometry g = matmul_geometry(plain);
  std::optional<ProductSpec> spec = product_spec(plain, g);
  const bool by_calls = spec && request.module->sources().library<cuda::ProductSpec>() != nullptr;
  std::vector<Candidate> candidates;
  const DType result = request.outputs[0].dtype;
  const std::optional<LibraryEpilogue> epilogue = library_epilogue(*fused.program);
  if (by_calls && epilogue && spec->factors != DType::kF64 &&
      (result == spec->factors || result == DType::kF32)) {
    spec->result = result;
    spec->add_matrix = epilogue->matrix.has_value();
    spec->add_bias = epilogue->vector.has_value();
    spec->relu = epilogue->relu;
    std::vector<Slot> terms;
    for (const std::optional<size_t>& term : {epilogue->matrix, epilogue->vector})
      if (term) terms.push_back({Slot::kInput, *term});
    candidates = by_library(request, *spec, terms);
  }
  if (candidates.empty() && by_calls)
    candidates.push_back({"a product, then the rest", prepare_product_then_program(request)});
  return choose_product(request, g, std::move(candidates),
                        element_statements(*fused.program, kProductFactors));
}

}  // namespace isochron::ops
