// Indexing on a simulated device against the CPU: what the registry's samples can't say.
#include <gmock/gmock.h>

#include <cmath>
#include <span>
#include <vector>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/indexing/embedding.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Arguments = std::span<const Tensor>;
using Numbers = std::vector<double>;

constexpr int kProcessors = 4;

/// What `function` gives here and on a device, bit for bit.
template <typename F>
void expect_the_cpus_bits(const F& function, const std::vector<Tensor>& arguments) {
  const auto expected = results_of(function, arguments);
  const auto results = results_of(function, arguments, kProcessors);
  for (size_t r = 0; r < expected.size(); ++r)
    EXPECT_THAT(results[r], testing::Pointwise(testing::NanSensitiveDoubleEq(), expected[r]))
        << "result " << r;
}

/// Indices in [0, extent), many of them equal.
Tensor scattered(const Shape& shape, int64_t extent, DType dtype = DType::kI64) {
  Numbers numbers;
  for (int64_t i = 0; i < shape.elems(); ++i)
    numbers.push_back(static_cast<double>((i * i * 7 + i / 3) % extent));
  return from_vector(shape, numbers, dtype);
}

TEST(DeviceAlongAxis, TakesFromTheMiddle) {
  const auto take = [](Arguments in) { return std::vector<Tensor>{take_along_axis(in[0], in[1], 1)}; };
  for (const DType dtype : {DType::kF64, DType::kF16, DType::kU8, DType::kBool})
    expect_the_cpus_bits(take, {waves({3, 5, 7}, 0.7, dtype), scattered({3, 9, 7}, 5, DType::kI32)});
  expect_the_cpus_bits(take, {waves({3, 5, 0}, 0.7), scattered({3, 9, 0}, 5)});
  expect_the_cpus_bits(take, {waves({3, 0, 2}, 0.7), scattered({3, 0, 2}, 5)});
}

struct Put {
  Shape updates;
  int64_t axis, extent;
  DType dtype;
};

TEST(DeviceAlongAxis, AddsUpdatesOfOneElementInTheirOrder) {
  for (const Put& of : {Put{{5000}, 0, 7, DType::kF32}, Put{{5000}, 0, 4000, DType::kBF16},
                        Put{{2, 2049, 3}, 1, 11, DType::kF16}, Put{{40, 30}, 0, 3, DType::kI32},
                        Put{{3, 700}, 1, 5, DType::kU8}, Put{{10, 5}, 0, 3, DType::kF64},
                        Put{{3, 70, 6000}, 1, 9, DType::kF32}, Put{{2, 70, 9000}, 1, 9, DType::kBF16},
                        Put{{70, 0, 3}, 0, 9, DType::kF32}, Put{{2, 0, 3}, 1, 4, DType::kBF16}}) {
    const auto put = [&](Arguments in) {
      return std::vector<Tensor>{put_add_along_axis(in[0], in[1], of.extent, of.axis)};
    };
    const double size = is_half(of.dtype) || of.dtype == DType::kF32 || of.dtype == DType::kF64 ? 1 : 100;
    Tensor updates = waves(of.updates, 1.3, DType::kF64);
    Numbers numbers = updates.to_vector();
    for (double& number : numbers) number = std::abs(number) * size;
    updates = from_vector(of.updates, numbers, of.dtype);
    SCOPED_TRACE(updates.spec().str());
    expect_the_cpus_bits(put, {updates, scattered(of.updates, of.extent)});
  }
}

TEST(DeviceAlongAxis, IntegersWrapAround) {
  const auto put = [](Arguments in) { return std::vector<Tensor>{put_add_along_axis(in[0], in[1], 2, 0)}; };
  for (const int64_t count : {3, 30}) {  // by columns, and by runs
    const std::vector<int64_t> large(static_cast<size_t>(count), INT64_MAX);
    expect_the_cpus_bits(put, {from_span<int64_t>({count}, large), zeros({count}, DType::kI64)});
    expect_the_cpus_bits(put, {full({count}, INT32_MAX, DType::kI32), zeros({count}, DType::kI64)});
  }
}

