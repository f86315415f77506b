// Subsets, folds, and rows drawn by weight.
#include "isochron/data/stages/chosen_rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<double>;

TupleDataset<2> pairs(int64_t rows) {
  return from_tensor_slices(cast(arange(rows), DType::kF32), cast(arange(rows) * 10.0, DType::kF32));
}

Numbers drawn_in_epoch(TupleDataset<2>& dataset) {
  Numbers numbers;
  for (const auto& [x, y] : dataset) {
    const Numbers values = x.to_vector(), tens = y.to_vector();
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(tens[i], 10 * values[i]);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

TEST(Subset, HasTheRowsInTheirOrder) {
  TupleDataset<2> some = subset(pairs(10), {7, 0, 7, 3});
  EXPECT_EQ(some.size(), 4);
  EXPECT_THAT(drawn_in_epoch(some), ElementsAre(7, 0, 7, 3));
  TupleDataset<2> batches = subset(some, {3, 1}).batch(2);
  EXPECT_THAT(drawn_in_epoch(batches), ElementsAre(3, 0));
  TupleDataset<2> shuffled = subset(pairs(100), {5, 6, 7, 8}).shuffle(4).batch(3).prefetch(2);
  Numbers all = drawn_in_epoch(shuffled);
  std::ranges::sort(all);
  EXPECT_THAT(all, ElementsAre(5, 6, 7, 8));
  EXPECT_ERROR(subset(pairs(10), {}), ErrorCode::kInvalidArgument, "no row is chosen");
  EXPECT_ERROR(subset(pairs(10), {0, 10}), ErrorCode::kOutOfRange, "row 10 lies outside [0, 10)");
  EXPECT_ERROR(subset(pairs(10), {-1}), ErrorCode::kOutOfRange, "row -1");
  EXPECT_ERROR(subset(pairs(10).shuffle(10), {0}), ErrorCode::kUnsupported, "call subset before shuffle");
}

TEST(Subset, MapsBeforeItSeeItsRows) {
  TupleDataset<2> mapped = subset(
      pairs(10).map([](const Tensor& x, const Tensor& y) { return std::tuple(x + 1.0, y + 10.0); }), {4, 2});
  EXPECT_THAT(drawn_in_epoch(mapped), ElementsAre(5, 3));
}

TEST(SampledRows, HaveTheSharesOfTheirWeights) {
  const Numbers weights{0, 1, 0, 6, 3, 0};
  TupleDataset<2> drawn = sample_rows(pairs(6), weights, 20000, 5);
  const Numbers first = drawn_in_epoch(drawn), second = drawn_in_epoch(drawn);
  EXPECT_EQ(first.size(), 20000U);
  EXPECT_NE(first, second) << "each epoch is drawn anew";
  for (size_t row = 0; row < weights.size(); ++row) {
    const double share = static_cast<double>(std::ranges::count(first, static_cast<double>(row))) / 20000;
    EXPECT_NEAR(share, weights[row] / 10, weights[row] == 0 ? 0 : 0.02) << row;
  }
  TupleDataset<2> again = sample_rows(pairs(6), weights, 20000, 5);
  EXPECT_EQ(drawn_in_epoch(again), first);
  TupleDataset<2> other = sample_rows(pairs(6), weights, 20000, 6);
  EXPECT_NE(drawn_in_epoch(other), first);
}

TEST(SampledRows, ContinueWhereTheyWere) {
  TupleDataset<2> whole = sample_rows(pairs(6), {1, 2, 3, 4, 5, 6}, 50).batch(4);
  static_cast<void>(drawn_in_epoch(whole));
  const Numbers second = drawn_in_epoch(whole);
  TupleDataset<2> stopped = sample_rows(pairs(6), {1, 2, 3, 4, 5, 6}, 50).batch(4);
  static_cast<void>(drawn_in_epoch(stopped));
  auto at = stopped.begin();
  ++at;
  const std::string state = stopped.state();
  TupleDataset<2> resumed = sample_rows(pairs(6), {1, 2, 3, 4, 5, 6}, 50).batch(4);
  Numbers rest;
  for (auto next = resumed.resume(state); next != resumed.end(); ++next) {
    for (const double x : (*next)[0].to_vector()) rest.push_back(x);
  }
  EXPECT_EQ(rest, Numbers(second.begin() + 8, second.end()));
  TupleDataset<2> otherwise = sample_rows(pairs(6), {1, 2, 3, 4, 5, 7}, 50).batch(4);
  EXPECT_ERROR(otherwise.resume(state), ErrorCode::kBadFormat, "same chain of calls");
}

TEST(SampledRows, RefuseWeightsThatAreNone) {
  EXPECT_ERROR(sample_rows(pairs(3), {1, 2}, 4), ErrorCode::kInvalidArgument, "2 weights for 3 rows");
  EXPECT_ERROR(sample_rows(pairs(3), {1, -2, 1}, 4), ErrorCode::kInvalidArgument, "got -2");
  EXPECT_ERROR(sample_rows(pairs(3), {0, 0, 0}, 4), ErrorCode::kInvalidArgument,
               "the sum of the weights is 0");
  EXPECT_ERROR(sample_rows(pairs(3), {1, NAN, 0}, 4), ErrorCode::kInvalidArgument, "got nan");
  EXPECT_ERROR(sample_rows(pairs(3), {1, 1, 1}, 0), ErrorCode::kInvalidArgument, "the count must be >= 1");
}

TEST(Folds, ValidateOnEachRowOnce) {
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(3)}) {
    const std::vector<Fold> folds = k_folds(11, 3, seed);
    std::vector<int64_t> validated;
    for (const Fold& fold : folds) {
      EXPECT_EQ(fold.train.size() + fold.validation.size(), 11U);
      EXPECT_GE(fold.validation.size(), 3U);
      EXPECT_TRUE(std::ranges::is_sorted(fold.train));
      for (const int64_t row : fold.validation) {
        EXPECT_FALSE(std::ranges::binary_search(fold.train, row));
        validated.push_back(row);
      }
    }
    EXPECT_EQ(std::ranges::is_sorted(validated), !seed.has_value());
    std::ranges::sort(validated);
    for (size_t i = 0; i < 11; ++i) EXPECT_EQ(validated[i], static_cast<int64_t>(i));
  }
  EXPECT_ERROR(k_folds(3, 4), ErrorCode::kInvalidArgument, "expected 2 to 3 folds of 3 rows, got 4");
  EXPECT_ERROR(k_folds(3, 1), ErrorCode::kInvalidArgument, "got 1");
}

}  // namespace
}  // namespace isochron::data
