// An iteration that is saved and resumed gives the same elements as an uninterrupted one, in the same order,
// in this epoch and the next.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/stages/buckets.h"
#include "isochron/data/stages/combine.h"
#include "isochron/data/stages/windows.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

Element plus_hundred(Element element) {
  const Tensor result = empty(element["x"].spec());
  for (int64_t i = 0; i < result.elems(); ++i)
    result.data<int64_t>()[i] = element["x"].data<int64_t>()[i] + 100;
  return Element{{"x", result}};
}

void place(Element& element, const Position& position) {
  const Tensor result = empty({DType::kI64, {}});
  // A damaged state may contain any epoch, so this is computed modulo 2^64.
  *result.data<int64_t>() =
      static_cast<int64_t>(1000 * position.epoch + static_cast<uint64_t>(position.element));
  element.add("place", result);
}

bool not_of_three(const Element& element) { return element["x"].item<int64_t>() % 3 != 0; }

/// i64 (n % 17) of n for n = 1, 2, ..., count.
Dataset ragged_rows(int64_t count) {
  return from_generator({"x"}, {spec_of(DType::kI64, {kAnyExtent})}, [count](uint64_t epoch) {
    return [count, epoch, n = int64_t{0}](ElementBuffer& buffer) mutable {
      if (n == count) return false;
      ++n;
      auto* to = reinterpret_cast<int64_t*>(buffer.room(0, {n % 17}));
      std::fill_n(to, n % 17, n + static_cast<int64_t>(100 * epoch));
      return true;
    };
  });
}

struct ResumedChain {
  const char* name;
  std::function<Dataset()> make;
  bool over_rows = true;  // its state is a place
};

