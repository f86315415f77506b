// Matrix products on a device.
#include <algorithm>

#include "isochron/ops/cuda/block_sizes.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/texts.h"
#include "isochron/ops/matmul_geometry.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_matmul_cuda(const graph::KernelRequest& request) {
  using element::kMatmulTile;
  const MatmulGeometry g = matmul_geometry(request);
  auto kernel = std::make_unique<LaunchKernel>(request);
  const int64_t rows = (g.m + kMatmulTile - 1) / kMatmulTile, columns = (g.n + kMatmulTile - 1) / kMatmulTile;
  const int64_t blocks = rows * columns * g.batch.elems();
  if (blocks == 0) return kernel;
  require(std::max({g.m, g.n, g.k}) < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
          "a product of {} x {} x {} has more rows or columns than its kernel counts", g.m, g.k, g.n);
  request.module->add_shared(std::string(texts::kMatmul));
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

}  // namespace isochron::ops
