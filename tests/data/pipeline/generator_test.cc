// Datasets from a function that writes one element after the other.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/stages/combine.h"
#include "isochron/ops/reduction/reduction.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

TEST(FromGenerator, MustWriteEveryTensor) {
  for (const int64_t forgets_at : {0, 3}) {
    auto dataset = from_generator({"x", "y"}, {{DType::kF32, {}}, {DType::kF32, {}}}, [=](uint64_t) {
      return [=, i = int64_t{0}](ElementBuffer& buffer) mutable {
        *reinterpret_cast<float*>(buffer.room(0)) = static_cast<float>(i);
        if (i != forgets_at) *reinterpret_cast<float*>(buffer.room(1)) = 1;
        return ++i <= 5;
      };
    });
    const auto read_all = [](Dataset all) {
      for (const Element& element : all) EXPECT_GT(sum(element["y"]).item<float>(), 0);
    };
    EXPECT_ERROR(read_all(dataset), ErrorCode::kInvalidArgument, "without writing 'y'; write every tensor");
    EXPECT_ERROR(read_all(dataset.batch(2, {.drop_remainder = true})), ErrorCode::kInvalidArgument,
                 fmt::format("for element {} of epoch 0", forgets_at));
  }
}

TEST(FromGenerator, WhatItThrowsNamesTheElement) {
  auto dataset = from_generator({"x"}, {{DType::kF32, {}}}, [](uint64_t epoch) {
    return [epoch, i = 0](ElementBuffer& buffer) mutable {
      if (epoch == 1 && i == 2) throw std::runtime_error("the camera is gone");
      *reinterpret_cast<float*>(buffer.room(0)) = 1;
      return ++i <= 4;
    };
  });
  auto batches = dataset.batch(2, {.drop_remainder = true});
  EXPECT_EQ(epoch_of(batches).size(), 2u);
  EXPECT_ERROR(epoch_of(batches), ErrorCode::kInvalidArgument,
               "[from_generator (stage 0)] element 2 of epoch 1: the camera is gone");
}

TEST(FromGenerator, TwoThreadsThatReadAtOnceAreRefused) {
  std::atomic<bool> inside{false}, go_on{false};
  auto dataset = from_generator({"x"}, {{DType::kF32, {}}}, [&](uint64_t) {
    return [&, i = 0](ElementBuffer& buffer) mutable {
      if (i == 1) {
        inside = true;
        while (!go_on) std::this_thread::yield();
      }
      *reinterpret_cast<float*>(buffer.room(0)) = 1;
      return ++i <= 4;
    };
  });
  auto at = dataset.begin();
  std::thread reader([&] { ++at; });
  while (!inside) std::this_thread::yield();
  auto other = at;
  EXPECT_ERROR(++other, ErrorCode::kInvalidArgument, "is read while another read of it hasn't returned");
  go_on = true;
  reader.join();
}

TEST(FromGenerator, BeginsAnewInEveryEpoch) {
  auto dataset = ragged(3);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_THAT(numbers_of(dataset), ElementsAre(1, 1, 2, 1, 2, 3));
  EXPECT_ERROR(from_generator({"a", "a"}, {{}, {}}, [](uint64_t) { return nullptr; }),
               ErrorCode::kInvalidArgument, "twice");
  auto broken = from_generator({"a"}, {{DType::kF32, {}}}, [](uint64_t) { return nullptr; });
  EXPECT_ERROR(epoch_of(broken), ErrorCode::kInvalidArgument, "the generator is empty");
}

}  // namespace
}  // namespace isochron::data