const std::vector<ResumedChain>& chains() {
  static const std::vector<ResumedChain> all = {
      {"rows", [] { return rows(11); }},
      {"batches", [] { return rows(11).batch(4); }},
      {"shuffled", [] { return rows(60).shuffle(7, {.seed = 3}).batch(4); }},
      {"shuffled whole", [] { return rows(60).shuffle(60, {.seed = 3}).batch(4); }},
      {"shuffled in a buffer larger than the rows of a pass",
       [] { return rows(700).repeat().shuffle(1500, {.seed = 3}).take(40).batch(4); }},
      {"shuffled twice", [] { return rows(40).shuffle(9).shuffle(5, {.seed = 8}).batch(3); }},
      {"permuted", [] { return rows(5000).shuffle(5000).batch(700); }},
      {"permuted batches", [] { return rows(10000).batch(2).shuffle(5000).batch(900); }},
      {"shuffled batches", [] { return rows(33).batch(4).shuffle(3); }},
      {"repeated", [] { return rows(7).shuffle(7).repeat(3).batch(4); }},
      {"repeated, then shuffled", [] { return rows(7).repeat(3).shuffle(5).batch(4); }},
      {"cut", [] { return rows(30).skip(3).take(20).shard(3, 1).shuffle(3).skip(1); }},
      {"sharded", [] { return rows(60).shuffle(7).batch(4).shard(3, 1); }},
      {"sharded in blocks", [] { return rows(59).shuffle(7).batch(3).shard(3, 1, 2).prefetch(2); }},
      {"sharded, then batches", [] { return rows(60).shuffle(60).shard(3, 2, 4).shuffle(9).batch(3); }},
      {"permuted batches, sharded", [] { return rows(5000).shuffle(5000).batch(90).shard(2, 1, 3); }},
      {"endless", [] { return rows(5).shuffle(3).repeat().batch(2).take(17); }},
      {"mapped", [] { return rows(30).map(plus_hundred).shuffle(8).batch(4).map(plus_hundred); }},
      {"prefetched", [] { return rows(60).shuffle(7).batch(4).prefetch(3); }},
      {"by three threads", [] { return rows(60).map(plus_hundred, {.parallel = 3}).shuffle(7).batch(4); }},
      {"padded at the end", [] { return rows(10).batch(4, {.pad_remainder = true}); }},
      {"cached", [] { return rows(20).filter(not_of_three).cache().shuffle(5).batch(3); }},
      {"filtered", [] { return rows(40).filter(not_of_three); }, false},
      {"filtered and shuffled",
       [] { return rows(40).shuffle(9).filter(not_of_three).shuffle(6).batch(3, {.drop_remainder = true}); },
       false},
      {"filtered, shuffled, ahead",
       [] {
         return rows(40)
             .prefetch(2)
             .filter(not_of_three)
             .shuffle(6)
             .repeat(2)
             .batch(3, {.pad_remainder = true})
             .prefetch(2);
       },
       false},
      {"filtered by threads",
       [] { return rows(40).filter(not_of_three).map(plus_hundred, {.parallel = 3}).take(21).prefetch(4); },
       false},
      {"filtered, cut", [] { return rows(60).filter(not_of_three).skip(2).shard(3, 2).take(9); }, false},
      {"filtered, sharded", [] { return rows(60).filter(not_of_three).shard(2, 1, 3); }, false},
      {"filtered, sharded, ahead",
       [] { return rows(60).filter(not_of_three).shuffle(5).shard(3, 0, 2).prefetch(3).skip(1); }, false},
      {"sharded without order but by one thread",
       [] { return rows(40).map(plus_hundred, {.deterministic = false}).shard(2, 1, 3); }, false},
      {"filtered, endless", [] { return rows(7).filter(not_of_three).repeat().take(13); }, false},
      {"unbatched", [] { return rows(22).batch(4).unbatch().shuffle(4); }, false},
      {"interleaved",
       [] {
         return rows(7).interleave(
             [](const Element& element) {
               return rows(1 + static_cast<int64_t>(static_cast<uint64_t>(element["x"].item<int64_t>()) % 16))
                   .shuffle(3);
             },
             {.cycle = 3, .block = 2});
       },
       false},
      {"flat", [] { return rows(5).flat_map([](const Element&) { return rows(4); }).prefetch(2); }, false},
      {"joined", [] { return concatenate(rows(9), rows(5).map(plus_hundred)).shuffle(4).batch(4); }},
      {"joined in new orders",
       [] { return concatenate(rows(9).shuffle(4), rows(5)).repeat(2).batch(4, {.drop_remainder = true}); },
       false},
      {"joined streams", [] { return concatenate(rows(9).filter(not_of_three), rows(5)).prefetch(3); },
       false},
      {"zipped",
       [] {
         return zip({{"a", rows(12)}, {"b", rows(15).map(plus_hundred)}}).shuffle(5).batch(4);
       }},
      {"told of their places, zipped",
       [] {
         return zip({{"a", rows(12).map_with_position(place).batch(2)}}).repeat(3).shuffle(5).batch(3);
       }},
      {"told of their places, joined",
       [] {
         return concatenate(rows(7).map_with_position(place),
                            rows(5).map_with_position(place, {.parallel = 2}))
             .repeat(2)
             .shuffle(5)
             .batch(3)
             .shard(2, 1);
       }},
      {"zipped in new orders",
       [] {
         return zip({{"a", rows(12).shuffle(4)}, {"b", rows(15)}}).shuffle(5);
       },
       false},
      {"endless in endless", [] { return rows(6).shuffle(6).repeat().take(9).repeat().take(20).batch(3); }},
      {"batches shuffled as a stream",
       [] { return rows(40).filter(not_of_three).batch(3, {.drop_remainder = true}).shuffle(4); }, false},
      {"zipped streams",
       [] {
         return zip({{"a", rows(30).filter(not_of_three)}, {"b", rows(15)}});
       },
       false},
      {"in buckets",
       [] {
         return bucket_by_sequence_length(
                    ragged_rows(30), [](const Element& e) { return e["x"].extent(0); },
                    {.longest = {4, 9, 17}, .batch_elems = {2, 3, 4}, .drop_remainder = false})
             .prefetch(2);
       },
       false},
      {"generated", [] { return ragged_rows(9).shuffle(4).padded_batch(3, {.drop_remainder = true}); },
       false},
      {"batches filled up, in batches",
       [] {
         return rows(25)
             .filter(not_of_three)
             .batch(3, {.pad_remainder = true})
             .repeat(2)
             .shuffle(3)
             .batch(2, {.drop_remainder = true});
       },
       false},
      {"windows", [] { return from_windows(numbers(30), {.length = 4, .horizon = 1}).shuffle(9).batch(4); }},
      {"into memory",
       [] {
         return rows(30)
             .map_into({"x"}, {{DType::kI64, {}}},
                       [](const Element& in, ElementBuffer& out, const Position&) {
                         *reinterpret_cast<int64_t*>(out.room(0)) = 7 - in["x"].item<int64_t>();
                       },
                       {.parallel = 2})
             .shuffle(8)
             .batch(4);
       }},
      {"sampled",
       [] {
         return sample_from_datasets({rows(9), rows(20).map(plus_hundred)}, {0.3, 0.7}, {.seed = 4});
       },
       false},
  };
  return all;
}

