// Layers that look up vectors: padding, bags, and refused calls.
#include "isochron/nn/layers/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

using Numbers = std::vector<double>;

/// Row r of a table of width 2 is (r, 10 r).
Initializer rising() {
  return [](const Shape& shape, Rng&) {
    Numbers values;
    for (int64_t r = 0; r < shape[0]; ++r) {
      values.push_back(static_cast<double>(r));
      values.push_back(10.0 * static_cast<double>(r));
    }
    return values;
  };
}
Tensor integers(const Shape& shape, const Numbers& values) { return from_vector(shape, values, DType::kI64); }

TEST(Embedding, AnIndexOutOfRangeNamesTheLayerAlsoAtReplay) {
  struct Model : Module {
    Tensor forward(const Tensor& x) override { return words(x) * 2.0; }
    void members(Members& list) override { list("words", words); }
    Embedding words{5, 2};
  };
  Model model;
  const std::string expected = "[words/gather] index 7";
  EXPECT_ERROR(model(integers({2}, {1, 7})), ErrorCode::kOutOfRange, expected);
  PoolAllocator pool;
  for (Allocator* allocator : {static_cast<Allocator*>(nullptr), static_cast<Allocator*>(&pool)}) {
    CaptureOptions options;
    options.plan.allocator = allocator;
    auto step = capture([&](const Tensor& x) { return model(x); }, options);
    step(integers({2}, {1, 2}));
    EXPECT_ERROR(step(integers({2}, {1, 7})), ErrorCode::kOutOfRange, expected);
  }
}

TEST(Embedding, ThePaddingsRowOfALargeTableBeginsAsZeros) {
  constexpr int64_t kRows = 5000, kPadding = 4321;  // drawn in several pieces
  Embedding layer(kRows, 4, {.initializer = init::uniform(1, 2), .padding_idx = kPadding});
  layer(integers({1}, {0}));
  const Numbers table = layer.table().tensor().to_vector();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < 4; ++i)
      ASSERT_EQ(table[static_cast<size_t>(4 * row + i)] == 0, row == kPadding) << row;
  }
}

TEST(Embedding, ThePaddingsRowBeginsAsZerosAndGetsNoGradient) {
  for (const int64_t padding : {2, -3}) {
    Embedding layer(5, 2, {.initializer = rising(), .padding_idx = padding});
    GradientTape tape;
    const Tensor y = layer(integers({4}, {1, 2, 2, 4}));
    EXPECT_EQ(y.to_vector(), (Numbers{1, 10, 0, 0, 0, 0, 4, 40}));
    EXPECT_EQ(tape.gradient(sum(y * 3.0), layer.table()).to_vector(),
              (Numbers{0, 0, 3, 3, 0, 0, 0, 0, 3, 3}));
  }
  EXPECT_ERROR(Embedding(5, 2, {.padding_idx = 5}), ErrorCode::kOutOfRange,
               "padding_idx 5 is not one of the 5 rows");
  EXPECT_ERROR(embedding(ones({5, 2}), integers({1}, {0}), {.padding_idx = -6}), ErrorCode::kOutOfRange,
               "padding_idx -6");
}

TEST(EmbeddingBag, ReducesRowsAndLeavesPaddingOut) {
  const Tensor x = integers({3, 3}, {1, 4, 0, 3, 0, 0, 0, 0, 0});
  const auto result = [&](BagMode mode) {
    EmbeddingBag layer(5, 2, {.mode = mode, .initializer = rising(), .padding_idx = 0});
    return layer(x).to_vector();
  };
  EXPECT_EQ(result(BagMode::kSum), (Numbers{5, 50, 3, 30, 0, 0}));
  EXPECT_EQ(result(BagMode::kMean), (Numbers{2.5, 25, 3, 30, 0, 0}));
  EXPECT_EQ(result(BagMode::kMax), (Numbers{4, 40, 3, 30, 0, 0}));
}

