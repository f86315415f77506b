// Tests generated from the registry: every row, every promise. Also rows that are broken on purpose, which
// the checks must detect.
#include <gmock/gmock.h>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "ops/rows/op_checks.h"
#include "support/sanitizers.h"

namespace isochron {
namespace {

using graph::OpDef;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> ops_that(bool (*belongs)(const OpDef&)) {
  std::vector<std::string> names;
  for (const OpDef& row : ops::registry().rows()) {
    if (belongs(row)) names.push_back(row.name);
  }
  return names;
}

bool every_op(const OpDef&) { return true; }
bool generated(const OpDef& op) { return !op.samples.empty() && !op.random; }
bool differentiable(const OpDef& op) {
  return generated(op) && op.gradient && op.name != "stop_gradient";  // whose gradient is not the derivative
}

bool half(const OpDef& op) {
  return generated(op) && (op.precision.rule == graph::PrecisionRule::kLow ||
                           op.precision.rule == graph::PrecisionRule::kFollow);
}

class OpTest : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& op() const { return ops::row(GetParam()); }
};
class EveryOp : public OpTest {};
class SampledOp : public OpTest {};
class DifferentiableOp : public OpTest {};
class HalfOp : public OpTest {};

TEST_P(EveryOp, RejectsWrongCalls) { EXPECT_THAT(check_errors(op()), IsEmpty()); }

TEST_P(SampledOp, ComputesItsReference) {
  ASSERT_TRUE(op().reference) << "the row has samples but no reference";
  EXPECT_THAT(check_reference(op()), IsEmpty());
  EXPECT_THAT(check_strided(op()), IsEmpty());
  EXPECT_THAT(check_repeatable(op()), IsEmpty());
}

TEST_P(SampledOp, CapturedEqualsEager) { EXPECT_THAT(check_captured(op()), IsEmpty()); }

TEST_P(DifferentiableOp, GradientsAreThoseOfCentralDifferences) {
  EXPECT_THAT(check_gradient(op()), IsEmpty());
  if (kSanitizer && op().name.ends_with("_gradient"))
    return;  // whose third order takes the release build seconds
  EXPECT_THAT(check_second_gradient(op()), IsEmpty());
}

TEST_P(HalfOp, ComputesOnTensorsStoredIn16Bits) { EXPECT_THAT(check_stored(op()), IsEmpty()); }

TEST(Registry, OnlyOpsTestedByHandHaveNoGeneratedTests) {
  // Those that hold other graphs (control_test, scan_test, update_if_test, fusion_test), those that draw
  // (random_test), and the halves of a sum over ranks (ranks_test).
  EXPECT_THAT(ops_that([](const OpDef& op) { return !generated(op); }),
              UnorderedElementsAre("fused", "cond", "while_loop", "scan", "update_if", "random_uniform",
                                   "random_normal", "bernoulli", "all_reduce_start", "all_reduce_wait"));
}

std::string op_name(const testing::TestParamInfo<std::string>& row) { return row.param; }
INSTANTIATE_TEST_SUITE_P(Registry, EveryOp, testing::ValuesIn(ops_that(every_op)), op_name);
INSTANTIATE_TEST_SUITE_P(Registry, SampledOp, testing::ValuesIn(ops_that(generated)), op_name);
INSTANTIATE_TEST_SUITE_P(Registry, DifferentiableOp, testing::ValuesIn(ops_that(differentiable)), op_name);
INSTANTIATE_TEST_SUITE_P(Registry, HalfOp, testing::ValuesIn(ops_that(half)), op_name);

/// A copy of the row of `square`, to be broken. It lives forever, like all rows: prepared kernels are found
/// by its address.
OpDef& broken_square() {
  static std::deque<OpDef> rows;
  OpDef& op = rows.emplace_back(ops::row("square"));
  op.name = "broken_square";
  return op;
}

TEST(OpChecks, ReportAWrongGradient) {
  OpDef& op = broken_square();
  op.gradient = [](const graph::GradientCall& call) {
    return std::vector<Tensor>{call.output_gradients[0] * call.inputs[0] * 2.01};
  };
  EXPECT_THAT(check_gradient(op), Contains(HasSubstr("along element 0")));
  EXPECT_THAT(check_reference(op), IsEmpty());
}

TEST(OpChecks, ReportAGradientThatIsRightOnlyOnce) {
  OpDef& op = broken_square();
  op.gradient = [](const graph::GradientCall& call) {
    return std::vector<Tensor>{call.output_gradients[0] * stop_gradient(call.inputs[0]) * 2.0};
  };
  EXPECT_THAT(check_gradient(op), IsEmpty());
  EXPECT_THAT(check_second_gradient(op), Contains(HasSubstr("second: gradient of input 0")));
}

TEST(OpChecks, ReportAWrongResult) {
  OpDef& op = broken_square();
  op.element = graph::ElementOp::kAbs;
  EXPECT_THAT(check_reference(op), Contains(HasSubstr("output 0: element 0 is")));
}

TEST(OpChecks, ReportAWrongHalfKernel) {
  static OpDef op = ops::row("matmul");
  op.name = "matmul_wrong_in_halves";
  op.samples = {{{{{2, 2}}, {{2, 2}}}, {{"transpose_a", true}, {"transpose_b", false}}}};
  const auto kernel = [](const graph::KernelRequest& request) {
    const graph::KernelRequest other{ops::row(graph::has_half_storage(request) ? "add" : "matmul"),
                                     request.inputs, request.outputs, request.attributes};
    return graph::prepare_kernel(other);
  };
  graph::add_kernel(DeviceKind::kCpu, {op.name, kernel, graph::StorageDtypes::kAny});
  EXPECT_THAT(check_stored(op), Contains(HasSubstr("storage=[bf16], output 0: element 0 is")));
}

TEST(OpChecks, ReportARowThatAcceptsWhatItShouldReject) {
  OpDef& op = broken_square();
  op.errors = {{{{DType::kF32, {2}}}, {}, ErrorCode::kShapeMismatch}};
  EXPECT_THAT(check_errors(op), Contains(HasSubstr("no error, expected shape_mismatch")));
}

}  // namespace
}  // namespace isochron