/// All numbers of an element, and how many of them count.
std::vector<double> counted_numbers(const Element& element) {
  std::vector<double> result;
  for (int i = 0; i < element.size(); ++i) {
    for (double value : element[i].to_vector()) result.push_back(value);
  }
  return result;
}

using Elements = std::vector<std::vector<double>>;

Elements all_rest_of(Dataset::Iterator at) {
  Elements result;
  for (; at != std::default_sentinel; ++at) result.push_back(counted_numbers(*at));
  return result;
}

TEST(Resume, GoesOnAtEveryPlaceOfEveryChain) {
  for (const ResumedChain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    constexpr int kEpochs = 3;
    std::vector<Elements> whole;
    Dataset reference = chain.make();
    for (int epoch = 0; epoch < kEpochs; ++epoch) whole.push_back(all_rest_of(reference.begin()));
    ASSERT_FALSE(whole[0].empty());
    for (int epoch = 0; epoch + 1 < kEpochs; ++epoch) {
      for (size_t taken = 1;
           taken <= whole[1].size() + 1 && taken <= whole[static_cast<size_t>(epoch)].size() + 1; ++taken) {
        Dataset first = chain.make();
        for (int before = 0; before < epoch; ++before) all_rest_of(first.begin());
        auto at = first.begin();
        for (size_t i = 1; i < taken; ++i) ++at;
        const std::string state = first.state();
        if (chain.over_rows) {
          EXPECT_LT(state.size(), 100u);
        }
        // The same object, a new one, and one at another position.
        Dataset fresh = chain.make(), elsewhere = chain.make();
        all_rest_of(elsewhere.begin());
        elsewhere.begin();
        for (Dataset* second : {&fresh, &elsewhere, &first}) {
          const Elements& expected = whole[static_cast<size_t>(epoch)];
          const auto from = expected.begin() + static_cast<ptrdiff_t>(std::min(taken, expected.size()));
          ASSERT_EQ(all_rest_of(second->resume(state)), Elements(from, expected.end()))
              << "epoch " << epoch << ", after " << taken;
          ASSERT_EQ(all_rest_of(second->begin()), whole[static_cast<size_t>(epoch) + 1])
              << "the epoch after " << epoch << ", after " << taken;
        }
      }
    }
  }
}

TEST(Resume, FromBeforeTheFirstElementBeginsAnew) {
  Dataset dataset = rows(10).shuffle(4).batch(3);
  const std::string state = dataset.state();
  const Elements first = all_rest_of(dataset.begin());
  EXPECT_EQ(all_rest_of(dataset.resume(state)), Elements{}) << "no epoch was begun";
  EXPECT_EQ(all_rest_of(dataset.begin()), first);
}

TEST(Resume, OfOneMillionShuffledRowsIsAPlace) {
  Dataset dataset = rows(1'000'000).shuffle(1'000'000, {.seed = 5}).batch(100).prefetch();
  auto at = dataset.begin();
  for (int i = 0; i < 5000; ++i) ++at;
  const std::string state = dataset.state();
  EXPECT_LE(state.size(), 4096u);
  ++at;
  const std::vector<double> next = counted_numbers(*at);
  Dataset other = rows(1'000'000).shuffle(1'000'000, {.seed = 5}).batch(100).prefetch();
  EXPECT_EQ(counted_numbers(*other.resume(state)), next);
}

