#include "isochron/graph/ir/backend.h"

#include <gmock/gmock.h>

#include <set>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using testing::ElementsAre;

std::unique_ptr<Kernel> nothing(const KernelRequest&) { return nullptr; }

OpDef named(std::string name, FusionClass fusion = FusionClass::kOpaque) {
  OpDef op;
  op.name = std::move(name);
  op.fusion = fusion;
  return op;
}

TEST(Backend, ATableHasOneFactoryAnOp) {
  KernelTable table("the test's", nothing, nullptr, {{"b", nothing}, {"a", nothing, StorageDtypes::kAny}});
  EXPECT_THAT(table.ops(), ElementsAre("a", "b"));
  EXPECT_ERROR(table.add({"a", nothing}), ErrorCode::kInvalidArgument,
               "[the test's] there is a kernel for 'a'");
  table.add({"c", nothing});
  EXPECT_TRUE(table.runs(named("c")));
  EXPECT_TRUE(table.runs_half_storage(named("a")));
  EXPECT_FALSE(table.runs_half_storage(named("b")));
  EXPECT_FALSE(table.runs_half_storage(named("d")));
}

TEST(Backend, ElementwiseOpsAndReductionsNeedNoEntry) {
  const KernelTable table("the test's", nothing, nullptr, {});
  EXPECT_TRUE(table.runs(named("any", FusionClass::kElementwise)));
  EXPECT_FALSE(table.runs(named("any", FusionClass::kReduction))) << "it has none for these";
  EXPECT_FALSE(table.runs(named("any")));
}

TEST(Backend, OfAnOpThatItDoesntRunIsAnError) {
  const KernelTable table("the test's", nullptr, nullptr, {});
  const Attributes attributes;
  EXPECT_ERROR(table.make_kernel({ops::row("matmul"), {}, {}, attributes}), ErrorCode::kUnsupported,
               "[matmul] there is no kernel for the test's");
}

/// What makes kernels that know of one dtype a tensor isn't asked for one of tensors stored in another.
TEST(Backend, WhatIsDefinedForTheOpsDtypesIsntGivenStoredOnes) {
  class Idle final : public Kernel {
    void run(const KernelArgs&) override {}
  };
  const auto idle = [](const KernelRequest&) -> std::unique_ptr<Kernel> { return std::make_unique<Idle>(); };
  const KernelTable table("the test's", idle, nullptr, {{"known", idle, StorageDtypes::kAny}});
  Attributes stored;
  stored.set(kStorage, std::vector<DType>{DType::kBF16});
  const TensorSpec narrow{DType::kBF16, {2}}, full{DType::kF32, {2}};
  const auto makes = [&](const OpDef& op, const TensorSpec& spec, const Attributes& attributes) {
    return table.make_kernel({op, std::span(&spec, 1), std::span(&spec, 1), attributes}) != nullptr;
  };
  const OpDef any = named("any", FusionClass::kElementwise), known = named("known");
  EXPECT_TRUE(makes(any, full, {}));
  EXPECT_TRUE(makes(any, full, stored)) << "none of them is of 16 bits";
  EXPECT_FALSE(makes(any, narrow, stored));
  EXPECT_TRUE(makes(known, narrow, stored));
}

TEST(Backend, TheCpuRunsEveryRowButViewsAndWhatIsWrittenInOthers) {
  const Backend& cpu = backend_of(DeviceKind::kCpu);
  std::set<std::string> in_others;
  for (const OpDef& op : ops::registry().rows()) {
    if (op.fusion == FusionClass::kView) {
      EXPECT_FALSE(cpu.runs(op)) << op.name;
    } else if (!cpu.runs(op)) {
      EXPECT_NE(op.decompose, nullptr) << op.name;
      in_others.insert(op.name);
    }
  }
  in_others.erase("twice");  // that of a test below
  EXPECT_THAT(in_others, ElementsAre("muon_update", "normalize_by_moments", "squared_distances"));
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const std::string& op : dynamic_cast<const KernelTable&>(backend_of(device)).ops())
      EXPECT_NE(ops::registry().find(op), nullptr) << "a kernel for no op: " << op;
  }
}

/// x twice, and x; no backend has a kernel.
const OpDef& twice() {
  static const OpDef& op = [&]() -> const OpDef& {
    OpDef row;
    row.name = "twice";
    row.summary = "x twice, and x";
    row.infer = [](const OpCall& call) {
      return std::vector<TensorSpec>{call.inputs[0], {DType::kF32, call.inputs[0].shape}};
    };
    row.decompose = [](const OpCall&, std::span<const Tensor> inputs) {
      return std::vector<Tensor>{inputs[0] * 2.0, inputs[0]};
    };
    return ops::register_op(std::move(row), nullptr);
  }();
  return op;
}

TEST(Decomposition, RunsAtOnceWhereTheCpuHasNoKernel) {
  const Tensor x = transpose(from_vector({2, 2}, {1, 2, 3, 4}));
  const std::vector<Tensor> results = graph::apply(twice(), std::vector{x});
  EXPECT_THAT(results[0].to_vector(), testing::ElementsAre(2, 6, 4, 8));
  EXPECT_THAT(results[1].to_vector(), testing::ElementsAre(1, 3, 2, 4));
  EXPECT_NE(results[1].storage().get(), x.storage().get()) << "results are memory of their own";
  auto captured = capture([](const Tensor& in) { return graph::apply(twice(), std::vector{in})[0]; });
  EXPECT_EQ(captured(x).to_vector(), results[0].to_vector());
  EXPECT_ERROR(graph::apply(twice(), std::vector{zeros({2}, DType::kF64)}), ErrorCode::kInvalidArgument,
               "result 1 of its decomposition is f64(2), not f32(2)");
}

}  // namespace
}  // namespace isochron::graph
