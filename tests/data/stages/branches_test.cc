// Parts of a joined dataset that are made alike draw different random numbers.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <set>

#include "data/pipeline/small_datasets.h"
#include "isochron/core/base/seed.h"
#include "isochron/data/images/image_ops.h"
#include "isochron/data/stages/chosen_rows.h"

namespace isochron::data {
namespace {

using Numbers = std::vector<double>;

/// The number that random ops of the present map draw from.
Tensor drawn() {
  const Tensor result = empty({DType::kI64, {}});
  *result.data<int64_t>() = static_cast<int64_t>(ElementDraws::current()->seed() >> 12);  // exact in f64
  return result;
}
Dataset drawing(const Dataset& dataset) {
  return dataset.map([](Element element) {
    element["x"] = drawn();
    return element;
  });
}
/// The same elements as a stream.
Dataset stream(const Dataset& dataset) {
  return dataset.filter([](const Element&) { return true; });
}

void expect_all_different(const Numbers& numbers, size_t count) {
  EXPECT_EQ(numbers.size(), count);
  EXPECT_EQ(std::set<double>(numbers.begin(), numbers.end()).size(), numbers.size());
}
Numbers both(const Dataset& dataset) {
  Numbers result = numbers_of(dataset, 0);
  const Numbers second = numbers_of(dataset, 1);
  result.insert(result.end(), second.begin(), second.end());
  return result;
}

TEST(Branches, ViewsOfAZipDrawApart) {
  const Dataset a = drawing(rows(3)), b = drawing(stream(rows(3)));
  expect_all_different(both(zip({{"first", a}, {"second", a}})), 6);
  expect_all_different(both(zip({{"first", b}, {"second", b}})), 6);
  const Dataset views = zip({{"first", a}, {"second", a}});
  Dataset nested = zip({{"left", views}, {"right", views}});
  Numbers all;
  for (int i = 0; i < 4; ++i) {
    for (const double number : numbers_of(nested, i)) all.push_back(number);
  }
  expect_all_different(all, 12);
}

TEST(Branches, MapsOnEitherSideOfChosenRowsDrawApart) {
  const auto twice = [](const std::function<Dataset(const Dataset&)>& choose) {
    const Dataset before = rows(3).map([](const Element& element) {
      return Element{{"before", drawn()}, {"x", element["x"]}};
    });
    return choose(before).map([](const Element& element) {
      return Element{{"before", element["before"]}, {"after", drawn()}};
    });
  };
  expect_all_different(both(twice([](const Dataset& d) { return subset(d, {0, 1, 2}); })), 6);
  const Dataset sampled = twice([](const Dataset& d) { return sample_rows(d, {1, 1, 1}, 3, 5); });
  const Numbers before = numbers_of(sampled, 0), after = numbers_of(sampled, 1);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(std::ranges::count(before, after[i]), 0) << i;
}

TEST(Branches, ShufflesOnEitherSideOfAStageDrawApart) {
  const auto shuffled = [](const Dataset& dataset) { return dataset.shuffle(50, {.seed = 3}); };
  const Dataset once = shuffled(rows(50));
  const Numbers order = numbers_of(once);
  Numbers squared;  // the order if the second shuffle is the first one again
  for (const double row : order) squared.push_back(order[static_cast<size_t>(row)]);
  EXPECT_NE(numbers_of(shuffled(stream(once))), squared);
  EXPECT_NE(numbers_of(shuffled(once.batch(5).unbatch())), squared);
  EXPECT_NE(numbers_of(shuffled(concatenate(once, rows(1).shard(2, 1)))), squared);
  EXPECT_EQ(numbers_of(stream(shuffled(stream(rows(50))))), order) << "other stages change no order";
}

TEST(Branches, PartsOneAfterTheOtherDrawApart) {
  const Dataset a = drawing(rows(3)), b = drawing(stream(rows(3)));
  expect_all_different(numbers_of(concatenate(a, a)), 6);
  expect_all_different(numbers_of(concatenate(b, b)), 6);
  expect_all_different(numbers_of(sample_from_datasets({a, a}, {1, 1})), 6);
  const auto inner = [](const Element&) { return drawing(rows(3)); };
  expect_all_different(numbers_of(rows(4).interleave(inner, {.cycle = 2})), 12);
  expect_all_different(numbers_of(rows(4).flat_map(inner)), 12);
  const auto cached = [](const Element&) { return drawing(rows(3)).cache(); };
  expect_all_different(numbers_of(rows(4).flat_map(cached)), 12);
}

TEST(Branches, ShufflesOfPartsHaveOrdersOfTheirOwn) {
  const Dataset shuffled = rows(20).shuffle(20), seeded = rows(20).shuffle(20, {.seed = 3});
  const Dataset pairs = zip({{"first", shuffled}, {"second", shuffled}});
  EXPECT_NE(numbers_of(pairs, 0), numbers_of(pairs, 1));
  const Dataset aligned = zip({{"first", seeded}, {"second", seeded}});
  EXPECT_EQ(numbers_of(aligned, 0), numbers_of(aligned, 1)) << "one seed is one order";
  EXPECT_EQ(numbers_of(aligned, 0), numbers_of(seeded));
  const Numbers orders = numbers_of(rows(2).flat_map([](const Element&) { return rows(20).shuffle(20); }));
  EXPECT_NE(Numbers(orders.begin(), orders.begin() + 20), Numbers(orders.begin() + 20, orders.end()));
}

TEST(Branches, AFixedOrderIsOneInAllParts) {
  for (const int64_t count : {20, 5000}) {
    const Dataset fixed = rows(count).shuffle(count, {.reshuffle = false});
    const int64_t held_out = count / 4;
    const Dataset train = concatenate(fixed.take(held_out), fixed.skip(2 * held_out));
    Numbers all = numbers_of(train);
    for (const double row : numbers_of(fixed.skip(held_out).take(held_out))) all.push_back(row);
    expect_all_different(all, static_cast<size_t>(count));
  }
}

TEST(Branches, SampledRowsOfPartsAreDrawnApart) {
  const std::vector<double> weights(20, 1.0);
  const Dataset sampled = sample_rows(rows(20), weights, 20), seeded = sample_rows(rows(20), weights, 20, 3);
  const Dataset pairs = zip({{"first", sampled}, {"second", sampled}});
  EXPECT_NE(numbers_of(pairs, 0), numbers_of(pairs, 1));
  const Dataset aligned = zip({{"first", seeded}, {"second", seeded}});
  EXPECT_EQ(numbers_of(aligned, 0), numbers_of(aligned, 1));
  const Dataset mixed = sample_from_datasets({rows(50), rows(50)}, {1, 1});
  const Dataset mixtures = zip({{"first", mixed}, {"second", mixed}});
  EXPECT_NE(numbers_of(mixtures, 0), numbers_of(mixtures, 1));
}

TEST(Branches, ImageFunctionsOfPartsDrawApart) {
  const auto crop = [](Element& element, const Position& position) {
    std::vector<uint8_t> image(256);
    std::iota(image.begin(), image.end(), uint8_t{0});
    const Tensor pixel = empty({DType::kU8, {1, 1, 1}});
    random_crop(ImageView<const uint8_t>(image.data(), 1, 256, 1), ImageView<uint8_t>(pixel),
                {.epoch = position.epoch, .element = static_cast<uint64_t>(position.element)});
    element["x"] = pixel;
  };
  const Dataset cropped = rows(8).map_with_position(crop);
  const Dataset views = zip({{"first", cropped}, {"second", cropped}});
  EXPECT_NE(numbers_of(views, 0), numbers_of(views, 1));
}

TEST(Branches, OutsideOfJoinedDatasetsThereIsOne) {
  std::set<uint64_t> branches;
  Dataset plain = rows(4).shuffle(4).batch(2).map_with_position(
      [&](Element&, const Position& position) { branches.insert(position.branch); });
  epoch_of(plain);
  EXPECT_THAT(branches, testing::ElementsAre(0));
}

TEST(Branches, AResumedDatasetGoesOnInThem) {
  const Dataset part = drawing(stream(rows(6)).shuffle(3));
  const auto inner = [](const Element&) { return drawing(rows(3)).shuffle(3); };
  for (const Dataset& dataset :
       {zip({{"a", part}, {"x", part}}), zip({{"x", drawing(rows(6))}}),
        rows(3).interleave(inner, {.cycle = 2}), sample_from_datasets({part, part}, {1, 1})}) {
    const Numbers whole = numbers_of(dataset, dataset.names().size() > 1 ? 1 : 0);
    for (size_t taken = 1; taken < whole.size(); ++taken) {
      Dataset first = dataset, second = dataset;
      auto at = first.begin();
      for (size_t i = 1; i < taken; ++i) ++at;
      Numbers rest;
      for (auto it = second.resume(first.state()); it != std::default_sentinel; ++it)
        rest.push_back((*it)[(*it).size() - 1].to_vector()[0]);
      EXPECT_EQ(rest, Numbers(whole.begin() + static_cast<std::ptrdiff_t>(taken), whole.end()));
    }
  }
}

}  // namespace
}  // namespace isochron::data
