// Work ahead of the consumer never delays the consumer: searches without a result end when the consumer moves
// elsewhere or asks for the state, and errors wait until the consumer reaches them.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "data/pipeline/small_datasets.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/source.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/stages/buckets.h"
#include "isochron/data/stages/combine.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace isochron::data {
namespace {

std::vector<double> rest_of(Dataset::Iterator at) {
  std::vector<double> result;
  for (; at != std::default_sentinel; ++at) {
    for (double x : (*at)[0].to_vector()) result.push_back(x);
  }
  return result;
}

/// A filter that keeps the next `left` elements and none after that.
struct Desert {
  std::atomic<int64_t> left{0}, searched{0};

  bool keep() {
    if (left > 0 && left-- > 0) return true;
    ++searched;
    return false;
  }
  void wait_for_a_search() const {
    for (const int64_t before = searched; searched < before + 100;) std::this_thread::yield();
  }
};

using Keep = std::function<bool(const Element&)>;

struct Chain {
  const char* name;
  int64_t first;  // elements that the filter must keep for the first element of the chain
  std::function<Dataset(const Dataset&, const Keep&)> make;
};

/// Chains over a dataset and its filter, whose workers may search a long time for an element.
const std::vector<Chain>& chains() {
  using D = const Dataset&;
  using K = const Keep&;
  static const std::vector<Chain> all = {
      {"filter", 1, [](D d, K keep) { return d.filter(keep).prefetch(2); }},
      {"skip", 4, [](D d, K keep) { return d.filter(keep).skip(3).prefetch(2); }},
      {"take", 1, [](D d, K keep) { return d.filter(keep).take(900).prefetch(2); }},
      {"shard", 2, [](D d, K keep) { return d.filter(keep).shard(3, 1).prefetch(2); }},
      {"shard in blocks", 3, [](D d, K keep) { return d.filter(keep).shard(3, 1, 2).prefetch(2); }},
      {"shuffle", 41, [](D d, K keep) { return d.filter(keep).shuffle(40).prefetch(2); }},
      {"batch", 7, [](D d, K keep) { return d.filter(keep).batch(7, {.drop_remainder = true}).prefetch(2); }},
      {"batch of a shuffle", 19,
       [](D d, K keep) {
         return d.filter(keep).shuffle(5).batch(7, {.pad_remainder = true}).shuffle(1).prefetch(2);
       }},
      {"map", 1,
       [](D d, K keep) { return d.filter(keep).map([](Element e) { return e; }, {.parallel = 3}); }},
      {"threads that read threads", 6,
       [](D d, K keep) {
         return d.filter(keep).prefetch(2).filter([](const Element&) { return true; }).shuffle(5).prefetch(2);
       }},
      {"interleave of it", 1,
       [](D d, K keep) {
         return d
             .interleave([keep](const Element& e) { return Dataset(e).batch(1).filter(keep); }, {.cycle = 3})
             .prefetch(2);
       }},
      {"interleave in it", 1,
       [](D d, K keep) {
         return rows(3)
             .batch(1)
             .interleave([d, keep](const Element&) { return d.filter(keep).take(30); }, {.cycle = 2})
             .prefetch(2);
       }},
      {"unbatch", 2,
       [](D d, K keep) {
         return d.filter(keep).batch(2, {.drop_remainder = true}).prefetch(1).unbatch().prefetch(2);
       }},
      {"buckets", 3,
       [](D d, K keep) {
         return bucket_by_sequence_length(
                    d.filter(keep).map([](Element e) { return e; },
                                       {.result = {spec_of(DType::kI64, {kAnyExtent})}}),
                    [](const Element& e) { return e[0].extent(0); }, {.longest = {4}, .batch_elems = {3}})
             .prefetch(2);
       }},
      {"zip", 1,
       [](D d, K keep) {
         return zip({{"a", d}, {"b", d.filter(keep)}, {"c", d.prefetch(1)}}).prefetch(2);
       }},
      {"sample", 1,
       [](D d, K keep) {
         return sample_from_datasets({d.filter(keep), d.filter(keep)}, {1, 1}).prefetch(2);
       }},
      {"concatenate", 0,
       [](D d, K keep) { return concatenate(rows(2).batch(1), d.filter(keep).take(900)).prefetch(2); }},
  };
  return all;
}

TEST(Interrupt, EndsASearchThatFindsNothing) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    Desert desert;
    const auto searching = [&] {
      desert.left = 10;  // some are made to learn from
      Dataset dataset = chain.make(rows(50).batch(1).repeat(), [&](const Element&) { return desert.keep(); });
      desert.left = chain.first;
      dataset.begin();
      desert.wait_for_a_search();
      return dataset;
    };
    {
      Dataset dataset = searching();
      const std::string state = dataset.state();
      desert.wait_for_a_search();  // the search continues
      desert.left = 1000;
      EXPECT_NE(dataset.resume(state), std::default_sentinel);
    }
    {
      Dataset dataset = searching();
      desert.left = 1000;
      EXPECT_NE(dataset.begin(), std::default_sentinel);
    }
    searching();  // and destroyed
  }
}

