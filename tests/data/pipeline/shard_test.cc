// Shards in blocks: together they give the elements of the dataset, in its order, and the state of one shard
// can be resumed with another number of shards.
#include <gmock/gmock.h>

#include <cstring>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/element/source.h"
#include "isochron/data/pipeline/dataset.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Elements = std::vector<std::vector<double>>;

struct Shards {
  int64_t shards, block;
};

/// More rows than could be counted.
class ManyRows final : public RowSource {
 public:
  static constexpr int64_t kRows = int64_t{1} << 50;
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return kRows; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    std::memcpy(into[0], &position.row, sizeof(position.row));
  }

 private:
  Layout layout_{{"x"}, {spec_of(DType::kI64, {})}};
};

bool every_one(const Element&) { return true; }

/// Shuffled batches of numbers that encode their row, their position in the order and their epoch.
Dataset batches(int64_t count, int64_t batch_elems, int64_t parallel = 1) {
  return rows(count)
      .map_with_position(
          [](Element& element, const Position& position) {
            const Tensor result = empty({DType::kI64, {}});
            *result.data<int64_t>() =
                value(element) + 1000 * position.element + 1'000'000 * static_cast<int64_t>(position.epoch);
            element = Element{{"x", result}};
          },
          {.parallel = parallel})
      .shuffle(count, {.seed = 3})
      .batch(batch_elems);
}

std::vector<Dataset> shards_of(const Dataset& dataset, Shards by) {
  std::vector<Dataset> result;
  for (int64_t i = 0; i < by.shards; ++i) result.push_back(dataset.shard(by.shards, i, by.block));
  return result;
}

/// The elements of the shards in the order of the groups.
Elements together(const std::vector<Elements>& parts, int64_t block) {
  Elements result;
  for (size_t group = 0, before = ~size_t{0}; result.size() != before; ++group) {
    before = result.size();
    for (const Elements& part : parts) {
      const size_t first = group * static_cast<size_t>(block);
      for (size_t i = first; i < std::min(part.size(), first + static_cast<size_t>(block)); ++i)
        result.push_back(part[i]);
    }
  }
  return result;
}

Elements rest_of(Dataset::Iterator at, size_t most = SIZE_MAX) {
  Elements result;
  for (; at != std::default_sentinel && result.size() < most; ++at) result.push_back((*at)[0].to_vector());
  return result;
}

Elements from(const Elements& elements, int64_t first) {
  return {elements.begin() + std::min(first, std::ssize(elements)), elements.end()};
}

/// The state in epoch 1 after `taken` elements, or at the end if there are fewer.
std::string state_after(Dataset& dataset, int64_t taken) {
  epoch_of(dataset);
  auto at = dataset.begin();
  for (int64_t i = 1; i < taken && at != std::default_sentinel; ++i) ++at;
  return dataset.state();
}

TEST(Shard, GivesEveryNthBlock) {
  EXPECT_THAT(numbers_of(rows(20).shard(3, 1, 2)), ElementsAre(2, 3, 8, 9, 14, 15));
  EXPECT_THAT(numbers_of(rows(20).shard(3, 0, 2)), ElementsAre(0, 1, 6, 7, 12, 13, 18, 19));
  EXPECT_THAT(numbers_of(rows(9).shard(2, 1, 3)), ElementsAre(3, 4, 5));
  EXPECT_THAT(numbers_of(rows(11).shard(2, 0, 4)), ElementsAre(0, 1, 2, 3, 8, 9, 10));
  EXPECT_THAT(numbers_of(rows(5).shard(1, 0, 2)), ElementsAre(0, 1, 2, 3, 4));
  const Dataset stream = rows(20).filter(every_one);
  EXPECT_EQ(stream.shard(3, 1, 2).size(), kUnknown);
  EXPECT_THAT(numbers_of(stream.shard(3, 1, 2)), ElementsAre(2, 3, 8, 9, 14, 15));
  EXPECT_THAT(numbers_of(stream.shard(3, 1, 2).prefetch(3)), ElementsAre(2, 3, 8, 9, 14, 15));
  const Dataset endless = rows(5).repeat().shard(2, 1, 3);
  EXPECT_EQ(endless.size(), kInfinite);
  EXPECT_THAT(numbers_of(endless.take(7)), ElementsAre(3, 4, 0, 4, 0, 1, 0));
  auto pairs = from_tensor_slices(numbers(7), numbers(7)).shard(2, 1, 2);
  EXPECT_EQ(pairs.size(), 3);
  EXPECT_THAT(numbers_of(pairs.elements()), ElementsAre(2, 3, 6));
}

