// Matrix products on a device.
#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/index_text.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/texts.h"
#include "isochron/ops/matmul_geometry.h"

namespace isochron::ops {
namespace {

constexpr int64_t kTile = 16;  // as in matmul_text.h
constexpr unsigned kThreads = kTile * kTile;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
constexpr int64_t kMostExtent = int64_t{1} << 31;

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul_cuda(const graph::KernelRequest& request) {
  cuda::KernelModule& module = *request.module;
  const MatmulGeometry g = matmul_geometry(request);
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const int64_t rows = (g.m + kTile - 1) / kTile, columns = (g.n + kTile - 1) / kTile;
  const int64_t blocks = rows * columns * g.batch.elems();
  if (blocks == 0) return kernel;
  require(blocks <= kMostBlocks && std::max({g.m, g.n, g.k}) < kMostExtent, ErrorCode::kUnsupported,
          request.op.name, "a product of {} x {} x {} in {} entries is too large for one launch", g.m, g.k,
          g.n, g.batch.elems());
  const DType dtype = request.outputs[0].dtype;
  const std::string name = module.unique_name("matmul");
  module.add_shared(element_prelude());
  module.add_shared(std::string(texts::kMatmul));
  module.add(fmt::format(
      "extern \"C\" __global__ void {0}(const {1}* a, const {1}* b, {1}* c, void*) {{  // threads meet\n"
      "  const unsigned tile = blockIdx.x % {2}u, entry = blockIdx.x / {2}u;\n"
      "  multiply_tile<{1}, {3}, {4}, {5}>(a + ({6}) * {7}ull, b + ({8}) * {9}ull, c + entry * {10}ull, "
      "{11}u, "
      "{12}u, {13}u, tile / {14}u * {15}u, tile % {14}u * {15}u);\n}}\n",
      name, stored_type(dtype), rows * columns, dtype == DType::kF64 ? "double" : "float", g.transpose_a,
      g.transpose_b, offset_text("entry", joined_axes(g.batch, g.a_matrices)), g.m * g.k,
      offset_text("entry", joined_axes(g.batch, g.b_matrices)), g.k * g.n, g.m * g.n, g.m, g.n, g.k, columns,
      kTile));
  kernel->add(name, {.grid = {static_cast<unsigned>(blocks), 1, 1}, .block = {kThreads, 1, 1}});
  return kernel;
}

}  // namespace isochron::ops
