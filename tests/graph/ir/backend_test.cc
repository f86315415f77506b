#include "isochron/graph/ir/backend.h"

#include <gmock/gmock.h>

#include "isochron/ops/rows/registry.h"
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

TEST(Backend, TheCpuRunsEveryRowButViewsAndNothingElse) {
  const Backend& cpu = backend_of(DeviceKind::kCpu);
  for (const OpDef& op : ops::registry().rows())
    EXPECT_EQ(cpu.runs(op), op.fusion != FusionClass::kView) << op.name;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const std::string& op : dynamic_cast<const KernelTable&>(backend_of(device)).ops())
      EXPECT_NE(ops::registry().find(op), nullptr) << "a kernel for no op: " << op;
  }
}

}  // namespace
}  // namespace isochron::graph