TEST(Shard, AllTogetherGiveTheDataset) {
  for (int64_t count : {1, 2, 3, 7, 12, 23, 24, 25}) {
    for (int64_t batch_elems : {1, 3, 4}) {
      Dataset whole = batches(count, batch_elems);
      std::vector<Elements> expected;
      for (int epoch = 0; epoch < 3; ++epoch) expected.push_back(epoch_of(whole));
      for (int64_t shards : {1, 2, 3, 4}) {
        for (int64_t block : {1, 2, 3}) {
          const int64_t parallel = block == 2 ? 3 : 1;
          SCOPED_TRACE(fmt::format("{} rows in batches of {}, {} shards in blocks of {}", count, batch_elems,
                                   shards, block));
          std::vector<Dataset> parts = shards_of(batches(count, batch_elems, parallel), {shards, block});
          for (size_t epoch = 0; epoch < 3; ++epoch) {
            std::vector<Elements> got;
            for (Dataset& part : parts) {
              got.push_back(epoch_of(part));
              EXPECT_EQ(part.size(), std::ssize(got.back()));
              const bool partial = !got.back().empty() && got.back().back().size() != expected[0][0].size();
              EXPECT_EQ(part.signatures().size(), partial ? 2u : 1u)
                  << "only the shard that has the partial batch";
            }
            ASSERT_EQ(together(got, block), expected[epoch]) << "epoch " << epoch;
          }
        }
      }
    }
  }
}

TEST(Shard, OfStreamsAndOfShuffledBatches) {
  const std::vector<Dataset> datasets = {
      rows(11).shuffle(4).repeat(2).batch(4).shuffle(3, {.seed = 1}),
      rows(11).batch(4).repeat(3),
      rows(5000).shuffle(5000).batch(300),
      rows(40).filter(every_one).shuffle(7).batch(3, {.pad_remainder = true}),
      rows(7).batch(2).unbatch(),
      rows(8).batch(2).unbatch().batch(3),
  };
  for (const Dataset& dataset : datasets) {
    Dataset whole = dataset;
    for (const Shards by : {Shards{2, 2}, Shards{3, 1}, Shards{4, 3}}) {
      std::vector<Elements> parts;
      for (Dataset& part : shards_of(dataset, by)) parts.push_back(rest_of(part.begin()));
      Dataset fresh = dataset;
      EXPECT_EQ(together(parts, by.block), rest_of(fresh.begin()));
    }
  }
}

TEST(Shard, MayBeEmpty) {
  const Dataset none = rows(3).shard(4, 3);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(rows(4).shard(2, 1, 4).size(), 0);
  EXPECT_EQ(rows(8).batch(3).shard(4, 3).signatures().size(), 1u);
  const std::vector<Dataset> datasets = {
      none,
      none.prefetch(2),
      none.map([](Element e) { return e; }, {.parallel = 2}),
      none.batch(2),
      none.batch(2, {.pad_remainder = true}).prefetch(),
      none.repeat(3),
      none.repeat(int64_t{1} << 60),
      none.repeat(),
      none.shuffle(5).take(2),
      none.shard(2, 0, 2),
      none.skip(0),
      zip({{"a", rows(3).shard(4, 3)}, {"b", rows(5)}}),
      concatenate(none, none),
      none.filter(every_one),
      rows(9000).shuffle(9000).batch(3000).shard(4, 3),
      rows(3).filter(every_one).shard(4, 3),
      rows(8).batch(4).shard(4, 3).unbatch(),
  };
  for (size_t i = 0; i < datasets.size(); ++i) {
    SCOPED_TRACE(i);
    Dataset dataset = datasets[i], second = datasets[i];
    for (int epoch = 0; epoch < 3; ++epoch) EXPECT_THAT(epoch_of(dataset), IsEmpty());
    EXPECT_EQ(second.resume(dataset.state()), std::default_sentinel);
    EXPECT_THAT(epoch_of(second), IsEmpty());
    if (i < 13) {
      EXPECT_EQ(dataset.size(), 0);
    }
  }
  EXPECT_ERROR(none.cache(), ErrorCode::kInvalidArgument, "yields no element");
}

TEST(Shard, RefusesWhatIsNoShard) {
  EXPECT_ERROR(rows(10).shard(3, 3, 2), ErrorCode::kInvalidArgument, "0 <= index < shards");
  EXPECT_ERROR(rows(10).shard(3, 0, 0), ErrorCode::kInvalidArgument, "block of at least 1 element");
  EXPECT_ERROR(rows(10).shard(int64_t{1} << 32, 0, int64_t{1} << 31), ErrorCode::kInvalidArgument, "2^63");
  const int64_t most = INT64_MAX;
  EXPECT_THAT(numbers_of(rows(3).shard(most, 1)), ElementsAre(1));
  EXPECT_THAT(numbers_of(rows(3).shard(1, 0, most)), ElementsAre(0, 1, 2));
}

