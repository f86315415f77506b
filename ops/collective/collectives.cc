#include "isochron/ops/collective/collectives.h"

#include "isochron/core/base/checked.h"
#include "isochron/core/text/count_text.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/collective/group_attributes.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {

std::string GroupAttribute::str() const { return count_text(group->size(), "rank"); }

comm::Group& group_of(const graph::Attributes& attributes) {
  return *attributes.object<GroupAttribute>("group")->group;
}
PackedSum::Content content_of(const graph::Attributes& attributes) {
  if (attributes.get_or("notes", false)) return PackedSum::Content::kGradientsAndNotes;
  return attributes.get_or("gradients", false) ? PackedSum::Content::kGradients
                                               : PackedSum::Content::kTensors;
}

namespace {

using Doubles = std::vector<std::vector<double>>;

Attributes in_group(const RankGroup& group) {
  require(group != nullptr, ErrorCode::kInvalidArgument, "collective",
          "the group is null; comm::world() is one");
  return {{"group", std::make_shared<const GroupAttribute>(group)}};
}

RankGroup shared_group(const GradientCall& call) {
  return call.attributes.object<GroupAttribute>("group")->group;
}

void require_sums(const OpCall& call, size_t index) {
  const DType dtype = call.inputs[index].dtype;
  require(dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64, ErrorCode::kDtypeMismatch,
          call.op.name, "sums f32, f64 or i64, got {}; cast first", dtype_name(dtype));
}

std::vector<TensorSpec> infer_all_reduce(const OpCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) require_sums(call, i);
  return {call.inputs.begin(), call.inputs.end()};
}

const PendingSum& pending_of(const OpCall& call) { return *call.attributes.object<PendingSum>("pending"); }

/// The packed range of the sum in progress, and its scratch memory.
std::vector<TensorSpec> infer_start(const OpCall& call) {
  const PackedSum& sum = pending_of(call).sum;
  return {{DType::kU8, {static_cast<int64_t>(sum.range_bytes())}},
          {DType::kU8, {static_cast<int64_t>(sum.scratch_bytes())}}};
}

std::vector<TensorSpec> infer_wait(const OpCall& call) { return pending_of(call).tensors; }

std::vector<size_t> offsets_in_range(const OpCall& call) { return pending_of(call).sum.offsets(); }

std::shared_ptr<const graph::AttributeObject> pending_sum(const OpCall& call) {
  if (group_of(call.attributes).size() == 1) return nullptr;
  return std::make_shared<const PendingSum>(call.attributes.object<GroupAttribute>("group")->group,
                                            call.inputs, content_of(call.attributes));
}

std::vector<TensorSpec> infer_all_gather(const OpCall& call) {
  require_min_rank(call, 0, 1);
  Dims dims = static_cast<Dims>(call.inputs[0].shape);
  dims[0] = checked_mul<int64_t>(dims[0], group_of(call.attributes).size(), call.op.name);
  return {{call.inputs[0].dtype, Shape(dims)}};
}

std::vector<TensorSpec> infer_reduce_scatter(const OpCall& call) {
  require_sums(call, 0);
  require_min_rank(call, 0, 1);
  Dims dims = static_cast<Dims>(call.inputs[0].shape);
  const int ranks = group_of(call.attributes).size();
  require(dims[0] % ranks == 0, ErrorCode::kShapeMismatch, call.op.name,
          "{} ranks don't divide the {} rows of {}; pad them", ranks, dims[0], call.inputs[0].str());
  dims[0] /= ranks;
  return {{call.inputs[0].dtype, Shape(dims)}};
}

std::vector<TensorSpec> infer_broadcast(const OpCall& call) {
  const auto root = call.attributes.get<int64_t>("root");
  const int ranks = group_of(call.attributes).size();
  require(root >= 0 && root < ranks, ErrorCode::kInvalidArgument, call.op.name,
          "there is no rank {} among {}", root, ranks);
  return infer_same(call);
}

std::vector<Tensor> all_reduce_gradient(const GradientCall& call) {
  std::vector<Tensor> flowing;
  for (const Tensor& gradient : call.output_gradients) {
    if (gradient.defined()) flowing.push_back(gradient);
  }
  const std::vector<Tensor> sums = all_reduce(flowing, shared_group(call));
  std::vector<Tensor> results(call.inputs.size());
  for (size_t i = 0, next = 0; i < results.size(); ++i) {
    if (call.output_gradients[i].defined()) results[i] = sums[next++];
  }
  return results;
}

std::vector<Tensor> all_gather_gradient(const GradientCall& call) {
  return {reduce_scatter(call.output_gradients[0], shared_group(call))};
}

std::vector<Tensor> reduce_scatter_gradient(const GradientCall& call) {
  return {all_gather(call.output_gradients[0], shared_group(call))};
}

std::vector<Tensor> broadcast_gradient(const GradientCall& call) {
  const Tensor sum = all_reduce(call.output_gradients[0], shared_group(call));
  const bool root = group_of(call.attributes).rank() == call.attributes.get<int64_t>("root");
  if (root) return {sum};
  // Zeros that depend on the sum, so that in a second gradient all ranks take part in the gradient of the
  // sum.
  return {where(scalar(0, DType::kBool), sum, scalar(0, sum.dtype()))};
}