TEST(Resume, WithoutOrderLosesAndRepeatsNothing) {
  // A permutation has no place of its own to say where it stands.
  auto permuted = [] {
    return rows(5000)
        .shuffle(5000)
        .map(plus_hundred, {.parallel = 2, .deterministic = false})
        .batch(10)
        .prefetch(3);
  };
  Dataset whole = permuted(), rest = permuted();
  std::vector<double> numbers_seen;
  auto first = whole.begin();
  for (int i = 0; i < 100; ++i, ++first) {
    for (double x : counted_numbers(*first)) numbers_seen.push_back(x);
  }
  for (double x : counted_numbers(*first)) numbers_seen.push_back(x);
  for (const auto& element : all_rest_of(rest.resume(whole.state()))) {
    numbers_seen.insert(numbers_seen.end(), element.begin(), element.end());
  }
  std::ranges::sort(numbers_seen);
  EXPECT_EQ(numbers_seen.size(), 5000u);
  EXPECT_EQ(std::ranges::adjacent_find(numbers_seen), numbers_seen.end());

  const auto make = [] {
    return rows(200).map(plus_hundred, {.parallel = 4, .deterministic = false}).prefetch(5);
  };
  for (int taken : {1, 7, 100, 199, 200}) {
    Dataset dataset = make();
    std::vector<double> seen;
    auto at = dataset.begin();
    for (int i = 0; i < taken; ++i) {
      if (i > 0) ++at;
      seen.push_back(counted_numbers(*at)[0]);
    }
    Dataset second = make();
    for (const auto& element : all_rest_of(second.resume(dataset.state()))) seen.push_back(element[0]);
    std::ranges::sort(seen);
    std::vector<double> all(200);
    std::iota(all.begin(), all.end(), 100.0);
    EXPECT_EQ(seen, all) << "after " << taken;
    EXPECT_EQ(all_rest_of(second.begin()).size(), 200u);
  }
}

TEST(Resume, AfterAnErrorTheNextEpochIsWhole) {
  for (int64_t prefetch : {0, 3}) {
    bool armed = true;
    const auto make = [&] {
      Dataset dataset = from_generator({"x"}, {{DType::kI64, {}}}, [&](uint64_t epoch) {
        return [&, epoch, n = int64_t{0}](ElementBuffer& buffer) mutable {
          if (n == 20) return false;
          if (armed && epoch == 0 && n == 12) throw std::runtime_error("bad");
          *reinterpret_cast<int64_t*>(buffer.room(0)) = 1000 * static_cast<int64_t>(epoch) + n++;
          return true;
        };
      });
      dataset = dataset.shuffle(6, {.seed = 2});
      return prefetch == 0 ? dataset : dataset.prefetch(prefetch);
    };
    Dataset dataset = make(), other = make(), unbroken = make();
    const auto consume = [&] { return all_rest_of(dataset.begin()).size(); };
    EXPECT_ANY_THROW(consume());
    const std::string state = dataset.state();
    armed = false;
    all_rest_of(unbroken.begin());
    const Elements expected = all_rest_of(unbroken.begin());
    EXPECT_EQ(all_rest_of(dataset.begin()), expected);
    EXPECT_EQ(all_rest_of(other.resume(state)), Elements{});
    EXPECT_EQ(all_rest_of(other.begin()), expected);
  }
}

TEST(Resume, RefusesForeignAndDamagedStatesAndGoesOnFromTheBeginning) {
  for (const ResumedChain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    Dataset dataset = chain.make();
    auto at = dataset.begin();
    ++at;
    const std::string state = dataset.state();
    EXPECT_ERROR(rows(12345).resume(state), ErrorCode::kBadFormat, "that of another dataset");
    Dataset victim = chain.make();
    const Elements whole = all_rest_of(victim.begin());
    for (size_t length = 0; length < state.size(); length += 1 + state.size() / 97) {
      EXPECT_ERROR(victim.resume(state.substr(0, length)), ErrorCode::kBadFormat, "dataset state");
    }
    EXPECT_ERROR(victim.resume(state + "x"), ErrorCode::kBadFormat, "its end");
    EXPECT_EQ(all_rest_of(victim.begin()), whole) << "epoch 0 again";
    // Words that no state has, one at a time.
    for (size_t word = 8; word + 8 <= state.size(); word += 8 * (1 + state.size() / 800)) {
      for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} >> 1}) {
        std::string damaged = state;
        std::memcpy(damaged.data() + word, &value, 8);
        try {
          auto resumed = victim.resume(damaged);
          for (int i = 0; i < 5 && resumed != std::default_sentinel; ++i) ++resumed;
        } catch (const Error&) {
        }
      }
    }
    // A flipped byte is refused, or gives another place or other numbers; nothing worse.
    for (size_t byte = 8; byte < state.size(); byte += 1 + state.size() / 97) {
      std::string damaged = state;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 0x41);
      try {
        auto resumed = victim.resume(damaged);
        for (int i = 0; i < 5 && resumed != std::default_sentinel; ++i) ++resumed;
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace isochron::data