TEST(ShardState, GoesOnWithAnotherNumberOfShards) {
  const std::vector<Shards> shardings = {{1, 4}, {2, 2}, {4, 1}};
  for (int64_t count : {2, 8, 21, 24, 27}) {
    const Dataset dataset = batches(count, 2);
    for (const Shards& saved : shardings) {
      for (int64_t by = 0; by < saved.shards; ++by) {
        for (int64_t groups = 1; 4 * (groups - 1) < dataset.size(); ++groups) {
          Dataset saving = dataset.shard(saved.shards, by, saved.block);
          const std::string state =
              state_after(saving, groups * saved.block + (saving.size() < groups * saved.block));
          for (const Shards& resumed : shardings) {
            for (int64_t index = 0; index < resumed.shards; ++index) {
              SCOPED_TRACE(fmt::format("{} rows, shard({}, {}, {}) after {} groups, then shard({}, {}, {})",
                                       count, saved.shards, by, saved.block, groups, resumed.shards, index,
                                       resumed.block));
              Dataset whole = dataset.shard(resumed.shards, index, resumed.block), other = whole;
              epoch_of(whole);
              ASSERT_EQ(rest_of(other.resume(state)), from(epoch_of(whole), groups * resumed.block));
              ASSERT_EQ(epoch_of(other), epoch_of(whole)) << "the next epoch";
            }
          }
          Dataset whole = dataset, unsharded = dataset;
          epoch_of(whole);
          ASSERT_EQ(rest_of(unsharded.resume(state)), from(epoch_of(whole), 4 * groups));
        }
      }
    }
  }
}

TEST(ShardState, OfADatasetWithoutShards) {
  const Dataset dataset = batches(47, 2);
  for (int64_t taken : {4, 8, 20, 24}) {
    Dataset saving = dataset;
    const std::string state = state_after(saving, taken);
    for (int64_t index : {0, 1}) {
      Dataset whole = dataset.shard(2, index, 2), other = whole;
      epoch_of(whole);
      EXPECT_EQ(rest_of(other.resume(state)), from(epoch_of(whole), taken / 2));
    }
  }
  Dataset saving = dataset;
  EXPECT_ERROR(dataset.shard(2, 0, 2).resume(state_after(saving, 6)), ErrorCode::kInvalidArgument,
               "use a product that divides 6, as 1 does");
}

TEST(ShardState, IsOneForAllShards) {
  const Dataset dataset = batches(95, 2);
  std::vector<std::string> states;
  for (Dataset& part : shards_of(dataset, {4, 3})) states.push_back(state_after(part, 6));
  EXPECT_THAT(states, testing::Each(states[0]));
}

TEST(ShardState, OfAnEndlessDataset) {
  const Dataset dataset = rows(5).shuffle(5).repeat().batch(2);
  Dataset saving = dataset.shard(2, 1, 2);
  auto at = saving.begin();
  for (int i = 1; i < 6; ++i) ++at;
  const std::string state = saving.state();
  for (int64_t index = 0; index < 4; ++index) {
    Dataset whole = dataset.shard(4, index), other = whole;
    EXPECT_EQ(rest_of(other.resume(state), 5), from(rest_of(whole.begin(), 8), 3));
  }
}

TEST(ShardState, OfOtherGroupsMustLieBetweenTwo) {
  const Dataset dataset = batches(80, 2);
  Dataset saving = dataset.shard(4, 0, 2);
  const std::string state = state_after(saving, 6);
  Dataset thirds = dataset.shard(3, 1), whole = thirds;
  epoch_of(whole);
  EXPECT_EQ(rest_of(thirds.resume(state)), from(epoch_of(whole), 8));
  EXPECT_ERROR(dataset.shard(2, 1, 8).resume(state), ErrorCode::kInvalidArgument,
               "saved with shards = 4 and block = 2, after 24 elements");
  EXPECT_ERROR(dataset.shard(2, 1, 8).resume(state), ErrorCode::kInvalidArgument,
               "for shards = 2, use block = 4");
  EXPECT_ERROR(dataset.shard(3, 1, 3).resume(state), ErrorCode::kInvalidArgument,
               "use a product that divides 24, as 8 does");
  // At the end of an epoch, any number of shards is allowed.
  epoch_of(saving);
  Dataset other = dataset.shard(3, 1, 3);
  EXPECT_EQ(other.resume(saving.state()), std::default_sentinel);
}

TEST(ShardState, WithinABlockNeedsTheSameBlocks) {
  const Dataset dataset = batches(80, 2);
  Dataset saving = dataset.shard(2, 0, 3);
  const std::string state = state_after(saving, 4);
  for (int64_t index : {0, 1}) {
    Dataset whole = dataset.shard(2, index, 3), other = whole;
    epoch_of(whole);
    EXPECT_EQ(rest_of(other.resume(state)), from(epoch_of(whole), 4));
  }
  Dataset other = dataset.shard(3, 0, 2);
  EXPECT_ERROR(other.resume(state), ErrorCode::kInvalidArgument, "after 1 of the 3 elements of a block");
  EXPECT_ERROR(Dataset(dataset).resume(state), ErrorCode::kInvalidArgument, "got shards = 1 and block = 1");
  Dataset fresh = dataset.shard(3, 0, 2);
  EXPECT_EQ(epoch_of(other), epoch_of(fresh)) << "from the beginning";
}

