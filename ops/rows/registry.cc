#include "isochron/ops/rows/registry.h"

#include "isochron/ops/rows/families.h"

namespace isochron::ops {
namespace {

graph::Registry& mutable_registry() {
  static graph::Registry* const instance = [] {
    auto* registry = new graph::Registry;  // never freed: others keep references to its rows
    register_elementwise(*registry);
    register_reductions(*registry);
    register_matmul(*registry);
    register_fused_product(*registry);
    register_float8(*registry);
    register_shapes(*registry);
    register_slicing(*registry);
    register_indexing(*registry);
    register_embedding(*registry);
    register_along_axis(*registry);
    register_cumulative(*registry);
    register_sorting(*registry);
    register_interpolation(*registry);
    register_linalg(*registry);
    register_optimizers(*registry);
    register_row_updates(*registry);
    register_tensor_lists(*registry);
    register_update_if(*registry);
    register_control(*registry);
    register_convolution(*registry);
    register_pooling(*registry);
    register_random(*registry);
    register_softmax(*registry);
    register_log_sum_exp(*registry);
    register_distances(*registry);
    register_normalization(*registry);
    register_attention(*registry);
    register_debug(*registry);
    register_recurrent(*registry);
    register_scan(*registry);
    register_collectives(*registry);
    register_tree_accumulate(*registry);
    return registry;
  }();
  return *instance;
}

}  // namespace

const graph::Registry& registry() { return mutable_registry(); }
const graph::OpDef& row(std::string_view name) { return mutable_registry().at(name); }
const graph::OpDef& register_op(graph::OpDef op, graph::KernelFactory cpu, graph::KernelFactory cuda) {
  const bool needs_none = op.fusion == graph::FusionClass::kView || op.decompose != nullptr;
  require(cpu != nullptr || needs_none, ErrorCode::kInvalidArgument, "register_op",
          "op '{}' has neither a kernel for the CPU nor a decomposition", op.name);
  const graph::OpDef& row = mutable_registry().add(std::move(op));
  if (cpu != nullptr) graph::add_kernel(DeviceKind::kCpu, {row.name, cpu});
  if (cuda != nullptr) graph::add_kernel(DeviceKind::kCuda, {row.name, cuda});
  return row;
}

}  // namespace isochron::ops
