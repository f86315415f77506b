// Augmented images: every epoch sees other crops and colors of the same pictures. The random numbers of an
// element depend on its position, not on the thread that makes it, so a run can be repeated.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

constexpr int64_t kImages = 240, kSide = 16, kPatch = 10;

/// A bright horizontal bar (class 0) or vertical bar (class 1) somewhere in a dark image, (kSide, kSide, 1).
Tensor image_of(int64_t label, Rng& rng) {
  Tensor image = zeros({kSide, kSide, 1});
  const auto at = static_cast<int64_t>(rng.uniform() * 4) + 6;  // in every crop
  for (int64_t i = 4; i < 12; ++i) {
    const int64_t y = label == 0 ? at : i, x = label == 0 ? i : at;
    image.span<float>()[static_cast<size_t>(y * kSide + x)] = 0.5F + 0.4F * static_cast<float>(rng.uniform());
  }
  return image;
}

int main() {
  Rng rng(1);
  std::vector<Tensor> images;
  std::vector<double> labels;
  for (int64_t i = 0; i < kImages; ++i) {
    labels.push_back(static_cast<double>(i % 2));
    images.push_back(image_of(i % 2, rng));
  }
  const data::Dataset pictures(
      data::Element{{"image", stack(images)}, {"label", cast(from_vector({kImages}, labels), DType::kI64)}});

  const auto augment = [](data::Element& element, const data::Position& position) {
    const data::ImageKey key{.epoch = position.epoch, .element = static_cast<uint64_t>(position.element)};
    Tensor patch = zeros({kPatch, kPatch, 1});
    data::random_crop(data::ImageView<const float>(element["image"]), data::ImageView<float>(patch), key);
    data::random_flip(data::ImageView<float>(patch), key, {.vertical = 0.5});
    data::color_jitter(data::ImageView<float>(patch), key, {.brightness = 0.3});
    element["image"] = patch;
  };
  // A crop of the middle stands for all crops when the model is tested.
  const auto crop = [](data::Element& element, const data::Position&) {
    Tensor patch = zeros({kPatch, kPatch, 1});
    data::center_crop(data::ImageView<const float>(element["image"]), data::ImageView<float>(patch));
    element["image"] = patch;
  };
  data::Dataset training =
      pictures.shuffle(kImages).map_with_position(augment, {.parallel = 2}).batch(24).prefetch();
  data::Dataset testing = pictures.map_with_position(crop).batch(24);

  nn::Sequential model(nn::Conv2D(8, {3, 3}, nn::Activation::kRelu), nn::GlobalMaxPool2D(), nn::Dense(2));
  optim::Adam optimizer({.learning_rate = 0.01});
  train::Trainer trainer(
      model, [](const Tensor& p, const Tensor& t) { return nn::sparse_softmax_cross_entropy(p, t); },
      optimizer, {train::metric("accuracy", nn::SparseCategoricalAccuracy())});
  trainer.fit(training, {.epochs = 25});
  const double accuracy = trainer.evaluate(testing)["accuracy"];
  fmt::print("accuracy on the middle crops: {:.3f}\n", accuracy);
  return accuracy > 0.95 ? 0 : 1;
}
