#include "isochron/data/pipeline/dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

/// f32 (rows, width): row r holds r, r + 0.25, r + 0.5, ...
Tensor features(int64_t rows, int64_t width = 3) {
  const Tensor tensor = empty({DType::kF32, {rows, width}});
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i / width) + 0.25f * static_cast<float>(i % width);
  }
  return tensor;
}

/// i64 (rows): 0, 1, 2, ...
Tensor labels(int64_t rows) {
  const Tensor tensor = empty({DType::kI64, {rows}});
  std::iota(tensor.data<int64_t>(), tensor.data<int64_t>() + rows, 0);
  return tensor;
}

/// The row numbers of one epoch in order, read from the second tensor, one list per batch.
template <typename Batches>
std::vector<std::vector<double>> epoch_values(Batches& batches) {
  std::vector<std::vector<double>> result;
  for (auto& [x, y] : batches) {
    result.push_back(y.to_vector());
    const auto values = x.to_vector();
    for (size_t i = 0; i < result.back().size(); ++i) {
      EXPECT_EQ(values[i * values.size() / result.back().size()], result.back()[i]) << "rows stay together";
    }
  }
  return result;
}

std::vector<double> flat(const std::vector<std::vector<double>>& lists) {
  std::vector<double> result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

std::vector<double> count_to(int64_t n) {
  std::vector<double> result(static_cast<size_t>(n));
  std::iota(result.begin(), result.end(), 0.0);
  return result;
}

std::vector<double> sorted(std::vector<double> values) {
  std::ranges::sort(values);
  return values;
}

TEST(Dataset, BatchesRowsInOrderAndEndsWithThePartialOne) {
  auto batches = from_tensor_slices(features(10), labels(10)).batch(4);
  EXPECT_EQ(batches.size(), 3);
  EXPECT_THAT(epoch_values(batches),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
  EXPECT_THAT(batches.elements().names(), ElementsAre("0", "1"));
  const auto signatures = batches.signatures();
  ASSERT_EQ(signatures.size(), 2u);
  EXPECT_THAT(signatures[0], ElementsAre(TensorSpec{DType::kF32, {4, 3}}, TensorSpec{DType::kI64, {4}}));
  EXPECT_THAT(signatures[1], ElementsAre(TensorSpec{DType::kF32, {2, 3}}, TensorSpec{DType::kI64, {2}}));
}

TEST(Dataset, DropsTheRemainderWhenAsked) {
  auto batches = from_tensor_slices(features(10), labels(10)).batch(4, {.drop_remainder = true});
  EXPECT_EQ(batches.size(), 2);
  EXPECT_EQ(batches.signatures().size(), 1u);
  EXPECT_THAT(epoch_values(batches), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(Dataset, ABatchLargerThanTheDatasetHoldsAllOfIt) {
  auto batches = from_tensor_slices(features(3), labels(3)).batch(32);
  EXPECT_EQ(batches.signatures(), (std::vector<Signature>{{{DType::kF32, {3, 3}}, {DType::kI64, {3}}}}));
  EXPECT_THAT(epoch_values(batches), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(Dataset, WithoutBatchYieldsRows) {
  auto rows = from_tensor_slices(features(3), labels(3));
  std::vector<double> seen;
  for (auto& [x, y] : rows) {
    EXPECT_EQ(x.shape(), (Shape{3}));
    EXPECT_EQ(y.shape(), Shape{});
    EXPECT_EQ(x.data<float>()[2], y.item<float>() + 0.5f);
    seen.push_back(y.item<double>());
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(Dataset, NamedElementsAreFoundByName) {
  auto batches = from_tensor_slices({{"images", features(6)}, {"labels", labels(6)}}).batch(2);
  int count = 0;
  for (auto& batch : batches) {
    EXPECT_EQ(batch["labels"].to_vector()[0], 2.0 * count++);
    EXPECT_EQ(batch["images"].shape(), (Shape{2, 3}));
    EXPECT_ERROR(batch["label"], ErrorCode::kInvalidArgument,
                 "has no tensor 'label'; its names are 'images', 'labels'");
    EXPECT_ERROR(batch[2], ErrorCode::kOutOfRange, "position 2");
  }
  EXPECT_EQ(count, 3);
  EXPECT_ERROR(from_tensor_slices({{"a", labels(2)}, {"a", labels(2)}}), ErrorCode::kInvalidArgument,
               "twice");
}

TEST(Dataset, OneThatWasMovedFromStaysTheDatasetThatItWas) {
  auto batches = from_tensor_slices(features(4), labels(4)).batch(2);
  auto there = std::move(batches);
  EXPECT_THAT(epoch_values(there), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(epoch_values(batches), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(Shuffle, DependsOnTheSeedAndTheEpochAlone) {
  const auto shuffled = [](uint64_t seed) {
    return from_tensor_slices(features(100), labels(100)).shuffle(100, {.seed = seed}).batch(7);
  };
  auto a = shuffled(1), b = shuffled(1), c = shuffled(2);
  const auto first = epoch_values(a), second = epoch_values(a);
  EXPECT_EQ(first, epoch_values(b));
  EXPECT_EQ(second, epoch_values(b));
  EXPECT_NE(first, second) << "another order in each epoch";
  EXPECT_NE(first, epoch_values(c));
  auto copy = a;
  EXPECT_EQ(first, epoch_values(copy)) << "a copy begins at epoch 0";
}

TEST(Dataset, BeginsTheEpochThatIsSet) {
  const auto shuffled = [] {
    return from_tensor_slices(features(100), labels(100)).shuffle(100, {.seed = 1}).batch(7).prefetch();
  };
  auto a = shuffled(), b = shuffled();
  const auto first = epoch_values(a), second = epoch_values(a), third = epoch_values(a);
  b.set_epoch(1);
  EXPECT_EQ(epoch_values(b), second);
  EXPECT_EQ(epoch_values(b), third) << "those after it go on from there";
  b.set_epoch(0);
  EXPECT_EQ(epoch_values(b), first);
  const std::string end = b.state();
  b.set_epoch(2);
  EXPECT_EQ(b.resume(end), b.end());
  EXPECT_EQ(epoch_values(b), second) << "a state that is resumed says where it stands";
  b.set_epoch(2);
  b = shuffled();
  EXPECT_EQ(epoch_values(b), first) << "another dataset, which begins at its own";
  auto c = shuffled();
  c.set_epoch(1);
  b = std::move(c);
  EXPECT_EQ(epoch_values(b), second);
}

TEST(Shuffle, YieldsEveryRowOnceWhateverTheBuffer) {
  for (int64_t buffer : {1, 2, 7, 99, 100, 1000}) {
    auto batches = from_tensor_slices(features(100), labels(100)).shuffle(buffer).batch(8);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto order = flat(epoch_values(batches));
      EXPECT_EQ(sorted(order), count_to(100)) << "buffer " << buffer;
      EXPECT_EQ(order == count_to(100), buffer == 1) << "buffer " << buffer;
      for (size_t i = 0; i < order.size(); ++i)
        EXPECT_LT(order[i], static_cast<double>(i) + static_cast<double>(buffer));
    }
  }
}

TEST(Shuffle, EveryPlaceIsEquallyLikely) {
  constexpr int kRows = 5, kEpochs = 4000;
  auto rows = from_tensor_slices(labels(kRows)).shuffle(kRows);
  std::vector<int> counts(kRows * kRows);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    size_t place = 0;
    for (auto& [y] : rows) ++counts[place++ * kRows + static_cast<size_t>(y.item<int>())];
  }
  double chi_squared = 0;
  const double expected = static_cast<double>(kEpochs) / kRows;
  for (int n : counts) chi_squared += (n - expected) * (n - expected) / expected;
  EXPECT_LT(chi_squared, 43.0) << "16 degrees of freedom at about p = 3e-4";
}

TEST(Shuffle, KeepsItsOrderWhenNotReshuffled) {
  auto batches =
      from_tensor_slices(features(50), labels(50)).shuffle(50, {.seed = 3, .reshuffle = false}).batch(50);
  const auto first = epoch_values(batches);
  EXPECT_EQ(first, epoch_values(batches));
  EXPECT_NE(flat(first), count_to(50));
}

TEST(Shuffle, OfBatchesMovesWholeBatches) {
  auto batches = from_tensor_slices(features(10), labels(10)).batch(4).shuffle(3, {.seed = 1});
  const std::set<std::vector<double>> expected{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}};
  std::set<size_t> places_of_partial;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const auto order = epoch_values(batches);
    EXPECT_EQ(std::set(order.begin(), order.end()), expected);
    places_of_partial.insert(
        static_cast<size_t>(std::ranges::find(order, std::vector<double>{8, 9}) - order.begin()));
  }
  EXPECT_EQ(places_of_partial.size(), 3u);
}

TEST(Repeat, ShufflesEachPassAnewAndBatchesAcrossPasses) {
  auto batches = from_tensor_slices(features(5), labels(5)).shuffle(5, {.seed = 4}).repeat(4).batch(6);
  EXPECT_EQ(batches.size(), 4);
  const auto order = flat(epoch_values(batches));
  std::set<std::vector<double>> passes;
  for (size_t pass = 0; pass < 4; ++pass) {
    const std::vector<double> part(order.begin() + static_cast<ptrdiff_t>(pass * 5),
                                   order.begin() + static_cast<ptrdiff_t>(pass * 5 + 5));
    EXPECT_EQ(sorted(part), count_to(5));
    passes.insert(part);
  }
  EXPECT_GT(passes.size(), 1u);
  EXPECT_NE(order, flat(epoch_values(batches)));
}

TEST(Repeat, WithoutEndGoesOnUntilTheLoopStops) {
  auto batches = from_tensor_slices(features(3), labels(3)).repeat().batch(2).prefetch(2);
  EXPECT_EQ(batches.size(), kInfinite);
  EXPECT_EQ(batches.signatures().size(), 1u) << "no partial batch ever";
  std::vector<double> seen;
  for (auto& [x, y] : batches) {
    for (double value : y.to_vector()) seen.push_back(value);
    if (seen.size() == 12) break;
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2));
}

TEST(TakeAndSkip, CutTheOrder) {
  auto rows = from_tensor_slices(features(10), labels(10));
  auto middle = rows.skip(2).take(5).batch(2);
  EXPECT_EQ(middle.size(), 3);
  EXPECT_THAT(flat(epoch_values(middle)), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(flat(epoch_values(middle)), ElementsAre(2, 3, 4, 5, 6)) << "in every epoch";
  auto whole = rows.batch(4).take(2);
  EXPECT_EQ(whole.signatures().size(), 1u) << "the partial batch is cut off";
  EXPECT_EQ(flat(epoch_values(whole)).size(), 8u);
  EXPECT_EQ(rows.batch(4).skip(2).signatures().size(), 2u);
  auto more = rows.take(99);
  EXPECT_EQ(more.size(), 10);
}

TEST(Batch, OfBatchesStacksTwice) {
  auto nested = from_tensor_slices(features(13), labels(13)).batch(2, {.drop_remainder = true}).batch(4);
  EXPECT_EQ(nested.signatures()[0][0], (TensorSpec{DType::kF32, {4, 2, 3}}));
  EXPECT_EQ(nested.signatures()[1][0], (TensorSpec{DType::kF32, {2, 2, 3}}));
  EXPECT_THAT(flat(epoch_values(nested)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

Tensor scaled(const Tensor& x, float factor) {
  const Tensor result = empty(x.spec());
  for (int64_t i = 0; i < x.elems(); ++i) result.data<float>()[i] = x.data<float>()[i] * factor;
  return result;
}

TEST(Map, OverRowsAndOverBatchesGivesTheSame) {
  const auto twice = [](const Tensor& x, const Tensor& y) { return std::array{y, scaled(x, 2)}; };
  auto by_row = from_tensor_slices(features(10), labels(10)).map(twice).shuffle(10).batch(4);
  auto by_batch = from_tensor_slices(features(10), labels(10)).shuffle(10).batch(4).map(twice);
  auto a = by_row.begin(), b = by_batch.begin();
  for (; a != by_row.end(); ++a, ++b) {
    ASSERT_NE(b, by_batch.end());
    const auto& [y, x] = *a;
    EXPECT_EQ(y.dtype(), DType::kI64);
    EXPECT_EQ(y.to_vector(), (*b)[0].to_vector());
    EXPECT_EQ(x.to_vector(), (*b)[1].to_vector());
    EXPECT_EQ(x.to_vector()[0], 2 * y.to_vector()[0]);
  }
  EXPECT_EQ(b, by_batch.end());
  EXPECT_EQ(by_row.signatures(), by_batch.signatures());
}

TEST(Map, NamedElementsMayChangeNamesAndNumber) {
  auto batches = from_tensor_slices({{"x", features(6)}, {"y", labels(6)}})
                     .map([](Element element) {
                       element.add("half", scaled(element["x"], 0.5f));
                       return element;
                     })
                     .map([](Element element) {
                       return Element{{"out", element["half"]}};
                     })
                     .batch(3);
  std::vector<double> first;
  for (auto& batch : batches) {
    EXPECT_EQ(batch.size(), 1);
    first.push_back(batch["out"].to_vector()[0]);
  }
  EXPECT_THAT(first, ElementsAre(0, 1.5));
}

TEST(Map, ToOneTensorIsAOneTuple) {
  auto rows =
      from_tensor_slices(features(2), labels(2)).map([](const Tensor& x, const Tensor&) { return x; });
  for (auto& [x] : rows) EXPECT_EQ(x.elems(), 3);
}

TEST(Map, ThatChangesItsSignatureNamesStageAndBoth) {
  auto rows = from_tensor_slices({{"x", features(6)}, {"y", labels(6)}}).skip(1).map([](Element element) {
    if (element["y"].item<int>() != 4) return element;
    return Element{{"x", empty({DType::kF64, {3}})}, {"y", element["y"]}};
  });
  const auto consume = [](Dataset& dataset) {
    int count = 0;
    for ([[maybe_unused]] auto& element : dataset) ++count;
    return count;
  };
  EXPECT_ERROR(
      consume(rows), ErrorCode::kShapeMismatch,
      "[map (stage 3)] element 3 of epoch 0, row 4: expected x: f32(3), y: i64(), got x: f64(3), y: i64()");
  auto prefetched = rows.prefetch(3);
  EXPECT_ERROR(consume(prefetched), ErrorCode::kShapeMismatch, "element 3 of epoch 0, row 4");
  EXPECT_ERROR(consume(prefetched), ErrorCode::kShapeMismatch, "element 3 of epoch 1, row 4");
  EXPECT_EQ(rows.take(3).size(), 3);
}

TEST(Map, ThatFailsReachesTheConsumerWithStageAndPlace) {
  for (int64_t prefetch : {0, 1, 4}) {
    std::atomic<bool> armed{false};
    auto mapped = from_tensor_slices(features(10), labels(10)).map([&](const Tensor& x, const Tensor& y) {
      if (armed && y.item<int>() == 7) throw std::runtime_error("bad row");
      return std::array{x, y};
    });
    auto batches = prefetch == 0 ? mapped.batch(2) : mapped.batch(2).prefetch(prefetch);
    armed = true;
    std::vector<double> seen;
    const auto consume = [&] {
      for (auto& [x, y] : batches) seen.push_back(y.to_vector()[0]);
      return 0;
    };
    EXPECT_ERROR(consume(), ErrorCode::kInvalidArgument,
                 "[map (stage 2)] element 7 of epoch 0, row 7: bad row");
    EXPECT_THAT(seen, ElementsAre(0, 2, 4)) << "what came before is delivered";
    armed = false;
    seen.clear();
    consume();
    EXPECT_THAT(seen, ElementsAre(0, 2, 4, 6, 8)) << "the next epoch works again";
  }
}

TEST(Prefetch, AnErrorOfAnAbandonedEpochIsForgotten) {
  std::atomic<bool> armed{false}, thrown{false};
  auto batches = from_tensor_slices(labels(4))
                     .map([&](const Tensor& y) {
                       if (armed && y.item<int>() == 3) {
                         thrown = true;
                         throw std::runtime_error("bad row");
                       }
                       return y;
                     })
                     .prefetch(8);
  armed = true;
  auto at = batches.begin();
  while (!thrown) std::this_thread::yield();
  EXPECT_EQ((*at)[0].item<int>(), 0);
  armed = false;
  for (int epoch = 0; epoch < 20; ++epoch) {
    int rows = 0;
    for ([[maybe_unused]] auto& [y] : batches) ++rows;
    ASSERT_EQ(rows, 4);
  }
}

TEST(Map, MistakesAreFoundWhenItIsAdded) {
  const auto rows = from_tensor_slices({{"x", features(2)}});
  EXPECT_ERROR(rows.map(nullptr), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(rows.map([](Element e) {
    return Element{{"x", e["y"]}};
  }),
               ErrorCode::kInvalidArgument, "has no tensor 'y'");
  EXPECT_ERROR(rows.map([](const Element&) { return Element{}; }), ErrorCode::kInvalidArgument,
               "without tensors");
  EXPECT_ERROR(rows.map([](const Element&) {
    return Element{{"x", Tensor()}};
  }),
               ErrorCode::kInvalidArgument, "without content");
}

TEST(Prefetch, ChangesNothingButTheThread) {
  for (int64_t depth : {int64_t{1}, int64_t{2}, int64_t{5}, kAutotune}) {
    auto plain = from_tensor_slices(features(100), labels(100)).shuffle(30, {.seed = 9}).batch(8);
    auto ahead = plain.prefetch(depth);
    EXPECT_EQ(plain.signatures(), ahead.signatures());
    for (int epoch = 0; epoch < 20; ++epoch)
      ASSERT_EQ(epoch_values(plain), epoch_values(ahead)) << "depth " << depth;
  }
}

TEST(Prefetch, StoppingEarlyBeginsTheNextEpochWhole) {
  auto plain = from_tensor_slices(features(100), labels(100)).shuffle(100).batch(4);
  auto ahead = plain.prefetch(3);
  for (int stop_after = 0; stop_after < 12; ++stop_after) {
    auto a = plain.begin(), b = ahead.begin();
    for (int i = 0; i < stop_after; ++i, ++a, ++b) ASSERT_EQ((*a)[1].to_vector(), (*b)[1].to_vector());
  }
  EXPECT_EQ(epoch_values(plain), epoch_values(ahead));
}

TEST(Prefetch, ItsThreadLivesAcrossEpochsAndEndsWithTheDataset) {
  const int64_t before = counter_value(Counter::kThreads);
  {
    std::set<std::thread::id> threads;
    std::atomic<bool> all_flushed{true};
    auto batches = from_tensor_slices(features(20), labels(20))
                       .batch(4)
                       .map([&, maker = std::this_thread::get_id()](const Tensor& x, const Tensor& y) {
                         if (std::this_thread::get_id() != maker) {
                           threads.insert(std::this_thread::get_id());
                           all_flushed = all_flushed && subnormals_flushed();
                         }
                         return std::array{x, y};
                       })
                       .prefetch(2);
    EXPECT_EQ(counter_value(Counter::kThreads), before) << "no thread before the first loop";
    for (int epoch = 0; epoch < 5; ++epoch) epoch_values(batches);
    EXPECT_EQ(counter_value(Counter::kThreads), before + 1);
    {
      auto joined = std::move(batches);  // ends the thread before its set of threads is read
    }
    EXPECT_EQ(threads.size(), 1u);
    EXPECT_TRUE(all_flushed);
  }
  EXPECT_EQ(counter_value(Counter::kThreads), before);
}

TEST(Prefetch, DestroyedInAnyStateJoins) {
  const int64_t before = counter_value(Counter::kThreads);
  for (int consumed = 0; consumed < 8; ++consumed) {
    auto batches = from_tensor_slices(features(20), labels(20)).batch(4).repeat().prefetch(2);
    auto at = batches.begin();
    for (int i = 0; i < consumed; ++i) ++at;
  }
  EXPECT_EQ(counter_value(Counter::kThreads), before);
}

TEST(Prefetch, ABatchStaysWhileItIsHeld) {
  auto batches = from_tensor_slices(features(64), labels(64)).batch(1).repeat(50).prefetch(1);
  double row = 0;
  for (auto& [x, y] : batches) {
    for (int look = 0; look < 3; ++look) {
      ASSERT_EQ(y.to_vector()[0], row);
      std::this_thread::yield();  // lets the producer run as far ahead as it may
    }
    row = row == 63 ? 0 : row + 1;
  }
}

TEST(Batch, IsStaleOnceTheNextIsAskedFor) {
  const auto check = [](auto batches, const char* owner) {
    auto at = batches.begin();
    const Tensor kept = (*at)[0];
    EXPECT_NO_THROW(kept.raw());
    ++at;
    EXPECT_ERROR(kept.raw(), ErrorCode::kStale, owner);
    const Tensor last = (*at)[0];
    EXPECT_NO_THROW(last.raw());
    ++at;
    EXPECT_EQ(at, batches.end());
    EXPECT_ERROR(last.raw(), ErrorCode::kStale, owner);
  };
  check(from_tensor_slices(features(6)).batch(4), "the next element of its dataset");
  check(from_tensor_slices(features(6)).batch(4).prefetch(2), "the next element of its dataset");
  check(from_tensor_slices(features(2)), "the next element of its dataset");
}

TEST(Batch, OutlivesItsDatasetWhenHeld) {
  Tensor kept;
  {
    auto batches = from_tensor_slices(labels(4)).batch(4).prefetch();
    kept = (*batches.begin())[0];
  }
  EXPECT_THAT(kept.to_vector(), ElementsAre(0, 1, 2, 3));
}

TEST(Batch, IsTakenApartFromAnIteratorThatIsGone) {
  auto batches = from_tensor_slices(features(4), labels(4)).batch(2);
  const auto& [x, y] = *batches.begin();
  EXPECT_THAT(y.to_vector(), ElementsAre(0, 1));
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
}

TEST(Dataset, AnIteratorOfAnAbandonedEpochIsStale) {
  auto batches = from_tensor_slices(labels(6)).batch(2);
  auto old = batches.begin();
  auto fresh = batches.begin();
  EXPECT_ERROR(++old, ErrorCode::kStale,
               "this loop is over epoch 0, but another loop, over epoch 1, has begun since");
  EXPECT_NO_THROW(++fresh);
}

TEST(Dataset, ASourceThatWasReplacedIsStale) {
  const Tensor source = labels(4);
  auto batches = from_tensor_slices(source).batch(2);
  source.storage()->next_generation();
  EXPECT_ERROR(batches.begin(), ErrorCode::kStale, "i64(4)");
}

TEST(Dataset, WrongCallsAreTypedErrors) {
  const auto rows = from_tensor_slices(features(10), labels(10));
  EXPECT_ERROR(from_tensor_slices(features(10), labels(9)), ErrorCode::kShapeMismatch,
               "'0' has 10 rows, '1' has 9; all tensors need the same first extent");
  EXPECT_ERROR(from_tensor_slices(empty({DType::kF32, {0, 3}})), ErrorCode::kInvalidArgument, "is empty");
  EXPECT_ERROR(from_tensor_slices(empty({DType::kF32, {}})), ErrorCode::kInvalidArgument, "scalar");
  EXPECT_ERROR(from_tensor_slices(Tensor()), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(Dataset(Element{}), ErrorCode::kInvalidArgument, "at least one tensor");
  float values[6] = {};
  EXPECT_ERROR(from_tensor_slices(Tensor::from_external(values, {DType::kF32, {3, 2}}, {1, 3})),
               ErrorCode::kInvalidArgument, "contiguous()");
  EXPECT_ERROR(rows.batch(0), ErrorCode::kInvalidArgument, "[batch] expected at least 1 element, got 0");
  EXPECT_ERROR(rows.batch(11, {.drop_remainder = true}), ErrorCode::kInvalidArgument, "nothing is left");
  EXPECT_ERROR(rows.batch(4).batch(2), ErrorCode::kInvalidArgument, "drop_remainder");
  EXPECT_ERROR(rows.repeat().batch(int64_t{1} << 62), ErrorCode::kOverflow, "does not fit");
  EXPECT_ERROR(rows.shuffle(0), ErrorCode::kInvalidArgument,
               "[shuffle] expected a buffer of at least 1 element");
  EXPECT_ERROR(rows.repeat().shuffle(int64_t{1} << 40), ErrorCode::kInvalidArgument, "exceeds the limit");
  EXPECT_ERROR(rows.repeat(0), ErrorCode::kInvalidArgument, "[repeat]");
  EXPECT_ERROR(rows.take(0), ErrorCode::kInvalidArgument, "[take]");
  EXPECT_ERROR(rows.skip(10), ErrorCode::kInvalidArgument, "10 of 10 elements are skipped");
  EXPECT_ERROR(rows.skip(-1), ErrorCode::kInvalidArgument, "[skip]");
  EXPECT_ERROR(rows.prefetch(0), ErrorCode::kInvalidArgument, "kAutotune");
  EXPECT_ERROR(rows.prefetch(1025), ErrorCode::kInvalidArgument, "[1, 1024]");
}

}  // namespace
}  // namespace isochron::data
