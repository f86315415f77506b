#include "isochron/nn/module/summary.h"

#include <gmock/gmock.h>

#include <sstream>

#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> paths(const Summary& summary) {
  std::vector<std::string> result;
  for (const ModuleSummary& row : summary.modules) result.push_back(row.path);
  return result;
}

TEST(Summary, ListsModulesWithTheirResultsAndParameters) {
  Sequential model(Dense(64, Activation::kRelu), BatchNorm(), Sequential(Dense(10)));
  model[0].set_trainable(false);
  const Summary all = summary(model, {DType::kF32, {32, 784}});
  EXPECT_THAT(paths(all), ElementsAre("", "dense", "batch_norm", "sequential", "sequential/dense"));
  const ModuleSummary& dense = all.modules[1];
  EXPECT_EQ(dense.kind, "dense");
  EXPECT_THAT(dense.outputs, ElementsAre(TensorSpec{DType::kF32, {32, 64}}));
  EXPECT_EQ(dense.parameters, 784 * 64 + 64);
  EXPECT_EQ(dense.trainable, 0);
  EXPECT_EQ(dense.bytes, 4u * (784 * 64 + 64));
  EXPECT_EQ(all.modules[2].parameters, 128);
  EXPECT_EQ(all.modules[2].buffer_bytes, 2 * 64 * 4u);
  EXPECT_EQ(all.modules[3].parameters, 0) << "its own, not its children's";
  EXPECT_THAT(all.modules[3].outputs, ElementsAre(TensorSpec{DType::kF32, {32, 10}}));
  EXPECT_EQ(all.parameters, model.parameter_count());
  EXPECT_EQ(all.trainable, 128 + 650);
  EXPECT_EQ(all.bytes, 4u * (50240 + 128 + 650));
  EXPECT_EQ(all.buffer_bytes, 512u);
}

TEST(Summary, OfWhatIsBuiltHasNoResults) {
  Sequential model(Dense(3), Dense(2));
  Summary none = summary(model);
  EXPECT_EQ(none.modules.size(), 3u);
  EXPECT_EQ(none.parameters, 0);
  model.build({DType::kF64, {1, 4}});
  none = summary(model);
  EXPECT_EQ(none.parameters, 4 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ(none.bytes, 8u * 23);
  EXPECT_TRUE(none.modules[1].outputs.empty());
}

/// One layer under two names, and called with inputs of two lengths.
class Shared : public Module {
 public:
  Tensor forward(const Tensor& x, const Tensor& y) override {
    const Tensor once = layer_(x), twice = layer_(once);
    return twice + layer_(y);
  }
  void members(Members& list) override { list("first", layer_)("second", layer_); }

 private:
  Dense layer_{3};
};

TEST(Summary, ASharedLayerHasOneRow) {
  Shared model;
  const Summary all = summary(model, {DType::kF32, {5, 3}}, {DType::kF32, {1, 3}});
  EXPECT_THAT(paths(all), ElementsAre("", "first"));
  EXPECT_THAT(all.modules[1].outputs,
              ElementsAre(TensorSpec{DType::kF32, {5, 3}}, TensorSpec{DType::kF32, {1, 3}}));
  EXPECT_EQ(all.parameters, 12);
}

/// One variable under two names.
class TiedTwice : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x * encoder_ * decoder_; }
  void members(Members& list) override { list("encoder", encoder_)("decoder", decoder_); }

 private:
  Variable encoder_{ones({4}), "encoder"}, decoder_ = encoder_;
};

TEST(Summary, ATiedVariableCountsOnce) {
  TiedTwice model;
  const Summary all = summary(model);
  EXPECT_EQ(all.parameters, 4);
  EXPECT_EQ(all.trainable, 4);
  EXPECT_EQ(all.bytes, 16u);
  EXPECT_EQ(all.parameters, model.parameter_count());
}

TEST(Summary, IsATable) {
  Sequential model(Dense(64), Dense(10));
  const Summary all = summary(model, {DType::kF32, {32, 784}});
  EXPECT_EQ(all.str(),
            "path     kind        output       parameters  trainable      bytes\n"
            "-        sequential  f32(32, 10)           0          0        0 B\n"
            "dense    dense       f32(32, 64)      50,240     50,240  200.96 KB\n"
            "dense_1  dense       f32(32, 10)         650        650    2.60 KB\n"
            "\n50,890 parameters, 50,890 of them trainable, 203.56 KB; buffers 0 B\n");
  std::ostringstream text;
  text << all;
  EXPECT_EQ(text.str(), all.str());
}

TEST(Summary, ThrowsAsBuildDoes) {
  Sequential model(Dense(64), Dense(10));
  EXPECT_ERROR(summary(model, {DType::kF32, {32}}), ErrorCode::kShapeMismatch, "[dense]");
  CrossAttention attention(4, 2);
  const Summary all = summary(attention, {DType::kF32, {2, 3, 4}}, {DType::kF32, {2, 7, 5}});
  EXPECT_THAT(paths(all), ElementsAre("", "query", "key_value", "output"));
  EXPECT_THAT(all.str(), HasSubstr("f32(2, 7, 8)"));
}

}  // namespace
}  // namespace isochron::nn
