// Memory over a fit: when moments are taken, that they see what grows, and what the plan's buffers are for.
#include "isochron/train/callbacks/memory_watch.h"

#include <gmock/gmock.h>

#include <map>

#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/plan_picture.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"

namespace isochron::train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;

struct WatchedFit {
  void fit(int epochs, std::vector<Callback*> callbacks, int64_t steps = 0) {
    auto batches = data::from_tensor_slices(full({64, 20}, 1.0), full({64, 1}, 2.0)).batch(16);
    trainer.fit(batches,
                {.epochs = epochs, .steps_per_epoch = steps, .callbacks = callbacks, .progress = nullptr});
  }

  nn::Sequential model{nn::Dense(300, nn::Activation::kRelu), nn::Dense(1)};
  optim::Adam optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
};

std::vector<std::string> names(const MemoryWatch& watch) {
  std::vector<std::string> all;
  for (const observe::MemoryMoment& moment : watch.moments()) all.push_back(moment.name);
  return all;
}

TEST(MemoryWatch, TakesMomentsAfterWarmUpAtStepsAndAtTheEnd) {
  WatchedFit f;
  MemoryWatch watch({.steps = {10, 3, 1000}});
  f.fit(3, {&watch});
  EXPECT_THAT(names(watch), ElementsAre("step 3", "after warm-up", "step 10", "end"));
  EXPECT_EQ(watch.moments()[1].step, 4);
  EXPECT_EQ(watch.moments()[3].step, 12);
  f.fit(1, {&watch}, 120);
  EXPECT_THAT(names(watch), ElementsAre("step 3", "step 10", "after warm-up", "end"));
  EXPECT_EQ(watch.moments()[2].step, 100) << "of a single epoch";
  EXPECT_ERROR(MemoryWatch({.steps = {5, 0}}), ErrorCode::kInvalidArgument, "steps count from 1");
}

TEST(MemoryWatch, WarmUpMayEndWithinACall) {
  WatchedFit f;
  MemoryWatch watch({.steps = {1000}});
  auto batches = data::from_tensor_slices(full({64, 20}, 1.0), full({64, 1}, 2.0)).batch(4);
  f.trainer.fit(
      batches,
      {.epochs = 1, .steps_per_epoch = 120, .steps_per_call = 8, .callbacks = {&watch}, .progress = nullptr});
  EXPECT_THAT(names(watch), ElementsAre("after warm-up", "end"));
  EXPECT_EQ(watch.moments()[0].step, 104) << "the first call that ends at 100 or later";
}

TEST(MemoryWatch, TakesPowersOfTenByItself) {
  WatchedFit f;
  MemoryWatch watch;
  f.fit(1, {&watch}, 1200);
  EXPECT_THAT(names(watch), ElementsAre("after warm-up", "step 1000", "end"));
}

TEST(MemoryWatch, KeepsFewMoments) {
  WatchedFit f;
  MemoryWatchOptions options;
  for (int64_t step = 1; step <= 100; ++step) options.steps.push_back(step);
  MemoryWatch watch(options);
  f.fit(1, {&watch}, 120);
  EXPECT_LE(watch.moments().size(), MemoryWatch::kMaxMoments);
  EXPECT_EQ(watch.moments().back().name, "end");
}

TEST(MemoryWatch, NamesWhatTheRunHoldsAndWhatGrows) {
  WatchedFit f;
  MemoryWatch watch;
  std::vector<Ref<Storage>> kept;
  LambdaCallback leaks({.on_epoch_begin = [&](RunState& run) {
    if (run.epoch > 1) kept.push_back(allocate_buffer(5'000'000, "history"));
  }});
  f.fit(3, {&watch, &leaks});
  const observe::MemoryMoment& last = watch.moments().back();
  const auto tag = [](const char* name) { return Contains(Field(&observe::TaggedMemory::tag, name)); };
  EXPECT_THAT(last.tags, tag("arena"));
  EXPECT_THAT(last.tags, tag("weights"));
  EXPECT_THAT(last.tags, tag("state"));
  EXPECT_EQ(last.tags[0].tag, "history");
  EXPECT_GE(last.resident.planned, static_cast<int64_t>(f.trainer.step().largest_plan().report.arena_bytes));
  const std::vector<observe::MemoryChange> changes = observe::difference(watch.moments().front(), last);
  const auto found = std::ranges::find(changes, "tag history", &observe::MemoryChange::what);
  ASSERT_NE(found, changes.end());
  EXPECT_EQ(found->grown(), 2 * (5'000'000 + 64));
}

TEST(PlanPicture, TellsWhatBuffersAreFor) {
  WatchedFit f;
  f.fit(1, {});
  const observe::PlanPicture picture = plan_picture(f.trainer.step(), "step");
  std::map<std::string, int64_t> largest;
  for (const observe::PictureBuffer& buffer : picture.buffers) {
    int64_t& bytes = largest[picture.kinds[static_cast<size_t>(buffer.kind)]];
    bytes = std::max(bytes, buffer.bytes);
  }
  EXPECT_EQ(largest["activation"], 16 * 300 * 4) << "the hidden layer, read again by the backward pass";
  EXPECT_EQ(largest["gradient"], 20 * 300 * 4) << "of the first kernel";
  EXPECT_GE(picture.kernels, static_cast<int64_t>(picture.names.size()));
  EXPECT_EQ(observe::plan_from_json(observe::plan_json(picture), "x"), picture);
  EXPECT_FALSE(observe::plan_svg(picture).empty());
}

}  // namespace
}  // namespace isochron::train
