// Image classifiers: handwritten digits, at their own size or scaled up for larger networks; or the
// photographs of CIFAR-10 if --data names their folder.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "isochron/apps/train/families.h"
#include "isochron/apps/train/session.h"
#include "isochron/data/sources/cifar.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/losses/metrics.h"
#include "isochron/nn/models/models.h"
#include "isochron/nn/models/resnet.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/interpolation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::apps {
namespace {

constexpr int64_t kClasses = 10;

struct Images {
  data::LabelledImages train, test;
  std::string name;
};

/// The form in which a network needs the digits. CIFAR-10 is always 32 x 32 in color.
struct Wanted {
  int64_t side = 8;
  bool colors = false;
};

void scale_up(data::LabelledImages& part, const Wanted& wanted) {
  if (wanted.side != part.images.extent(1)) part.images = resize(part.images, {wanted.side, wanted.side});
  if (wanted.colors) part.images = concatenate({part.images, part.images, part.images}, 3);
}

/// Scales images so that each channel of the training images has mean 0 and standard deviation 1.
void standardize(Images& images) {
  const Tensor mean_of = mean(images.train.images, {0, 1, 2});
  const Tensor square = mean(images.train.images * images.train.images, {0, 1, 2});
  const Tensor stddev = sqrt(maximum(square - mean_of * mean_of, 1e-6));
  for (data::LabelledImages* part : {&images.train, &images.test}) {
    part->images = (part->images - mean_of) / stddev;
  }
}

void trains_on(TrainSession& session, const data::LabelledImages& train, const data::LabelledImages& test) {
  session.trains_on({train.images, train.labels, test.images, test.labels});
}

Images load_images(TrainSession& session, const Wanted& wanted) {
  std::error_code ignored;
  if (std::filesystem::is_directory(session.data(), ignored)) {
    data::Cifar10 cifar = data::load_cifar10(session.data());
    trains_on(session, cifar.train, cifar.test);
    return {std::move(cifar.train), std::move(cifar.test), "CIFAR-10"};
  }
  data::Digits digits = data::load_digits(session.data());
  trains_on(session, digits.train, digits.test);
  for (data::LabelledImages* part : {&digits.train, &digits.test}) scale_up(*part, wanted);
  return {std::move(digits.train), std::move(digits.test), "digits"};
}

std::string described(const Images& images, const Wanted& wanted) {
  const bool scaled = images.name == "digits" && (wanted.side != 8 || wanted.colors);
  return fmt::format("{}: {} images of {} x {} for training, {} for testing{}", images.name,
                     images.train.images.extent(0), images.train.images.extent(1),
                     images.train.images.extent(2), images.test.images.extent(0),
                     scaled ? fmt::format(" (8 x 8 scaled up{}; --data FOLDER trains on CIFAR-10)",
                                          wanted.colors ? ", the gray channel three times" : "")
                            : "");
}

/// The accuracy on the test images of choosing the class whose mean training image is nearest.
double nearest_mean_accuracy(const Images& images) {
  const auto pixels = static_cast<size_t>(images.train.images.elems() / images.train.images.extent(0));
  std::vector<double> sums(kClasses * pixels), counts(kClasses);
  const std::span<const float> train = images.train.images.span<float>();
  const std::span<const int64_t> labels = images.train.labels.span<int64_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<size_t>(labels[i]);
    counts[label] += 1;
    for (size_t k = 0; k < pixels; ++k) sums[label * pixels + k] += train[i * pixels + k];
  }
  const std::span<const float> test = images.test.images.span<float>();
  const std::span<const int64_t> truth = images.test.labels.span<int64_t>();
  double right = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    int64_t best = 0;
    double nearest = INFINITY;
    for (size_t c = 0; c < kClasses; ++c) {
      if (counts[c] == 0) continue;
      double distance = 0;
      for (size_t k = 0; k < pixels; ++k) {
        const double difference = test[i * pixels + k] - sums[c * pixels + k] / counts[c];
        distance += difference * difference;
      }
      if (distance < nearest) {
        nearest = distance;
        best = static_cast<int64_t>(c);
      }
    }
    right += best == truth[i] ? 1 : 0;
  }
  return right / static_cast<double>(truth.size());
}

/// The accuracy on the test images of always choosing the most frequent class.
double most_frequent_accuracy(const Images& images) {
  std::vector<int64_t> counts(kClasses);
  for (const int64_t label : images.train.labels.span<int64_t>()) ++counts[static_cast<size_t>(label)];
  const int64_t frequent = std::ranges::max_element(counts) - counts.begin();
  const std::span<const int64_t> truth = images.test.labels.span<int64_t>();
  return static_cast<double>(std::ranges::count(truth, frequent)) / static_cast<double>(truth.size());
}

struct Classifier {
  std::string name;
  Wanted wanted = {};
  TrainSettings digits;
  TrainSettings cifar;
  bool standardized = true;
  std::function<std::unique_ptr<nn::Module>()> make;
};

