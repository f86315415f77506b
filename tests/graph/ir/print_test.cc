#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::graph {
namespace {

using testing::HasSubstr;

std::unique_ptr<Graph> example() {
  const Tensor weight = zeros({3, 2});
  return trace({{DType::kF32, {4, 3}}}, [&](const std::vector<Tensor>& in) {
    const NameScope scope("dense");
    const Tensor y = matmul(in[0], weight) * 0.5;
    assign(weight, weight + 1.0);
    return y;
  });
}

TEST(Print, TextHasOneLineAValue) {
  EXPECT_EQ(to_text(*example()),
            "%0 = input 0 : f32(4, 3)\n"
            "%1 = bound : f32(3, 2)\n"
            "%3 = constant : f32()\n"
            "%5 = constant : f32()\n"
            "%2 = matmul(%0, %1) {transpose_a=false, transpose_b=false} : f32(4, 2)  # dense/\n"
            "%4 = mul(%2, %3) : f32(4, 2)  # dense/\n"
            "%6 = add(%1, %5) : f32(3, 2)  # dense/\n"
            "update %1 <- %6\n"
            "return %4\n");
}

TEST(Print, DotHasNodesEdgesOutputsAndUpdates) {
  const std::string dot = to_dot(*example());
  EXPECT_THAT(dot, testing::StartsWith("digraph isochron {"));
  EXPECT_THAT(dot, HasSubstr("v0 [label=\"input 0\\nf32(4, 3)\", shape=ellipse];"));
  EXPECT_THAT(dot, HasSubstr("v1 [label=\"bound\\nf32(3, 2)\", shape=cylinder];"));
  EXPECT_THAT(dot, HasSubstr("n0 [label=\"dense/matmul\"];"));
  EXPECT_THAT(dot, HasSubstr("v0 -> n0 [label=\"f32(4, 3)\"];"));
  EXPECT_THAT(dot, HasSubstr("n1 -> out0;"));
  EXPECT_THAT(dot, HasSubstr("n2 -> v1 [style=dashed, constraint=false, label=\"update\"];"));
  EXPECT_THAT(dot, testing::EndsWith("}\n"));
}

TEST(Print, ACloneReadsTheSame) {
  // Numbering follows the order of creation, which a clone keeps by kind; a clone of a clone is equal.
  const std::unique_ptr<Graph> clone = example()->clone();
  EXPECT_EQ(to_text(*clone), to_text(*clone->clone()));
  EXPECT_EQ(clone->node_count(), 3u);
  EXPECT_EQ(clone->updates().size(), 1u);
}

TEST(Print, AFusedProgramIsShown) {
  auto graph = trace({{DType::kF32, {8}}}, [](const std::vector<Tensor>& in) { return exp(in[0] * 2.0); });
  run_passes(*graph);
  EXPECT_EQ(to_text(*graph),
            "%0 = input 0 : f32(8)\n"
            "%1 = constant : f32()\n"
            "%4 = fused(%0) {program={r1=2; r2=mul(r0,r1); r3=exp(r2); -> r3}} : f32(8)\n"
            "return %4\n");
}

}  // namespace
}  // namespace isochron::graph