/// The length of a long i64 dataset; `is_rare` keeps few of its elements.
constexpr int64_t kMany = 9'000;
bool is_rare(const Element& element) { return element[0].to_vector()[0] < 20 || value(element) % 900 < 2; }

TEST(Interrupt, OfTheStateLosesNothing) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    const auto make = [&] { return chain.make(rows(kMany).batch(1), is_rare); };
    Dataset whole = make();
    const std::vector<double> expected = rest_of(whole.begin());
    ASSERT_FALSE(expected.empty());
    Dataset paused = make(), resumed = make();
    std::vector<double> seen;
    auto at = paused.begin();
    for (int taken = 0; at != std::default_sentinel; ++at, ++taken) {
      for (double x : (*at)[0].to_vector()) seen.push_back(x);
      if (taken > (kSanitizer ? 3 : 15)) continue;
      const std::string state = paused.state();  // the workers are looking for the next element
      std::vector<double> all = seen;
      for (double x : rest_of(resumed.resume(state))) all.push_back(x);
      ASSERT_EQ(all, expected) << "after " << taken;
    }
    EXPECT_EQ(seen, expected);
  }
}

TEST(Interrupt, EndsADeepSkip) {
  for (bool deterministic : {true, false}) {
    Dataset deep = rows(10)
                       .repeat()
                       .map([](Element e) { return e; }, {.parallel = 2, .deterministic = deterministic})
                       .take(5)
                       .repeat()
                       .shard(int64_t{1} << 50, 0)
                       .prefetch(2);
    auto at = deep.begin();
    EXPECT_EQ(value(*at), 0);
    const std::string state = deep.state();
    EXPECT_EQ(value(*deep.begin()), 0);
  }
}

TEST(Interrupt, DoesNotReachGenerators) {
  // A generator that reads a dataset of its own would lose an element.
  const auto make = [] {
    return from_generator({"x"}, {{DType::kI64, {1}}},
                          [](uint64_t) {
                            auto own = std::make_shared<Dataset>(rows(kMany).batch(1).filter(is_rare));
                            return [own, at = own->begin()](ElementBuffer& buffer) mutable {
                              if (at == std::default_sentinel) return false;
                              buffer.copy(*at, "test");
                              ++at;
                              return true;
                            };
                          })
        .prefetch(2);
  };
  Dataset whole = make();
  const std::vector<double> expected = rest_of(whole.begin());
  Dataset paused = make();
  std::vector<double> seen;
  for (const Element& element : paused) {
    seen.push_back(static_cast<double>(value(element)));
    static_cast<void>(paused.state());
  }
  EXPECT_EQ(seen, expected);
}

TEST(Interrupt, OfTheStateLeavesErrorsToTheirPlace) {
  struct Failing {
    const char* name;
    std::function<Dataset(std::function<void(int64_t)>)> make;
    const char* message;
  };
  const Failing all[] = {
      {"a stream",
       [](auto check) {
         return rows(20).filter([check](const Element& e) { return check(value(e)), true; }).prefetch(15);
       },
       "[filter (stage 2)] element 9 of epoch 0: bad"},
      {"a map",
       [](auto check) {
         return rows(20)
             .filter([](const Element&) { return true; })
             .map([check](Element e) { return check(value(e)), e; }, {.parallel = 2})
             .prefetch(15);
       },
       "[map (stage 3)] element 9 of epoch 0, row 9: bad"},
      {"a stage below",
       [](auto check) {
         return rows(20)
             .filter([](const Element&) { return true; })
             .map([check](Element e) { return check(value(e)), e; })
             .prefetch(15)
             .filter([](const Element&) { return true; })
             .prefetch(1);
       },
       "[map (stage 3)] element 9 of epoch 0, row 9: bad"},
  };
  for (const Failing& failing : all) {
    SCOPED_TRACE(failing.name);
    std::atomic<bool> armed{false}, thrown{false};
    const auto make = [&] {
      return failing.make([&](int64_t x) {
        if (!armed || x != 9) return;
        thrown = true;
        throw std::runtime_error("bad");
      });
    };
    Dataset dataset = make(), resumed = make();
    armed = true;
    auto at = dataset.begin();
    while (!thrown) std::this_thread::yield();
    std::string state = dataset.state();
    for (int i = 0; i < 3; ++i, ++at) state = dataset.state();
    armed = false;  // the resumed dataset meets the saved error
    auto other = resumed.resume(state);
    EXPECT_EQ(value(*other), 3);
    const auto consume = [](Dataset::Iterator& from) {
      std::vector<int64_t> seen;
      for (; from != std::default_sentinel; ++from) seen.push_back(value(*from));
      return seen;
    };
    EXPECT_ERROR(consume(at), ErrorCode::kInvalidArgument, failing.message);
    EXPECT_ERROR(consume(other), ErrorCode::kInvalidArgument, failing.message);
    EXPECT_EQ(rest_of(resumed.begin()).size(), 20u) << "the next epoch is whole";
    EXPECT_EQ(rest_of(dataset.begin()).size(), 20u);
  }
}

