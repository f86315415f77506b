// Residual networks as a whole. Their arithmetic is compared with PyTorch's in golden_models_test.cc.
#include "isochron/nn/models/resnet.h"

#include <gmock/gmock.h>

#include <set>

#include "isochron/nn/weights/weights.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

TEST(ResNet, HasTheParametersOfThePaper) {
  ResNet small = resnet20();
  EXPECT_EQ(small.build({DType::kF32, {2, 32, 32, 3}}), (TensorSpec{DType::kF32, {2, 10}}));
  EXPECT_EQ(small.parameter_count(), 272'474);
  ResNet large = resnet50();
  EXPECT_EQ(large.build({DType::kF32, {1, 224, 224, 3}}), (TensorSpec{DType::kF32, {1, 1000}}));
  EXPECT_EQ(large.parameter_count(), 25'557'032);  // as torchvision's
}

TEST(ResNet, GoesUnderTorchvisionsNames) {
  const TempFolder folder;
  const auto path = folder / "w.safetensors";
  ResNet model({.blocks = {1, 2}, .widths = {2, 3}, .bottleneck = true, .small_images = false, .classes = 4});
  model.build({DType::kF32, {1, 32, 32, 3}});
  const WeightNaming naming{.convention = Convention::kPyTorch, .rename = torchvision_names(model.options())};
  save_weights(model, path, {.naming = naming});
  std::set<std::string> layers;
  const SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.entries())
    layers.insert(entry.name.substr(0, entry.name.rfind('.')));
  EXPECT_THAT(layers,
              testing::ElementsAre(
                  "bn1", "conv1", "fc", "layer1.0.bn1", "layer1.0.bn2", "layer1.0.bn3", "layer1.0.conv1",
                  "layer1.0.conv2", "layer1.0.conv3", "layer1.0.downsample.0", "layer1.0.downsample.1",
                  "layer2.0.bn1", "layer2.0.bn2", "layer2.0.bn3", "layer2.0.conv1", "layer2.0.conv2",
                  "layer2.0.conv3", "layer2.0.downsample.0", "layer2.0.downsample.1", "layer2.1.bn1",
                  "layer2.1.bn2", "layer2.1.bn3", "layer2.1.conv1", "layer2.1.conv2", "layer2.1.conv3"));
  EXPECT_EQ(file.find("layer1.0.downsample.0.weight")->spec.shape, (Shape{8, 2, 1, 1}));
  EXPECT_EQ(file.find("layer2.1.conv2.weight")->spec.shape, (Shape{3, 3, 3, 3}));
  EXPECT_NE(file.find("bn1.running_var"), nullptr);
  // As PyTorch writes it, with the counter of each norm; the order of the names doesn't matter.
  std::vector<std::pair<std::string, Tensor>> all;
  for (const SafetensorsEntry& entry : file.entries()) all.emplace_back(entry.name, file.read(entry.name));
  all.emplace_back("layer2.0.bn2.num_batches_tracked", scalar(3, DType::kI64));
  write_safetensors(path, all);
  EXPECT_EQ(load_weights(model, path, {.naming = naming}).loaded,
            model.parameters().size() + model.buffers().size());
  EXPECT_ERROR(torchvision_names({.blocks = {1}, .widths = {2}})("block_1.path_0.norm.weight"),
               ErrorCode::kInvalidArgument, "not a tensor of this network");
}

TEST(ResNet, RefusesWhatItIsNotMadeFor) {
  EXPECT_ERROR(ResNet({}), ErrorCode::kInvalidArgument, "as many widths as stages");
  EXPECT_ERROR(ResNet({.blocks = {1, 1}, .widths = {4}}), ErrorCode::kInvalidArgument, "got 1 and 2");
  EXPECT_ERROR(ResNet({.blocks = {0}, .widths = {4}}), ErrorCode::kInvalidArgument, ">= 1");
  ResNet model({.blocks = {1}, .widths = {4}});
  EXPECT_ERROR(model(ones({2, 8, 8})), ErrorCode::kShapeMismatch, "conv2d");
}

}  // namespace
}  // namespace isochron::nn