TEST(ShardState, OfAnotherDatasetIsRefused) {
  Dataset saving = rows(40).shuffle(9, {.seed = 1}).batch(2).shard(2, 0, 2);
  const std::string state = state_after(saving, 4);
  EXPECT_ERROR(rows(40).shuffle(9, {.seed = 2}).batch(2).shard(2, 0, 2).resume(state), ErrorCode::kBadFormat,
               "same chain of calls");
  EXPECT_ERROR(rows(40).shuffle(9, {.seed = 1}).batch(4).shard(2, 0, 2).resume(state), ErrorCode::kBadFormat,
               "same chain of calls");
  EXPECT_ERROR(rows(40).shuffle(9, {.seed = 1}).batch(2).shard(2, 0, 2).take(5).resume(state),
               ErrorCode::kBadFormat, "same chain of calls");
  // If more calls follow, the shard is a part of the dataset.
  const auto zipped = [](int64_t index, int64_t block) {
    return zip({{"a", rows(8).shard(2, index, block)}, {"b", rows(8).shard(2, index, block)}});
  };
  Dataset first = zipped(0, 2);
  const std::string zipped_state = state_after(first, 2);
  EXPECT_ERROR(zipped(1, 2).resume(zipped_state), ErrorCode::kBadFormat, "same chain of calls");
  EXPECT_ERROR(zipped(0, 1).resume(zipped_state), ErrorCode::kBadFormat, "same chain of calls");
}

TEST(ShardState, OverAStreamBelongsToItsShard) {
  const std::vector<Dataset> datasets = {
      rows(30).filter(every_one),
      rows(30).map([](Element e) { return e; }, {.parallel = 2, .deterministic = false}),
  };
  for (const Dataset& dataset : datasets) {
    Dataset saving = dataset.shard(2, 0, 2), same = saving;
    const std::string state = state_after(saving, 4);
    EXPECT_EQ(rest_of(same.resume(state)).size(), 12u);
    EXPECT_ERROR(dataset.shard(2, 1, 2).resume(state), ErrorCode::kInvalidArgument,
                 "expected shard(2, 1, 2), got a state of shard(2, 0, 2)");
    EXPECT_ERROR(dataset.shard(4, 0).resume(state), ErrorCode::kInvalidArgument,
                 "expected shard(4, 0, 1), got a state of shard(2, 0, 2)");
    EXPECT_ERROR(Dataset(dataset).resume(state), ErrorCode::kInvalidArgument, "expected no shard");
    Dataset unsharded = dataset;
    EXPECT_ERROR(dataset.shard(2, 0, 2).resume(state_after(unsharded, 4)), ErrorCode::kInvalidArgument,
                 "got a state of no shard");
  }
}

TEST(Shards, WhatTheyLeaveOutTakesNoTime) {
  const Dataset many(std::make_shared<ManyRows>());
  constexpr int64_t kShards = int64_t{1} << 40, kLeft = ManyRows::kRows / kShards;
  Dataset shard = many.shard(kShards, 3);
  EXPECT_EQ(shard.size(), kLeft);
  int64_t expected = 3;
  for (const Element& element : shard) {
    EXPECT_EQ(value(element), expected);
    expected += kShards;
  }
  EXPECT_EQ(expected, 3 + kLeft * kShards);
  EXPECT_THAT(numbers_of(many.skip(ManyRows::kRows - 2)),
              ElementsAre(ManyRows::kRows - 2, ManyRows::kRows - 1));
  // Behind a shuffle of all, and in later epochs.
  Dataset batches =
      many.shuffle(ManyRows::kRows, {.seed = 3}).batch(2).shard(kShards / 4, 1, 2).skip(1000).take(3);
  const Elements first = epoch_of(batches), second = epoch_of(batches);
  EXPECT_EQ(first.size(), 3U);
  EXPECT_NE(first, second);
  Dataset again = batches;
  again.set_epoch(1);
  EXPECT_EQ(epoch_of(again), second);
  Dataset walked = many.shuffle(ManyRows::kRows, {.seed = 3}).batch(2).take(3);
  Dataset tail = many.shuffle(ManyRows::kRows, {.seed = 3}).batch(2).skip(1).take(2);
  const Elements all = epoch_of(walked), rest = epoch_of(tail);
  EXPECT_EQ(rest, Elements(all.begin() + 1, all.end()));
}

}  // namespace
}  // namespace isochron::data