void train_classifier(const TrainOptions& options, const Classifier& classifier) {
  std::error_code ignored;
  const bool cifar = std::filesystem::is_directory(options.data, ignored);
  TrainSession session(options, cifar ? classifier.cifar : classifier.digits);
  Images images = load_images(session, classifier.wanted);
  fmt::print("{}\n", described(images, classifier.wanted));
  const double frequent = most_frequent_accuracy(images), nearest = nearest_mean_accuracy(images);
  const std::unique_ptr<nn::Module> model = classifier.make();
  if (classifier.standardized) standardize(images);
  auto batches = session.batches(data::from_tensor_slices(images.train.images, images.train.labels));
  auto test = data::from_tensor_slices(images.test.images, images.test.labels)
                  .batch(batches.signatures()[0][0].shape[0]);
  train::Trainer trainer =
      session.trainer(train::supervised(*model, nn::sparse_softmax_cross_entropy, session.optimizer(),
                                        {train::metric("accuracy", nn::SparseCategoricalAccuracy())}),
                      batches);
  session.fit(trainer, batches, {.validation_data = test});
  const train::Results results = trainer.evaluate(test);
  const double accuracy = results["accuracy"];
  session.finish({.title = fmt::format("{} on {}", classifier.name, images.name),
                  .task = fmt::format("{} images it has not seen; the mean loss is {:.4g}",
                                      images.test.images.extent(0), results["loss"]),
                  .result = fmt::format(
                      "Accuracy {:.1f} %; choosing the class whose mean image is nearest gives {:.1f} %.",
                      100 * accuracy, 100 * nearest),
                  .measures = {"accuracy"},
                  .compared = {{"this model", {accuracy}},
                               {"nearest class mean", {nearest}},
                               {"most frequent class", {frequent}}},
                  .test = {{"loss", results["loss"]},
                           {"accuracy", accuracy},
                           {"nearest_class_mean_accuracy", nearest},
                           {"most_frequent_class_accuracy", frequent}}});
}

std::unique_ptr<nn::Module> small_convolutional() {
  using nn::Activation;
  const nn::ConvOptions same{.padding = Padding::same()};
  return own(nn::Sequential(nn::Conv2D(32, {3, 3}, Activation::kRelu, same),
                            nn::Conv2D(64, {3, 3}, Activation::kRelu, same), nn::MaxPool2D({2, 2}),
                            nn::Flatten(), nn::Dropout(0.25), nn::Dense(128, Activation::kRelu),
                            nn::Dropout(0.5), nn::Dense(kClasses)));
}

std::unique_ptr<nn::Module> flat_dense() {
  nn::Sequential model;
  model.append(nn::Flatten());
  model.append(nn::mlp({512, 512, kClasses}));
  return own(std::move(model));
}

TrainSettings classifier_momentum(int epochs, int64_t batch, double learning_rate) {
  return {.epochs = epochs,
          .batch = batch,
          .optimizer = "momentum",
          .learning_rate = learning_rate,
          .warmup_share = 0.1};
}

void train_digits(const TrainOptions& options) {
  train_classifier(options, {.name = "A small convolutional network",
                             .digits = {.epochs = 40, .batch = 32},
                             .cifar = {.epochs = 6, .batch = 64},
                             .standardized = false,
                             .make = small_convolutional});
}

void train_mlp(const TrainOptions& options) {
  train_classifier(options, {.name = "A dense network",
                             .digits = {.epochs = 40, .batch = 32},
                             .cifar = {.epochs = 10, .batch = 128},
                             .make = flat_dense});
}

void train_lenet(const TrainOptions& options) {
  train_classifier(options, {.name = "LeNet",
                             .wanted = {.side = 32},
                             .digits = {.epochs = 40, .batch = 32},
                             .cifar = {.epochs = 15, .batch = 64},
                             .make = [] { return own(nn::lenet(kClasses)); }});
}

nn::BatchNormOptions norm_of(const TrainOptions& options) {
  nn::BatchNormOptions norm = nn::ResNetOptions().norm;
  norm.synchronized = options.sync_batch_norm;
  return norm;
}

void train_resnet20(const TrainOptions& options) {
  train_classifier(options, {.name = "ResNet-20",
                             .wanted = {.side = 32, .colors = true},
                             .digits = classifier_momentum(20, 32, 0.05),
                             .cifar = classifier_momentum(5, 64, 0.1),
                             .make = [&] { return own(nn::resnet20(kClasses, norm_of(options))); }});
}

void train_resnet50(const TrainOptions& options) {
  train_classifier(options, {.name = "ResNet-50",
                             .wanted = {.side = 32, .colors = true},
                             .digits = classifier_momentum(12, 32, 0.02),
                             .cifar = classifier_momentum(2, 64, 0.05),
                             .make = [&] { return own(nn::resnet50(kClasses, norm_of(options))); }});
}

}  // namespace

std::vector<TrainableModel> image_models() {
  return {{"digits", "a small convolutional network on handwritten digits", train_digits},
          {"mlp", "a dense network on the digits or CIFAR-10", train_mlp},
          {"lenet", "LeNet on the digits, scaled up, or CIFAR-10", train_lenet},
          {"resnet20", "the residual network for CIFAR-10, or the digits scaled up", train_resnet20, true},
          {"resnet50", "the residual network for ImageNet, on CIFAR-10 or the digits scaled up",
           train_resnet50, true}};
}

}  // namespace isochron::apps