/// The common parts of all collective ops. The samples' group has one rank, so the result is the input.
OpDef collective(std::string name, std::string summary) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.side_effect = op.collective = true;
  op.reference = [](const OpCall&, std::span<const TensorSpec>, const Doubles& inputs) { return inputs; };
  return op;
}

}  // namespace

void register_collectives(graph::Registry& registry) {
  const Attributes alone = in_group(std::make_shared<comm::Group>());
  Attributes from_first = alone;
  from_first.set("root", int64_t{0});

  OpDef sum = collective("all_reduce", "the sum of each tensor over all ranks, in one exchange");
  sum.max_inputs = -1;
  sum.infer = infer_all_reduce;
  sum.gradient = all_reduce_gradient;
  sum.may_alias = [](const OpCall&, int output, int input) { return output == input; };
  sum.samples = {{{{{3, 5}}, {{7}}, {{}}}, alone}, {{{{0}}}, alone}, {{{{300, 301}}, {{2, 33}}}, alone}};
  sum.errors = {{{{DType::kF16, {2}}}, alone, ErrorCode::kDtypeMismatch}};
  sum.split = {"all_reduce_start", "all_reduce_wait", pending_sum};
  registry.add(std::move(sum));

  OpDef start = collective("all_reduce_start", "packs tensors and starts to sum them over all ranks");
  start.max_inputs = -1;
  start.infer = infer_start;
  start.packing = {graph::OpDef::Packing::Kind::kPacks, offsets_in_range};
  start.reference = {};
  registry.add(std::move(start));
  OpDef wait = collective("all_reduce_wait", "waits for the sums over all ranks and unpacks them");
  wait.min_inputs = wait.max_inputs = 2;
  wait.infer = infer_wait;
  wait.packing = {graph::OpDef::Packing::Kind::kUnpacks, offsets_in_range};
  wait.reference = {};
  registry.add(std::move(wait));

  OpDef gather = collective("all_gather", "the tensors of all ranks, one after another along the first axis");
  gather.infer = infer_all_gather;
  gather.gradient = all_gather_gradient;
  gather.samples = {{{{{3, 5}}}, alone}, {{{{0, 2}}}, alone}};
  gather.errors = {{{{DType::kF32, {}}}, alone, ErrorCode::kShapeMismatch}};
  registry.add(std::move(gather));

  OpDef scatter =
      collective("reduce_scatter", "the sum over all ranks, of which each gets its share of rows");
  scatter.infer = infer_reduce_scatter;
  scatter.gradient = reduce_scatter_gradient;
  scatter.samples = {{{{{3, 5}}}, alone}, {{{{0, 2}}}, alone}};
  scatter.errors = {{{{DType::kF32, {}}}, alone, ErrorCode::kShapeMismatch},
                    {{{DType::kBool, {2}}}, alone, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(scatter));

  OpDef one = collective("broadcast", "the tensor of one rank, on all");
  one.infer = infer_broadcast;
  one.gradient = broadcast_gradient;
  one.may_alias = [](const OpCall&, int, int) { return true; };
  one.samples = {{{{{3, 5}}}, from_first}, {{{{0}}}, from_first}};
  one.errors = {{{{DType::kF32, {2}}},
                 [&] {
                   Attributes wrong = from_first;
                   wrong.set("root", int64_t{1});
                   return wrong;
                 }(),
                 ErrorCode::kInvalidArgument}};
  registry.add(std::move(one));
}

}  // namespace ops

std::vector<Tensor> all_reduce(std::span<const Tensor> tensors, const RankGroup& group) {
  static const graph::OpDef& op = ops::row("all_reduce");
  return graph::apply(op, tensors, ops::in_group(group));
}

std::vector<Tensor> all_reduce_gradients(std::span<const Tensor> tensors, const RankGroup& group,
                                         bool with_notes) {
  static const graph::OpDef& op = ops::row("all_reduce");
  graph::Attributes attributes = ops::in_group(group);
  attributes.set("gradients", true);
  if (with_notes) attributes.set("notes", true);
  return graph::apply(op, tensors, std::move(attributes));
}

Tensor all_reduce(const Tensor& x, const RankGroup& group) { return all_reduce({&x, 1}, group)[0]; }

Tensor all_gather(const Tensor& x, const RankGroup& group) {
  static const graph::OpDef& op = ops::row("all_gather");
  return graph::apply_one(op, {x}, ops::in_group(group));
}

Tensor reduce_scatter(const Tensor& x, const RankGroup& group) {
  static const graph::OpDef& op = ops::row("reduce_scatter");
  return graph::apply_one(op, {x}, ops::in_group(group));
}

Tensor broadcast(const Tensor& x, int root, const RankGroup& group) {
  static const graph::OpDef& op = ops::row("broadcast");
  graph::Attributes attributes = ops::in_group(group);
  attributes.set("root", static_cast<int64_t>(root));
  return graph::apply_one(op, {x}, std::move(attributes));
}

}  // namespace isochron
