// Batches of many shapes: all are planned before training, and shapes that vary freely are refused by name.
#include <gmock/gmock.h>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/stages/buckets.h"
#include "isochron/data/stages/combine.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"

namespace isochron::train {
namespace {

constexpr int64_t kLongest = 20;  // one bucket each: more than a captured function keeps plans by default

/// Sequences of 1 to kLongest numbers, each length twice.
data::Dataset sequences() {
  return data::from_generator({"x"}, {data::spec_of(DType::kF32, {data::kAnyExtent, 1})}, [](uint64_t) {
    return [length = int64_t{0}](data::ElementBuffer& buffer) mutable {
      if (length == 2 * kLongest) return false;
      const int64_t rows = length++ % kLongest + 1;
      auto* const numbers = reinterpret_cast<float*>(buffer.room(0, {rows, 1}));
      std::fill_n(numbers, rows, 0.5F);
      return true;
    };
  });
}

/// A mean over all steps of all sequences that falls.
struct Shrinking {
  nn::Dense dense{1};
  optim::Sgd sgd{{.learning_rate = 0.1}};
  Trainer trainer{BatchFunctions{.train = [this](const data::Element& batch) {
    const Tensor loss = mean(square(dense(batch[0])));
    sgd.minimize(loss, dense.parameters());
    return loss;
  }}};
};

TEST(TrainerSignatures, AllOfTheDatasAreKeptHoweverMany) {
  std::vector<int64_t> longest;
  for (int64_t length = 1; length <= kLongest; ++length) longest.push_back(length);
  data::Dataset buckets = bucket_by_sequence_length(
      sequences(), [](const data::Element& element) { return element[0].extent(0); },
      {.longest = longest, .batch_elems = {2}});
  Shrinking model;
  model.trainer.fit(buckets, {.epochs = 3});
  const CapturedFunction& step = model.trainer.step();
  EXPECT_EQ(step.plan_count(), static_cast<size_t>(kLongest));
  EXPECT_EQ(step.evictions(), 0u);
  EXPECT_EQ(step.traces().size(), static_cast<size_t>(kLongest));
}

TEST(TrainerSignatures, PlansOfManyDatasetsAreLetGo) {
  Shrinking model;
  for (int64_t rows = 1; rows <= 2 * kLongest; ++rows) {
    data::Dataset batch = data::from_tensor_slices({{"x", ones({rows, 1})}}).batch(rows);
    model.trainer.fit(batch, {.epochs = 1, .progress = nullptr});
  }
  EXPECT_LE(model.trainer.step().plan_count(), 2 + CaptureOptions().max_plans);
}

TEST(TrainerSignatures, ExtentsThatVaryFreelyAreRefusedByName) {
  data::Dataset padded = sequences().padded_batch(4, {.drop_remainder = true});
  Shrinking model;
  EXPECT_ERROR(model.trainer.fit(padded, {.epochs = 1}), ErrorCode::kInvalidArgument,
               "the extents of 'x' vary from batch to batch");
  auto step = capture([](const Tensor& x) { return x + 1.0; });
  EXPECT_ERROR(step.prepare(padded.signatures()[0]), ErrorCode::kInvalidArgument, "extents aren't all known");
}

TEST(TrainerSignatures, ADatasetOfOtherTensorsSaysWhatToChange) {
  Shrinking model;
  const Tensor x = ones({4, 1});
  data::Dataset one = data::from_tensor_slices({{"x", x}}).batch(2);
  model.trainer.fit(one, {.epochs = 1});
  data::Dataset other = data::from_tensor_slices({{"y", x}}).batch(2);
  EXPECT_ERROR(model.trainer.fit(other, {.epochs = 1}), ErrorCode::kInvalidArgument, "rename them with map");
  data::Dataset two = data::from_tensor_slices({{"x", x}, {"y", x}}).batch(2);
  EXPECT_ERROR(model.trainer.fit(two, {.epochs = 1}), ErrorCode::kInvalidArgument,
               "make elements of the same tensors with map, or another Trainer");
}

}  // namespace
}  // namespace isochron::train
