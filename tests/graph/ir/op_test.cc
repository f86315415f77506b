#include "isochron/graph/ir/op.h"

#include <gmock/gmock.h>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using testing::ElementsAre;

std::vector<TensorSpec> same(const OpCall& call) { return {call.inputs[0]}; }

OpDef op_row(std::string name) {
  OpDef op;
  op.name = std::move(name);
  op.infer = same;
  return op;
}

TEST(Registry, NamesTheClosestOp) {
  EXPECT_ERROR(ops::row("matmull"), ErrorCode::kInvalidArgument, "did you mean 'matmul'?");
  EXPECT_ERROR(ops::row("brodcast_to"), ErrorCode::kInvalidArgument, "did you mean 'broadcast_to'?");
  const Registry empty;
  EXPECT_ERROR(empty.at("add"), ErrorCode::kInvalidArgument, "no op is registered");
}

TEST(Registry, RefusesIncompleteAndTakenRowsAndKeepsAddresses) {
  Registry registry;
  const OpDef& first = registry.add(op_row("first"));
  EXPECT_ERROR(registry.add(op_row("first")), ErrorCode::kInvalidArgument, "'first' exists already");
  OpDef shapeless = op_row("shapeless");
  shapeless.infer = nullptr;
  EXPECT_ERROR(registry.add(std::move(shapeless)), ErrorCode::kInvalidArgument, "no shape rule");
  for (int i = 0; i < 200; ++i) registry.add(op_row(fmt::format("op{}", i)));
  EXPECT_EQ(&registry.at("first"), &first);
  EXPECT_EQ(first.registry, &registry);
  EXPECT_EQ(registry.rows().size(), 201u);
}

TEST(Registry, ChecksArityBeforeTheShapeRule) {
  const TensorSpec spec{DType::kF32, {2}};
  const std::vector<TensorSpec> three{spec, spec, spec};
  EXPECT_ERROR(infer_outputs(ops::row("add"), {three}, {}), ErrorCode::kInvalidArgument,
               "[add] takes 2 inputs, got 3");
  EXPECT_ERROR(infer_outputs(ops::row("add"), {}, {}), ErrorCode::kInvalidArgument, "got 0");
  OpDef many = op_row("many");
  many.min_inputs = 2;
  many.max_inputs = -1;
  EXPECT_ERROR(infer_outputs(many, std::span(three).first(1), {}), ErrorCode::kInvalidArgument,
               "takes 2 or more inputs, got 1");
  many.max_inputs = 4;
  EXPECT_ERROR(infer_outputs(many, std::span(three).first(1), {}), ErrorCode::kInvalidArgument,
               "2 to 4 inputs");
}

TEST(Apply, NamesTheOpAndTheUndefinedInput) {
  EXPECT_ERROR(add(ones({2}), Tensor()), ErrorCode::kInvalidArgument, "[add] input 1 is undefined");
  EXPECT_ERROR(ones({2}) + ones({3}), ErrorCode::kShapeMismatch, "[add]");
}

TEST(Apply, StridedInputsAreMadeContiguous) {
  float values[6] = {1, 2, 3, 4, 5, 6};
  const Tensor transposed = Tensor::from_external(values, {DType::kF32, {3, 2}}, {1, 3});
  EXPECT_THAT((transposed * 2.0).to_vector(), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_THAT(reshape(transposed, {6}).to_vector(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(copy(transposed).to_vector(), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Apply, TheLeastRecentlyUsedOfManyCallsIsPreparedAnew) {
  static int prepared = 0;
  OpDef row = op_row("prepared_once");
  row.fusion = FusionClass::kOpaque;
  static const OpDef& op = ops::register_op(std::move(row), [](const KernelRequest& request) {
    ++prepared;
    const KernelRequest square{ops::row("square"), request.inputs, request.outputs, request.attributes};
    return prepare_kernel(square);
  });
  const auto call = [](int64_t n) {
    const std::vector<float> values(static_cast<size_t>(n), 2);
    EXPECT_EQ(apply_one(op, {from_vector({n}, values)}, {}).to_vector().back(), 4);
  };
  clear_eager_kernels();
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= kEagerCacheEntries; ++n) call(n);
  }
  EXPECT_EQ(prepared, kEagerCacheEntries) << "each once, wherever rows and tensors lie";
  call(1);
  call(kEagerCacheEntries + 1);  // takes the place of 2
  call(1);
  EXPECT_EQ(prepared, kEagerCacheEntries + 1);
  call(2);
  EXPECT_EQ(prepared, kEagerCacheEntries + 2);
}

TEST(Apply, ManyDifferentCallsShareTheBoundedCache) {
  // More signatures than the cache has lines, twice: entries are replaced and made again.
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= 2 * kEagerCacheEntries; ++n) {
      const Tensor result = ones({n}) + ones({n});
      ASSERT_EQ(result.elems(), n);
      ASSERT_EQ(result.to_vector().back(), 2);
    }
  }
}

TEST(Assign, ReplacesContentAndMakesOldHandlesStale) {
  const Tensor variable = zeros({2});
  const Tensor view = reshape(variable, {2, 1});
  assign(variable, from_vector({2}, {3, 4}));
  EXPECT_ERROR(variable.to_vector(), ErrorCode::kStale, "replaced by");
  EXPECT_ERROR(view + view, ErrorCode::kStale, "replaced by");
  EXPECT_ERROR(reshape(view, {2}), ErrorCode::kStale, "replaced by");
  EXPECT_THAT(variable.refreshed().to_vector(), ElementsAre(3, 4));
  const Tensor now = variable.refreshed();
  assign(now, now);  // onto itself
  EXPECT_THAT(variable.refreshed().to_vector(), ElementsAre(3, 4));
}

TEST(Assign, RejectsWhatDoesNotFit) {
  const Tensor variable = zeros({2});
  EXPECT_ERROR(assign(variable, zeros({3})), ErrorCode::kShapeMismatch, "the value is f32(3)");
  EXPECT_ERROR(assign(variable, zeros({2}, DType::kF64)), ErrorCode::kDtypeMismatch, "cast it first");
  EXPECT_ERROR(assign(Tensor(), variable), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(assign(scalar(1), scalar(2)), ErrorCode::kInvalidArgument, "constant");
  EXPECT_THAT(variable.to_vector(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace isochron::graph
