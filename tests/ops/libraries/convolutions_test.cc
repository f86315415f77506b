// Convolutions of a library: which plans the real library makes for a device that isn't present.
#include "isochron/backends/cuda/libraries/convolutions.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/leaks_of_others.h"
#include "support/simulated/described_device.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

using ConvolutionPass = ConvolutionSpec::Pass;

ConvolutionSpec convolution_spec(ConvolutionPass pass, DType dtype) {
  // As ResNet's stages begin: 3x3 at stride 2, `same`, so with padding on one side alone.
  const ConvolutionSpec::Axis axis{.input = 32, .window = 3, .stride = 2, .after = 1, .output = 16};
  return {.pass = pass, .axis = {axis, axis}, .batch = 32, .channels = 16, .outputs = 32, .dtype = dtype};
}

class Convolutions : public testing::Test {
 protected:
  void SetUp() override {
    if (library == nullptr) GTEST_SKIP() << "cuDNN is not here";
  }
  std::vector<std::string> names(const ConvolutionSpec& spec) {
    std::vector<std::string> all;
    for (const auto& algorithm : library->algorithms(context, spec)) {
      EXPECT_LE(algorithm->workspace_bytes(), kMaxLibraryWorkspace);
      all.push_back(algorithm->name());
    }
    return all;
  }
  const LeaksOfOthers leaks;
  const std::unique_ptr<ConvolutionLibrary> library = convolutions_for(kH100);
  SimulatedContext context;
};

TEST_F(Convolutions, HavePlansInEachPassAndDtype) {
  for (const ConvolutionPass pass :
       {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const std::vector<std::string> found = names(convolution_spec(pass, dtype));
      EXPECT_FALSE(found.empty()) << static_cast<int>(pass) << " " << dtype_name(dtype);
      EXPECT_EQ(names(convolution_spec(pass, dtype)), found) << "the same algorithms in the same order";
    }
    ConvolutionSpec fast = convolution_spec(pass, DType::kF32);
    fast.tf32 = true;
    EXPECT_NE(names(fast), names(convolution_spec(pass, DType::kF32))) << "tensor cores round f32";
  }
}

TEST_F(Convolutions, HavePlansForGroupsAndForThreeAxes) {
  for (const ConvolutionPass pass :
       {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
    ConvolutionSpec grouped = convolution_spec(pass, DType::kBF16);
    grouped.groups = 4;
    EXPECT_FALSE(names(grouped).empty());
    ConvolutionSpec deep = convolution_spec(pass, DType::kBF16);
    deep.axes = 3;
    deep.axis[2] = deep.axis[1];
    EXPECT_FALSE(names(deep).empty());
  }
}

TEST_F(Convolutions, APlanForADescribedDeviceCantRun) {
  const LibraryAlgorithms algorithms =
      library->algorithms(context, convolution_spec(ConvolutionPass::kForward, DType::kBF16));
  ASSERT_FALSE(algorithms.empty());
  const DevicePtr tensors[] = {16, 32, 48};
  EXPECT_ERROR(algorithms[0]->enqueue(tensors, 64, Stream::kNone), ErrorCode::kUnsupported,
               "not for one that is here");
}

TEST_F(Convolutions, WhatContradictsItselfIsRefused) {
  ConvolutionSpec wrong = convolution_spec(ConvolutionPass::kForward, DType::kF32);
  wrong.axis[0].output = 20;
  EXPECT_ERROR(library->algorithms(context, wrong), ErrorCode::kDevice, "cudnnBackend");
}

}  // namespace
}  // namespace isochron::cuda
