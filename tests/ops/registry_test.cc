// Tests generated from the registry: every row, every promise. And rows broken on purpose, which must be
// found out.
#include <gmock/gmock.h>

#include "isochron/graph/apply.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/registry.h"
#include "ops/op_checks.h"

namespace isochron {
namespace {

using graph::OpDef;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class EveryOp : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& op() const { return ops::row(GetParam()); }
  /// Ops that exist only inside captures or draw random numbers are tested by their own tests.
  bool generated() const { return !op().samples.empty() && !op().random; }
};

TEST_P(EveryOp, ComputesItsReference) {
  if (!generated()) GTEST_SKIP() << "no samples";
  ASSERT_TRUE(op().reference) << "the row has samples but no reference";
  EXPECT_THAT(check_reference(op()), IsEmpty());
  EXPECT_THAT(check_strided(op()), IsEmpty());
  EXPECT_THAT(check_repeatable(op()), IsEmpty());
}

TEST_P(EveryOp, CapturedEqualsEager) {
  if (!generated()) GTEST_SKIP() << "no samples";
  EXPECT_THAT(check_captured(op()), IsEmpty());
}

TEST_P(EveryOp, GradientsAreThoseOfCentralDifferences) {
  if (!generated() || !op().gradient) GTEST_SKIP() << "not differentiable";
  if (op().name == "stop_gradient") GTEST_SKIP() << "its gradient is zero by definition";
  EXPECT_THAT(check_gradient(op()), IsEmpty());
  EXPECT_THAT(check_second_gradient(op()), IsEmpty());
}

TEST_P(EveryOp, RejectsWrongCalls) { EXPECT_THAT(check_errors(op()), IsEmpty()); }

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef& row : ops::registry().rows()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOp, testing::ValuesIn(op_names()),
                         [](const testing::TestParamInfo<std::string>& row) { return row.param; });

/// A copy of the row of `square`, to be broken. Lives on, as rows do: prepared kernels are found by its
/// address.
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

TEST(OpChecks, ReportARowThatAcceptsWhatItShouldReject) {
  OpDef& op = broken_square();
  op.errors = {{{{DType::kF32, {2}}}, {}, ErrorCode::kShapeMismatch}};
  EXPECT_THAT(check_errors(op), Contains(HasSubstr("no error, expected shape_mismatch")));
}

}  // namespace
}  // namespace isochron