TEST(EmbeddingBag, CutsAtOffsetsAndWeighs) {
  EmbeddingBag layer(5, 2, {.mode = BagMode::kSum, .initializer = rising()});
  const Tensor x = integers({4}, {1, 2, 3, 4});
  EXPECT_EQ(layer(x, integers({3}, {0, 3, 3})).to_vector(), (Numbers{6, 60, 0, 0, 4, 40}));
  const Tensor weights = from_vector({4}, {1, 0.5, 2, -1});
  EXPECT_EQ(layer(x, integers({2}, {0, 2}), weights).to_vector(), (Numbers{2, 20, 2, 20}));
  EXPECT_EQ(layer(integers({1, 2}, {2, 4}), Tensor(), from_vector({1, 2}, {3, 0.5})).to_vector(),
            (Numbers{8, 80}));
  EmbeddingBag ends(5, 2, {.mode = BagMode::kMax, .initializer = rising(), .include_last_offset = true});
  EXPECT_EQ(ends(x, integers({3}, {0, 1, 4})).to_vector(), (Numbers{1, 10, 4, 40}));
}

TEST(EmbeddingBag, TheLargestIsTheFirstOfEqualsAndNan) {
  const Tensor table = from_vector({3, 1}, {7, NAN, 7});
  const BagOptions largest{.mode = BagMode::kMax};
  GradientTape tape;
  const Tensor source = from_vector({2, 1}, {7, 7});
  const Tensor y = embedding_bag(source, integers({1, 2}, {1, 0}), largest);
  EXPECT_EQ(tape.gradient(y, source).to_vector(), (Numbers{0, 1}));
  EXPECT_TRUE(std::isnan(embedding_bag(table, integers({1, 3}, {0, 1, 2}), largest).to_vector()[0]));
}

TEST(EmbeddingBag, RefusesWhatItCantDo) {
  EmbeddingBag layer(5, 2);
  const Tensor x = integers({4}, {1, 2, 3, 4});
  EXPECT_ERROR(layer(x), ErrorCode::kShapeMismatch, "must have 2 axes");
  EXPECT_ERROR(layer(x, integers({2}, {0, 5})), ErrorCode::kOutOfRange, "offset 5 at position 1");
  EXPECT_ERROR(layer(x, integers({2}, {1, 3})), ErrorCode::kOutOfRange, "offset 1 at position 0");
  EXPECT_ERROR(layer(x, integers({3}, {0, 3, 2})), ErrorCode::kOutOfRange, "offset 2 at position 2");
  EXPECT_ERROR(layer(integers({1}, {5}), integers({1}, {0})), ErrorCode::kOutOfRange, "index 5");
  EXPECT_ERROR(layer(integers({1, 2}, {2, 4}), Tensor(), ones({1, 2})), ErrorCode::kInvalidArgument,
               "only a sum takes weights");
  EXPECT_ERROR(EmbeddingBag(5, 2, {.mode = BagMode::kMax, .sparse = true}), ErrorCode::kInvalidArgument,
               "dense");
  EmbeddingBag ends(5, 2, {.include_last_offset = true});
  EXPECT_ERROR(ends(x, integers({3}, {0, 1, 3})), ErrorCode::kOutOfRange, "the last offset is 3");
}

TEST(EmbeddingBag, CountsIn16BitsWhatTheyDontHold) {
  struct Case {
    DType dtype;
    int64_t indices;
    double seed;
  };
  for (const Case& test : {Case{DType::kF16, 70'000, 1024}, Case{DType::kBF16, 257, 1}}) {
    std::vector<double> rows(static_cast<size_t>(test.indices));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i % 2);
    const Tensor table = ones({2, 1}, test.dtype),
                 indices = from_vector({1, test.indices}, rows, DType::kI64);
    GradientTape tape(true);
    tape.watch(table);
    const Tensor loss = sum(embedding_bag(table, indices, {.mode = BagMode::kMean}) * test.seed);
    const std::vector<double> gradient = cast(tape.gradient(loss, table), DType::kF64).to_vector();
    const double expected =
        test.seed * std::ceil(static_cast<double>(test.indices) / 2) / static_cast<double>(test.indices);
    EXPECT_NEAR(gradient[0], expected, 0.01 * expected) << dtype_name(test.dtype);
  }
}

}  // namespace
}  // namespace isochron::nn
