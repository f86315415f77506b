// The stages of the input pipeline that read elements: filter, interleave, unbatch, padded batches, caches,
// and datasets made of several.
#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/data/pipeline/permutation.h"
#include "isochron/data/pipeline/recipe.h"
#include "isochron/data/stages/buckets.h"
#include "isochron/data/stages/combine.h"
#include "isochron/data/stages/windows.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/reduction/reduction.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

TEST(Filter, KeepsWhatIsAskedForInOrder) {
  auto even = rows(10).filter([](const Element& e) { return value(e) % 2 == 0; });
  EXPECT_EQ(even.size(), kUnknown);
  EXPECT_THAT(numbers_of(even), ElementsAre(0, 2, 4, 6, 8));
  auto pairs = from_tensor_slices(numbers(6), numbers(6)).filter([](const Tensor& a, const Tensor&) {
    return a.item<int64_t>() > 3;
  });
  std::vector<double> seen;
  for (auto& [a, b] : pairs) seen.push_back(b.item<double>());
  EXPECT_THAT(seen, ElementsAre(4, 5));
}

TEST(Filter, ShufflesAndBatchesWhatIsLeft) {
  auto batches = rows(100)
                     .filter([](const Element& e) { return value(e) % 10 != 0; })
                     .shuffle(40, {.seed = 2})
                     .batch(8, {.drop_remainder = true})
                     .prefetch(2);
  std::set<double> seen;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto order = epoch_of(batches);
    EXPECT_EQ(order.size(), 11u);
    for (const auto& batch : order) {
      EXPECT_EQ(batch.size(), 8u);
      for (double x : batch) EXPECT_NE(static_cast<int>(x) % 10, 0);
      if (epoch == 0) seen.insert(batch.begin(), batch.end());
    }
  }
  EXPECT_EQ(seen.size(), 88u) << "nothing twice";
}

TEST(Filter, ThatThrowsReachesTheConsumer) {
  for (int64_t prefetch : {0, 2}) {
    std::atomic<bool> armed{true};
    Dataset filtered = rows(6).filter([&](const Element& e) {
      if (armed && value(e) == 3) throw std::runtime_error("bad row");
      return true;
    });
    if (prefetch > 0) filtered = filtered.prefetch(prefetch);
    EXPECT_ERROR(epoch_of(filtered), ErrorCode::kInvalidArgument,
                 "[filter (stage 2)] element 3 of epoch 0: bad row");
    armed = false;
    EXPECT_EQ(epoch_of(filtered).size(), 6u) << "the next epoch is whole";
  }
  EXPECT_ERROR(rows(3).filter(nullptr), ErrorCode::kInvalidArgument, "empty");
}

TEST(Batch, OfAnUnknownNumberMustSayWhatBecomesOfTheRemainder) {
  const auto some = rows(10).filter([](const Element& e) { return value(e) != 4; });
  EXPECT_ERROR(some.batch(4), ErrorCode::kInvalidArgument, "can't be planned");
  auto dropped = some.batch(4, {.drop_remainder = true});
  EXPECT_THAT(epoch_of(dropped), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(5, 6, 7, 8)));
  auto counted = some.cache().batch(4);
  EXPECT_EQ(counted.size(), 3);
  EXPECT_THAT(epoch_of(counted),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(5, 6, 7, 8), ElementsAre(9)));
}

TEST(Batch, FillsTheRemainderUpAndSaysSo) {
  for (bool stream : {false, true}) {
    Dataset source = rows(10);
    if (stream) source = source.filter([](const Element&) { return true; });
    auto padded = source.batch(4, {.pad_remainder = true});
    EXPECT_EQ(padded.signatures().size(), 1u) << "one plan will do";
    EXPECT_THAT(padded.names(), ElementsAre("x", "valid"));
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_THAT(epoch_of(padded),
                  ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9, 0, 0)));
      EXPECT_THAT(epoch_of(padded, 1),
                  ElementsAre(ElementsAre(1, 1, 1, 1), ElementsAre(1, 1, 1, 1), ElementsAre(1, 1, 0, 0)));
    }
  }
  EXPECT_ERROR(rows(4).batch(2, {.drop_remainder = true, .pad_remainder = true}), ErrorCode::kInvalidArgument,
               "either dropped or padded");
  EXPECT_ERROR(rows(4, "valid").batch(3, {.pad_remainder = true}), ErrorCode::kInvalidArgument,
               "'valid' already");
}

