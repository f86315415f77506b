#include "isochron/ops/matmul/matmul_geometry.h"

#include <algorithm>

namespace isochron::ops {

Shape matmul_batch(const Shape& shape) {
  Shape batch;
  for (int i = 0; i + 2 < shape.rank(); ++i) batch.push_back(shape[i]);
  return batch;
}

MatmulGeometry matmul_geometry(const graph::KernelRequest& request) {
  MatmulGeometry g;
  g.transpose_a = request.attributes.get<bool>("transpose_a");
  g.transpose_b = request.attributes.get<bool>("transpose_b");
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Shape& c = request.outputs[0].shape;
  g.m = c[c.rank() - 2];
  g.n = c[c.rank() - 1];
  g.k = a[a.rank() - (g.transpose_a ? 2 : 1)];
  const Shape batch = matmul_batch(c);
  if (b.rank() == 2 && !g.transpose_a && batch.rank() > 0 &&
      batch.elems() == a.elems() / std::max<int64_t>(1, g.m * g.k)) {
    g.m *= batch.elems();
    return g;
  }
  g.batch = batch;
  const auto matrices = [&](const Shape& shape) {
    const Shape lead = matmul_batch(shape);
    return broadcast_strides(lead, contiguous_strides(lead), batch);
  };
  g.a_matrices = matrices(a);
  g.b_matrices = matrices(b);
  return g;
}

}  // namespace isochron::ops