TEST(DeviceAlongAxis, IndicesOutsideEndTheDevice) {
  const auto put = [](Arguments in) { return std::vector<Tensor>{put_add_along_axis(in[0], in[1], 2, 0)}; };
  const auto take = [](Arguments in) { return std::vector<Tensor>{take_along_axis(in[0], in[1], 0)}; };
  for (const int64_t count : {3, 30})
    EXPECT_ERROR(results_of(put, {ones({count}), full({count}, 2, DType::kI64)}, kProcessors),
                 ErrorCode::kDeviceLost, "put_add_along_axis: index 2 is outside [0, 2)");
  EXPECT_ERROR(results_of(take, {ones({3}), full({2}, -1, DType::kI32)}, kProcessors), ErrorCode::kDeviceLost,
               "take_along_axis: index -1 is outside [0, 3)");
}

TEST(DeviceTriangle, TakesEveryDtype) {
  const auto triangles = [](Arguments in) {
    return std::vector<Tensor>{tril(in[0], 1), triu(in[0], -1), tril(in[0], INT64_MAX),
                               triu(in[0], INT64_MIN)};
  };
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI32, DType::kBool})
    expect_the_cpus_bits(triangles, {waves({2, 3, 70, 41}, 0.3, dtype)});
  expect_the_cpus_bits(triangles, {waves({2, 0, 4}, 0.3)});
}

TEST(DeviceEmbeddingBag, BagsMayBeLongEmptyAndPadded) {
  const Tensor indices = scattered({3000}, 40), table = waves({40, 70}, 0.3);
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    const auto bags = [&](Arguments in) {
      return std::vector<Tensor>{embedding_bag(in[0], in[1], in[2], {.mode = mode, .padding_idx = 7})};
    };
    const Tensor offsets = from_vector({5}, {0, 0, 2500, 2500, 2999}, DType::kI32);
    expect_the_cpus_bits(bags, {table, indices, offsets});
    expect_the_cpus_bits(bags, {waves({40, 70}, 0.3, DType::kBF16), indices, offsets});
    expect_the_cpus_bits(bags, {table, zeros({0}, DType::kI64), zeros({2}, DType::kI64)});
    expect_the_cpus_bits(bags, {zeros({40, 0}), indices, offsets});
  }
}

TEST(DeviceEmbeddingBag, TheLargestIsTheFirstOfEqualsAndTheFirstNan) {
  const Tensor table = from_vector({4, 2}, {1, NAN, 1, 3, 0, NAN, 2, -INFINITY});
  const auto bags = [](Arguments in) {
    static const graph::OpDef& op = ops::row("embedding_bag");
    return graph::apply(op, in,
                        {{"mode", static_cast<int64_t>(BagMode::kMax)},
                         {"padding", int64_t{-1}},
                         {"sparse", false},
                         {"cut", false},
                         {"weighted", false},
                         {"last_offset", false}});
  };
  expect_the_cpus_bits(bags, {table, from_vector({3, 3}, {1, 0, 2, 3, 3, 3, 0, 1, 2}, DType::kI64)});
}

TEST(DeviceEmbeddingBag, OffsetsThatDontAscendFrom0EndTheDevice) {
  const Tensor table = ones({4, 2}), indices = zeros({6}, DType::kI64);
  const auto bags_of = [&](const Numbers& offsets, bool closed) {
    const auto bags = [&](Arguments in) {
      return std::vector<Tensor>{embedding_bag(in[0], in[1], in[2], {.include_last_offset = closed})};
    };
    results_of(bags,
               {table, indices, from_vector({static_cast<int64_t>(offsets.size())}, offsets, DType::kI64)},
               kProcessors);
  };
  bags_of({0, 2, 6}, true);
  EXPECT_ERROR(bags_of({1, 2}, false), ErrorCode::kDeviceLost, "embedding_bag's offset: index 1");
  EXPECT_ERROR(bags_of({0, 7}, false), ErrorCode::kDeviceLost, "embedding_bag's offset: index 7");
  EXPECT_ERROR(bags_of({0, 4, 3}, false), ErrorCode::kDeviceLost, "embedding_bag's offset: index 4");
  EXPECT_ERROR(bags_of({0, 2, 5}, true), ErrorCode::kDeviceLost, "indices behind the last offset");
}

}  // namespace
}  // namespace isochron