TEST(PaddedBatch, TakesPaddingThatTheDtypeHolds) {
  const Dataset bytes(Element{{"x", empty({DType::kU8, {4, 2}})}});
  for (const double wrong : {-1.0, 256.0, 2.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_ERROR(bytes.padded_batch(2, {.padding = {{"x", wrong}}}), ErrorCode::kInvalidArgument,
                 "can't represent the padding value");
  static_cast<void>(bytes.padded_batch(2, {.padding = {{"x", 255}}}));
}

TEST(Buckets, AreToldApartByTheirOptions) {
  const auto print = [](std::vector<int64_t> longest, double padding) {
    const Dataset batches = bucket_by_sequence_length(
        ragged(5), [](const Element& e) { return e[0].extent(0); },
        {.longest = std::move(longest), .batch_elems = {2}, .padding = {{"x", padding}}});
    return fingerprint(*batches.recipe());
  };
  EXPECT_EQ(print({2, 4}, 0), print({2, 4}, 0));
  EXPECT_NE(print({2, 4}, 0), print({3, 4}, 0));
  EXPECT_NE(print({2, 4}, 0), print({2, 4}, -1));
}

TEST(PaddedBatch, PadsToTheLargestOrToWhatIsAsked) {
  EXPECT_ERROR(ragged(5).batch(2, {.drop_remainder = true}), ErrorCode::kInvalidArgument, "use padded_batch");
  auto largest = ragged(5).padded_batch(2, {.drop_remainder = true, .padding = {{"x", -1}}});
  std::vector<Tensor> seen;
  std::vector<std::string> shapes;
  std::vector<std::vector<double>> contents;
  for (const Element& batch : largest) {
    shapes.push_back(batch["x"].shape().str());
    contents.push_back(batch["x"].to_vector());
  }
  EXPECT_THAT(shapes, ElementsAre("(2, 2)", "(2, 4)"));
  EXPECT_THAT(contents, ElementsAre(ElementsAre(1, -1, 1, 2), ElementsAre(1, 2, 3, -1, 1, 2, 3, 4)));
  auto fixed = ragged(3).padded_batch(2, {.pad_remainder = true, .shapes = {{"x", {4}}}});
  EXPECT_EQ(fixed.signatures(), (std::vector<Signature>{{{DType::kF32, {2, 4}}, {DType::kBool, {2}}}}));
  EXPECT_THAT(epoch_of(fixed),
              ElementsAre(ElementsAre(1, 0, 0, 0, 1, 2, 0, 0), ElementsAre(1, 2, 3, 0, 0, 0, 0, 0)));
  auto marked =
      ragged(3).padded_batch(2, {.pad_remainder = true, .shapes = {{"x", {4}}}, .padding = {{"x", -1}}});
  EXPECT_THAT(epoch_of(marked), ElementsAre(ElementsAre(1, -1, -1, -1, 1, 2, -1, -1),
                                            ElementsAre(1, 2, 3, -1, -1, -1, -1, -1)));
  auto small = ragged(3).padded_batch(2, {.drop_remainder = true, .shapes = {{"x", {1}}}});
  EXPECT_ERROR(epoch_of(small), ErrorCode::kShapeMismatch,
               "'x' is (2), which does not fit the padded shape (1)");
  EXPECT_ERROR(ragged(3).padded_batch(2, {.shapes = {{"y", {1}}}}), ErrorCode::kInvalidArgument,
               "can't be planned");
  EXPECT_ERROR(ragged(3).padded_batch(2, {.drop_remainder = true, .shapes = {{"y", {1}}}}),
               ErrorCode::kInvalidArgument, "has no tensor 'y'");
}

TEST(PaddedBatch, PadsEveryAxis) {
  const auto grown = [](Element element) {
    const int64_t n = element["x"].item<int64_t>() + 1;
    const Tensor result = empty({DType::kI32, {n, 2}});
    std::fill_n(result.data<int32_t>(), result.elems(), static_cast<int32_t>(n));
    return Element{{"x", result}};
  };
  auto batches = rows(2)
                     .map(grown, {.result = {spec_of(DType::kI32, {kAnyExtent, 2})}})
                     .padded_batch(2, {.shapes = {{"x", {3, 3}}}, .padding = {{"x", 9}}});
  EXPECT_THAT(epoch_of(batches),
              ElementsAre(ElementsAre(1, 1, 9, 9, 9, 9, 9, 9, 9, 2, 2, 9, 2, 2, 9, 9, 9, 9)));
}

TEST(BucketBySequenceLength, BatchesElementsOfLikeLength) {
  const auto length = [](const Element& element) { return element["x"].extent(0); };
  auto dropped = bucket_by_sequence_length(ragged(9), length, {.longest = {2, 5, 9}, .batch_elems = {2}});
  EXPECT_EQ(
      dropped.signatures(),
      (std::vector<Signature>{{{DType::kF32, {2, 2}}}, {{DType::kF32, {2, 5}}}, {{DType::kF32, {2, 9}}}}));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto batches = epoch_of(dropped);
    ASSERT_EQ(batches.size(), 4u);
    EXPECT_THAT(batches[0], ElementsAre(1, 0, 1, 2));
    EXPECT_THAT(batches[1], ElementsAre(1, 2, 3, 0, 0, 1, 2, 3, 4, 0));
    EXPECT_EQ(batches[2].size(), 18u) << "of 6 and 7";
    EXPECT_EQ(batches[3].size(), 18u) << "of 8 and 9; the one of 5 is left out";
  }
  auto kept = bucket_by_sequence_length(ragged(5), length,
                                        {.longest = {2, 5}, .batch_elems = {4, 2}, .drop_remainder = false});
  EXPECT_THAT(epoch_of(kept),
              ElementsAre(ElementsAre(1, 2, 3, 0, 0, 1, 2, 3, 4, 0), ElementsAre(1, 0, 1, 2, 0, 0, 0, 0),
                          ElementsAre(1, 2, 3, 4, 5, 0, 0, 0, 0, 0)));
  EXPECT_THAT(epoch_of(kept, 1), ElementsAre(ElementsAre(1, 1), ElementsAre(1, 1, 0, 0), ElementsAre(1, 0)));
  auto mapped = kept.map([](Element element) { return element; }).prefetch(2);
  EXPECT_EQ(epoch_of(mapped).size(), 3u);
  EXPECT_EQ(mapped.signatures().size(), 2u);
  auto short_ones = bucket_by_sequence_length(ragged(9), length, {.longest = {8}, .batch_elems = {2}});
  EXPECT_ERROR(epoch_of(short_ones), ErrorCode::kShapeMismatch, "length 9 exceeds the last bucket's 8");
  EXPECT_ERROR(bucket_by_sequence_length(rows(3), length, {.longest = {8}, .batch_elems = {2}}),
               ErrorCode::kInvalidArgument, "use batch");
  EXPECT_ERROR(bucket_by_sequence_length(ragged(3), length, {.longest = {8, 8}, .batch_elems = {2}}),
               ErrorCode::kInvalidArgument, "ascending");
  EXPECT_ERROR(bucket_by_sequence_length(ragged(3), length, {.longest = {8, 9}, .batch_elems = {2, 0}}),
               ErrorCode::kInvalidArgument, "2 batch sizes >= 1");
}

TEST(FromWindows, SlidesOverASeries) {
  auto windows = from_windows(numbers(8), {.length = 3, .horizon = 2});
  EXPECT_THAT(windows.names(), ElementsAre("window", "target"));
  EXPECT_EQ(windows.size(), 4);
  EXPECT_THAT(epoch_of(windows)[1], ElementsAre(1, 2, 3));
  EXPECT_THAT(epoch_of(windows, 1)[1], ElementsAre(4, 5));
  auto apart = from_windows(numbers(10), {.length = 2, .horizon = 1, .stride = 3, .dilation = 2}).batch(2);
  EXPECT_THAT(epoch_of(apart), ElementsAre(ElementsAre(0, 2, 3, 5)));
  EXPECT_THAT(epoch_of(apart, 1), ElementsAre(ElementsAre(4, 7)));
  EXPECT_EQ(window_count(4, {.length = 5}), 0);
  EXPECT_ERROR(from_windows(numbers(4), {.length = 5}), ErrorCode::kInvalidArgument, "too few");
  EXPECT_ERROR(from_windows(numbers(4), {.length = 0}), ErrorCode::kInvalidArgument, "must be >= 1");
  EXPECT_ERROR(from_windows(numbers(4), {.length = INT64_MAX, .horizon = 1}), ErrorCode::kOverflow, "");
}

TEST(FromWindows, AreToldApartByTheirOptions) {
  const auto print = [](int64_t steps, const WindowOptions& options) {
    return fingerprint(*from_windows(numbers(steps), options).recipe());
  };
  const WindowOptions usual{.length = 2, .horizon = 1, .stride = 6, .dilation = 1};
  EXPECT_EQ(print(12, usual), print(12, usual));
  // These give as many rows of the same shapes.
  EXPECT_NE(print(12, usual), print(12, {.length = 2, .horizon = 1, .stride = 6, .dilation = 2}));
  EXPECT_NE(print(12, usual), print(12, {.length = 2, .horizon = 1, .stride = 7, .dilation = 1}));
  EXPECT_NE(print(12, usual), print(13, usual));
}

TEST(FromWindows, RefuseTheStateOfOthers) {
  const auto windows = [](int64_t dilation) {
    return from_windows(numbers(12), {.length = 2, .stride = 6, .dilation = dilation});
  };
  Loader loader(windows(1).recipe());
  loader.begin_epoch(0);
  static_cast<void>(loader.next());
  Loader other(windows(2).recipe());
  EXPECT_ERROR(other.resume(loader.state()), ErrorCode::kBadFormat, "dataset state");
}

TEST(MapInto, WritesResultsWithoutTensorsOfTheirOwn) {
  const auto squares = [](const Element& input, ElementBuffer& output, const Position&) {
    const int64_t n = value(input);
    *reinterpret_cast<int64_t*>(output.room(0)) = n * n;
  };
  for (int64_t parallel : {1, 3}) {
    auto batches =
        rows(10).map_into({"square"}, {{DType::kI64, {}}}, squares, {.parallel = parallel}).batch(4);
    EXPECT_THAT(batches.names(), ElementsAre("square"));
    EXPECT_THAT(epoch_of(batches),
                ElementsAre(ElementsAre(0, 1, 4, 9), ElementsAre(16, 25, 36, 49), ElementsAre(64, 81)));
  }
  const auto sums = [](const Element& input, ElementBuffer& output, const Position&) {
    *reinterpret_cast<int64_t*>(output.room(0, {})) = 0;
    for (int64_t x : input["x"].span<int64_t>()) *reinterpret_cast<int64_t*>(output.element()[0].raw()) += x;
  };
  auto summed = rows(10).batch(4).map_into({"sum"}, {{DType::kI64, {}}}, sums);
  EXPECT_THAT(numbers_of(summed), ElementsAre(6, 22, 17));
  EXPECT_ERROR(rows(3).map_into({"a", "b"}, {{DType::kI64, {}}}, sums), ErrorCode::kInvalidArgument,
               "2 names and 1 specs");
}

TEST(FlatMap, OfWhatNeverEndsNeverEnds) {
  const auto two = [](const Element&) { return rows(2); };
  EXPECT_EQ(rows(3).repeat().flat_map(two).size(), kInfinite);
  EXPECT_EQ(rows(3).repeat().interleave(two).size(), kInfinite);
  EXPECT_EQ(rows(3).flat_map(two).size(), kUnknown);
}

TEST(FlatMap, GivesTheElementsOfEachInTurn) {
  const auto up_to = [](const Element& e) { return rows(value(e) + 1); };
  EXPECT_THAT(numbers_of(rows(4).flat_map(up_to)), ElementsAre(0, 0, 1, 0, 1, 2, 0, 1, 2, 3));
  EXPECT_THAT(numbers_of(rows(4).interleave(up_to, {.cycle = 2, .block = 2})),
              ElementsAre(0, 0, 1, 0, 1, 2, 0, 1, 2, 3));
  EXPECT_THAT(numbers_of(rows(3).interleave([](const Element&) { return rows(3); }, {.cycle = 3})),
              ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  // The example in tf.data's documentation of interleave.
  const auto six_times = [](const Element& e) {
    return Dataset(Element{{"x", empty({DType::kI64, {1}})}})
        .map([n = value(e)](Element) {
          const Tensor result = empty({DType::kI64, {}});
          *result.data<int64_t>() = n;
          return Element{{"x", result}};
        })
        .repeat(6);
  };
  EXPECT_THAT(
      numbers_of(rows(6).skip(1).interleave(six_times, {.cycle = 2, .block = 4})),
      ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5));
  EXPECT_ERROR(rows(3).interleave(up_to, {.cycle = 0}), ErrorCode::kInvalidArgument, "must be >= 1");
  EXPECT_ERROR(rows(3).interleave(up_to, {.cycle = INT64_MAX}), ErrorCode::kInvalidArgument, "cycle must be");
}

TEST(FlatMap, TakesDatasetsWithoutElements) {
  const auto odd = [](const Element& e) { return value(e) % 2 == 1; };
  const auto plus = [](const Element& e) {
    const Tensor result = empty({DType::kI64, {}});
    *result.data<int64_t>() = value(e) + 10;
    return Element{{"x", result}};
  };
  const auto odd_below = [&](const Element& e) { return rows(value(e) + 1).filter(odd).map(plus); };
  EXPECT_THAT(numbers_of(rows(4).flat_map(odd_below)), ElementsAre(11, 11, 11, 13));
  EXPECT_THAT(numbers_of(rows(4).filter([](const Element&) { return false; }).map(plus)), ElementsAre());
}

TEST(FlatMap, SaysOfWhichElementTheDatasetIsThatFails) {
  auto failing = rows(3).flat_map([](const Element& outer) {
    return rows(4).map([of = value(outer)](Element e) {
      if (of == 2 && value(e) == 1) throw std::runtime_error("broken");
      return e;
    });
  });
  EXPECT_ERROR(numbers_of(failing), ErrorCode::kInvalidArgument,
               "[flat_map (stage 2)] element 2 of epoch 0: [map (stage 2)] element 1 of epoch 0, row 1");
}

TEST(Unbatch, GivesTheRowsOfBatches) {
  EXPECT_EQ(rows(12).batch(4).unbatch().size(), 12);
  EXPECT_THAT(numbers_of(rows(7).batch(3).unbatch().skip(1)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_ERROR(rows(7).unbatch(), ErrorCode::kInvalidArgument, "'x' is a scalar");
  Dataset transposed = rows(6).batch(6).map([](const Element& e) {
    return Element{{"x", Tensor::from_external(e["x"].data<int64_t>(), {DType::kI64, {3, 2}}, {1, 3})}};
  });
  EXPECT_ERROR(numbers_of(transposed.unbatch()), ErrorCode::kInvalidArgument, "unbatch");
}

TEST(Shard, GivesEveryNthAndTogetherAll) {
  EXPECT_EQ(rows(10).shard(3, 0).size(), 4);
  EXPECT_EQ(rows(10).shard(3, 1).size(), 3);
  EXPECT_THAT(numbers_of(rows(10).shard(3, 1)), ElementsAre(1, 4, 7));
  const auto all = [](const Element&) { return true; };
  EXPECT_THAT(numbers_of(rows(10).filter(all).shard(4, 3)), ElementsAre(3, 7));
  EXPECT_ERROR(rows(10).shard(3, 3), ErrorCode::kInvalidArgument, "0 <= index < shards");
}

TEST(Cache, RunsItsInputOnceAndKeepsIt) {
  int calls = 0;
  auto cached = rows(5)
                    .map([&](Element element) {
                      ++calls;
                      return element;
                    })
                    .filter([](const Element& e) { return value(e) != 2; })
                    .cache();
  const int once = calls;
  EXPECT_EQ(cached.size(), 4);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_THAT(numbers_of(cached), ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(calls, once);
  EXPECT_ERROR(rows(100).cache(799), ErrorCode::kOutOfMemory, "exceed the limit of 799 bytes");
  EXPECT_ERROR(rows(3).repeat().cache(), ErrorCode::kInvalidArgument, "no end");
  EXPECT_ERROR(rows(3).filter([](const Element&) { return false; }).cache(), ErrorCode::kInvalidArgument,
               "yields no element");
}

TEST(Cache, OfManyElementsOfUnknownNumberLiesInBlocks) {
  auto cached = rows(300'000).filter([](const Element& e) { return value(e) % 7 != 0; }).cache();
  EXPECT_EQ(cached.size(), 300'000 - 42'858);
  auto batches = cached.shuffle(300'000, {.seed = 1}).batch(1000);
  std::vector<double> seen = numbers_of(batches);
  std::ranges::sort(seen);
  EXPECT_EQ(seen[5], 6);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(seen.back(), 299'998);
}

TEST(Zip, ShufflesAnewInEveryPass) {
  auto joined = zip({{"a", rows(8).shuffle(8)}, {"b", rows(8)}}).repeat(2);
  const auto order = numbers_of(joined);
  EXPECT_NE(std::vector(order.begin(), order.begin() + 8), std::vector(order.begin() + 8, order.end()));
}

TEST(Map, RunsOneAtATimeUnlessItSaysMore) {
  std::atomic<int> inside{0}, most{0};
  const auto counted = [&](Element element) {
    const int now = ++inside;
    most = std::max(most.load(), now);
    double sum = 0;
    for (int i = 0; i < 2000; ++i) sum += std::sqrt(i);
    --inside;
    return sum < 0 ? Element{} : element;
  };
  auto mapped = rows(400).map(counted).map([](Element element) { return element; }, {.parallel = 4});
  EXPECT_EQ(epoch_of(mapped).size(), 400u);
  EXPECT_EQ(most, 1);
}

TEST(Batch, OfASourceThatGivesLessThanItSaysIsAnError) {
  auto sometimes = from_generator({"x"}, {{DType::kI64, {}}}, [](uint64_t epoch) {
    return [epoch, n = int64_t{0}](ElementBuffer& buffer) mutable {
      *reinterpret_cast<int64_t*>(buffer.room(0)) = n;
      return epoch == 0 && n++ < 3;
    };
  });
  auto batches = sometimes.repeat().take(8).batch(4);
  EXPECT_ERROR(epoch_of(batches), ErrorCode::kShapeMismatch, "a batch of 3 elements instead of 4");
}

TEST(ElementBuffer, RefusesOtherShapesThanItsLayouts) {
  const Layout layout{{"x"}, {{DType::kF32, {4}}}};
  ElementBuffer buffer(layout);
  EXPECT_ERROR(buffer.room(0, {1}), ErrorCode::kShapeMismatch, "'x' is declared (4), got (1)");
  EXPECT_ERROR(buffer.room(1), ErrorCode::kOutOfRange, "position 1");
}

TEST(Zip, JoinsElementsUntilOneEnds) {
  auto both = zip({{"a", rows(4)}, {"b", Dataset(Element{{"p", numbers(3)}, {"q", numbers(3)}})}});
  EXPECT_THAT(both.names(), ElementsAre("a", "b/p", "b/q"));
  EXPECT_EQ(both.size(), 3);
  EXPECT_THAT(numbers_of(both, 2), ElementsAre(0, 1, 2));
  auto streamed =
      zip({{"a", rows(9).filter([](const Element& e) { return value(e) > 6; })}, {"b", rows(4).repeat()}});
  EXPECT_EQ(streamed.size(), kUnknown);
  EXPECT_THAT(numbers_of(streamed, 0), ElementsAre(7, 8));
  EXPECT_THAT(numbers_of(streamed, 1), ElementsAre(0, 1));
  EXPECT_ERROR(zip({{"a", rows(1)}, {"a", rows(1)}}), ErrorCode::kInvalidArgument, "twice");
}

TEST(Zip, OfBatchesKnowsThePartialOne) {
  const auto forms = [](const Dataset& dataset) {
    std::vector<std::string> texts;
    for (const Signature& form : dataset.signatures()) {
      std::string text;
      for (const TensorSpec& spec : form) text += spec.shape.str();
      texts.push_back(text);
    }
    return texts;
  };
  const auto same = [](Element e) { return e; };
  auto both = zip({{"a", rows(10).batch(4)}, {"b", rows(10).map(same).batch(4)}});
  EXPECT_THAT(forms(both), ElementsAre("(4)(4)", "(2)(2)"));
  EXPECT_EQ(forms(both.map(same)), forms(both));
  EXPECT_THAT(numbers_of(both.map(same), 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(forms(zip({{"a", rows(10).batch(4)}, {"b", rows(14).batch(4)}})),
              ElementsAre("(4)(4)", "(2)(4)"));
  EXPECT_THAT(forms(zip({{"a", rows(10).batch(4)}, {"b", rows(8).batch(4)}})), ElementsAre("(4)(4)"));
  EXPECT_THAT(forms(zip({{"a", rows(10).batch(4).repeat(2)}, {"b", rows(24).batch(4)}})),
              ElementsAre("(-1)(4)"));
}

TEST(Concatenate, GivesOneAfterTheOther) {
  auto joined = concatenate(rows(2), rows(3));
  EXPECT_EQ(joined.size(), 5);
  EXPECT_THAT(numbers_of(joined.batch(2)), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(numbers_of(concatenate(rows(2), rows(3).repeat()).take(7)), ElementsAre(0, 1, 0, 1, 2, 0, 1));
  EXPECT_ERROR(concatenate(rows(2).repeat(), rows(2)), ErrorCode::kInvalidArgument, "no end");
  EXPECT_ERROR(concatenate(rows(2), rows(2, "y")), ErrorCode::kInvalidArgument, "the same names");
}

TEST(SampleFromDatasets, DrawsByWeight) {
  const auto constant = [](int64_t n) {
    return rows(1)
        .map([n](Element) {
          const Tensor result = empty({DType::kI64, {}});
          *result.data<int64_t>() = n;
          return Element{{"x", result}};
        })
        .repeat();
  };
  auto mixed = sample_from_datasets({constant(0), constant(1), constant(2)}, {1, 0, 3});
  EXPECT_EQ(mixed.size(), kInfinite);
  std::map<double, int> counts;
  for (double x : numbers_of(mixed.take(4000))) ++counts[x];
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2], 3000, 110) << "four standard deviations";
  auto all = sample_from_datasets({rows(5), rows(7)}, {1, 1});
  EXPECT_EQ(all.size(), 12);
  EXPECT_EQ(numbers_of(all).size(), 12u);
  EXPECT_LT(
      numbers_of(sample_from_datasets({rows(2), rows(100)}, {1, 1}, {.stop_on_empty_dataset = true})).size(),
      40u);
  EXPECT_ERROR(sample_from_datasets({rows(2)}, {1, 2}), ErrorCode::kInvalidArgument,
               "1 datasets and 2 weights");
  EXPECT_ERROR(sample_from_datasets({rows(2)}, {0}), ErrorCode::kInvalidArgument, "all 0");
}

TEST(Map, ByManyThreadsGivesTheSameInTheSameOrder) {
  const auto slow_and_fast = [](Element element) {
    double sum = 0;  // more work for some than for others
    for (int64_t i = 0; i < value(element) % 7 * 1000; ++i) sum += std::sqrt(static_cast<double>(i));
    const Tensor result = empty({DType::kI64, {}});
    *result.data<int64_t>() = value(element) * 2 + (sum < 0);
    return Element{{"x", result}};
  };
  auto one = rows(300).map(slow_and_fast).shuffle(50).batch(7);
  for (int64_t parallel : {int64_t{2}, int64_t{5}, kAutotune}) {
    auto many = rows(300).map(slow_and_fast, {.parallel = parallel}).shuffle(50).batch(7);
    auto reference = one;
    for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(epoch_of(many), epoch_of(reference)) << parallel;
    EXPECT_GE(many.stats().workers, 1);
  }
  auto any_order = rows(300).map(slow_and_fast, {.parallel = 3, .deterministic = false});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<double> seen;
    for (const auto& list : epoch_of(any_order)) seen.push_back(list[0]);
    std::ranges::sort(seen);
    for (size_t i = 0; i < 300; ++i) ASSERT_EQ(seen[i], 2.0 * static_cast<double>(i));
  }
  EXPECT_ERROR(rows(3).map(slow_and_fast, {.parallel = 0}), ErrorCode::kInvalidArgument, "[1, 256]");
}

TEST(Map, ByManyThreadsStopsAtAnError) {
  for (bool deterministic : {true, false}) {
    std::atomic<bool> armed{false};
    auto mapped = rows(50).map(
        [&](Element element) {
          if (armed && value(element) == 20) throw std::runtime_error("bad row");
          return element;
        },
        {.parallel = 3, .deterministic = deterministic});
    armed = true;
    EXPECT_ERROR(epoch_of(mapped), ErrorCode::kInvalidArgument, "element 20 of epoch 0, row 20: bad row");
    armed = false;
    EXPECT_EQ(epoch_of(mapped).size(), 50u);
  }
}

TEST(Map, KnowsWhereItsElementStands) {
  const auto places = [](Dataset dataset) {
    std::set<std::pair<int64_t, int64_t>> result;
    for (const Element& batch : dataset) {
      for (int64_t i = 0; i < batch["x"].elems(); ++i) {
        result.insert({batch["x"].data<int64_t>()[i], batch["place"].data<int64_t>()[i]});
      }
    }
    return result;
  };
  const MapFunction note = [](Element& element, const Position& position) {
    EXPECT_EQ(position.row, value(element));
    const Tensor place = empty({DType::kI64, {}});
    *place.data<int64_t>() = position.element;
    element.add("place", place);
  };
  const auto shuffled = rows(40).shuffle(40, {.seed = 6});
  const auto expected = places(shuffled.map_with_position(note).batch(8));
  EXPECT_EQ(expected.size(), 40u);
  EXPECT_EQ(places(shuffled.map_with_position(note, {.parallel = 3}).batch(8)), expected);
}

TEST(Zip, IsMadeByTheThreadsOfItsDatasets) {
  const auto same = [](Element e) { return e; };
  const Dataset plain = rows(12), ahead = rows(12).prefetch(5),
                parallel = rows(12).map(same, {.parallel = 3}),
                automatic = rows(12).map(same, {.parallel = kAutotune}),
                loose = rows(12).map(same, {.parallel = 2, .deterministic = false});
  const auto expect = [](const Dataset& made, int64_t prefetch_elems, int64_t workers, bool deterministic) {
    EXPECT_EQ(made.recipe()->prefetch_elems, prefetch_elems);
    EXPECT_EQ(made.recipe()->workers, workers);
    EXPECT_EQ(made.recipe()->deterministic, deterministic);
    Dataset run = made;
    EXPECT_FALSE(epoch_of(run).empty());
  };
  const auto zipped = [](const Dataset& a, const Dataset& b) { return zip({{"a", a}, {"b", b}}); };
  for (const auto& join : {std::function<Dataset(const Dataset&, const Dataset&)>(zipped),
                           std::function<Dataset(const Dataset&, const Dataset&)>(concatenate)}) {
    expect(join(plain, plain), 0, 1, true);
    expect(join(plain, ahead), 5, 1, true);
    expect(join(parallel, plain), kAutotune, 3, true);
    expect(join(parallel, loose), kAutotune, 3, true);
    expect(join(ahead, automatic), kAutotune, kAutotune, true);
    expect(join(loose, loose), kAutotune, 2, false);
  }
  EXPECT_EQ(numbers_of(zipped(parallel, plain), 1), numbers_of(plain));
}

TEST(Cache, OfTheSameDatasetHasTheSameFingerprint) {
  const auto cached = [](int64_t count) { return rows(count).map([](Element e) { return e; }).cache(); };
  EXPECT_EQ(fingerprint(*cached(9).recipe()), fingerprint(*cached(9).recipe()));
  EXPECT_NE(fingerprint(*cached(9).batch(3).recipe()),
            fingerprint(*rows(9).batch(3).unbatch().cache().batch(3).recipe()));
}

TEST(Batch, OfBatchesThatAreFilledUp) {
  const auto padded = [] { return rows(5).batch(2, {.pad_remainder = true}); };
  Dataset twice = padded().repeat(2).batch(2);
  EXPECT_THAT(numbers_of(twice), ElementsAre(0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0));
  EXPECT_THAT(numbers_of(twice, 1), ElementsAre(1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0));
}

}  // namespace
}  // namespace isochron::data
