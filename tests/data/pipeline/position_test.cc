// The positions that map functions receive for their elements: the same under zip and concatenate, and
// counted on from pass to pass.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

/// The row, position and epoch that the map function received.
Dataset told(int64_t count, int64_t first = 0, int64_t parallel = 1) {
  return rows(count).map_with_position(
      [first](Element& element, const Position& position) {
        EXPECT_EQ(position.row, value(element));
        const Tensor result = empty({DType::kI64, {}});
        *result.data<int64_t>() = first + value(element) + 1000 * position.element +
                                  1'000'000 * static_cast<int64_t>(position.epoch);
        element = Element{{"x", result}};
      },
      {.parallel = parallel});
}

Dataset zipped(const Dataset& dataset) { return zip({{"x", dataset}, {"y", rows(100)}}); }

struct Chain {
  const char* name;
  std::function<Dataset(const Dataset&)> follow;
};

TEST(Position, IsTheSameBelowZip) {
  const Chain chains[] = {
      {"alone", [](const Dataset& d) { return d; }},
      {"batches", [](const Dataset& d) { return d.batch(3); }},
      {"repeated", [](const Dataset& d) { return d.repeat(3); }},
      {"repeated, then batches", [](const Dataset& d) { return d.repeat(3).batch(2); }},
      {"batches, then repeated", [](const Dataset& d) { return d.batch(2).repeat(3); }},
      {"shuffled", [](const Dataset& d) { return d.shuffle(4, {.seed = 1}).repeat(2); }},
      {"repeated, then shuffled",
       [](const Dataset& d) { return d.repeat(3).shuffle(7, {.seed = 1}).batch(4); }},
      {"endless", [](const Dataset& d) { return d.repeat().take(17).prefetch(2); }},
      {"sharded", [](const Dataset& d) { return d.repeat(2).shard(2, 1, 2); }},
      {"sharded batches", [](const Dataset& d) { return d.batch(2).repeat(2).shard(2, 1); }},
  };
  for (const Chain& chain : chains) {
    for (const int64_t parallel : {1, 3}) {
      SCOPED_TRACE(chain.name);
      Dataset plain = chain.follow(told(7)), below = chain.follow(zipped(told(7, 0, parallel)));
      for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(epoch_of(below), epoch_of(plain));
    }
  }
}

TEST(Position, OfBatchesBelowZip) {
  const auto batches = [](const Dataset& dataset) { return dataset.batch(2, {.drop_remainder = true}); };
  EXPECT_EQ(numbers_of(zipped(batches(told(7))).repeat(2)), numbers_of(batches(told(7)).repeat(2)));
  EXPECT_EQ(numbers_of(zipped(batches(told(8)).shard(2, 1))), numbers_of(batches(told(8)).shard(2, 1)));
}

TEST(Position, GoesOnThroughPassesOfJoinedDatasets) {
  EXPECT_THAT(numbers_of(concatenate(told(2), told(1, 10)).repeat(2)),
              ElementsAre(0, 1001, 2010, 3000, 4001, 5010));
  Dataset shuffled = concatenate(told(5), told(3, 10)).repeat(3).shuffle(6).batch(4);
  std::set<double> places;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : epoch_of(shuffled)) {
      for (double number : batch) places.insert(std::floor(number / 1000));
    }
  }
  EXPECT_EQ(places.size(), 48u) << "no place is told twice";
}

TEST(Position, OfAShardOfAShardIsThatInTheDatasetOfBoth) {
  EXPECT_THAT(numbers_of(told(8).shard(2, 1).shard(2, 1)), ElementsAre(3003, 7007));
}

}  // namespace
}  // namespace isochron::data