TEST(Errors, OfUsersFunctionsNameStageAndElement) {
  const auto consume = [](Dataset dataset) { return rest_of(dataset.begin()).size(); };
  const auto bad_at = [](int64_t bad) {
    return [bad](const Element& e) {
      if (value(e) == bad) throw std::runtime_error("bad");
      return true;
    };
  };
  EXPECT_ERROR(consume(rows(9).skip(2).filter(bad_at(5))), ErrorCode::kInvalidArgument,
               "[filter (stage 3)] element 3 of epoch 0: bad");
  const auto datasets = [](const Element& e) {
    require(value(e) != 4, ErrorCode::kUnsupported, "test", "bad");
    return rows(2);
  };
  EXPECT_ERROR(consume(rows(9).flat_map(datasets)), ErrorCode::kUnsupported,
               "[flat_map (stage 2)] element 4 of epoch 0: [test] bad");
  EXPECT_ERROR(consume(rows(9).interleave(datasets)), ErrorCode::kUnsupported,
               "[interleave (stage 2)] element 4 of epoch 0: [test] bad");
  EXPECT_ERROR(
      consume(rows(9).flat_map([](const Element& e) { return value(e) == 4 ? rows(2).batch(2) : rows(2); })),
      ErrorCode::kShapeMismatch,
      "[flat_map (stage 2)] element 4 of epoch 0: [flat_map] expected a dataset of");
  const auto ragged = from_generator({"x"}, {spec_of(DType::kI64, {kAnyExtent})}, [](uint64_t) {
    return [n = int64_t{0}](ElementBuffer& buffer) mutable {
      buffer.room(0, {++n});
      return n < 10;
    };
  });
  EXPECT_ERROR(consume(ragged.padded_batch(3, {.drop_remainder = true, .shapes = {{"x", {5}}}})),
               ErrorCode::kShapeMismatch, "[padded_batch (stage 2)] element 5 of epoch 0, row 5: ");
  const auto length = [](const Element& e) {
    require(e[0].extent(0) != 3, ErrorCode::kUnsupported, "test", "bad");
    return e[0].extent(0);
  };
  EXPECT_ERROR(consume(bucket_by_sequence_length(ragged, length, {.longest = {9}, .batch_elems = {2}})),
               ErrorCode::kUnsupported,
               "[bucket_by_sequence_length (stage 2)] element 2 of epoch 0: [test] bad");
  EXPECT_ERROR(consume(bucket_by_sequence_length(ragged, [](const Element&) { return 1; },
                                                 {.longest = {4}, .batch_elems = {2}})),
               ErrorCode::kShapeMismatch, "[bucket_by_sequence_length (stage 2)] element 4 of epoch 0: ");
}

/// Five rows, of which row 3 can't be read.
class DamagedRows final : public RowSource {
 public:
  explicit DamagedRows(bool typed) : typed_(typed) {}
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return 5; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    if (position.row == 3 && typed_) fail(ErrorCode::kIo, "rows.bin", "row 3 is cut off");
    if (position.row == 3) throw std::runtime_error("the disk broke");
    *reinterpret_cast<float*>(into[0]) = static_cast<float>(position.row);
  }

 private:
  bool typed_;
  Layout layout_{{"x"}, {{DType::kF32, {}}}};
};

TEST(Errors, OfASourceNameTheRow) {
  for (const bool batched : {false, true}) {
    const auto read_all = [&](bool typed) {
      Dataset dataset(std::make_shared<DamagedRows>(typed));
      if (batched) dataset = dataset.batch(2, {.drop_remainder = true});
      int64_t elements = 0;
      for (auto& element : dataset) elements += element.size();
      return elements;
    };
    EXPECT_ERROR(read_all(false), ErrorCode::kInvalidArgument, "[source (stage 0)] element ");
    EXPECT_ERROR(read_all(false), ErrorCode::kInvalidArgument, ", row 3: the disk broke");
    EXPECT_ERROR(read_all(true), ErrorCode::kIo, "[rows.bin] row 3 is cut off");
  }
}

}  // namespace
}  // namespace isochron::data
