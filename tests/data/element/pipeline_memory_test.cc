// What all pipelines together may take.
#include "isochron/data/element/pipeline_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/pipeline/small_datasets.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

TEST(PipelineMemory, IsBoundedByTheBudget) {
  const size_t budget = memory_budget_bytes();
  EXPECT_GT(budget, size_t{16} << 20);
  EXPECT_LE(budget, available_memory_bytes());
  const size_t before = memory_in_use_bytes();
  const auto wide = Dataset(Element{{"x", empty({DType::kF32, {64, 1 << 16}})}});  // 256 KiB a row
  {
    auto batches = wide.batch(8).prefetch();
    for (const Element& batch : batches) ASSERT_EQ(batch["x"].extent(0), 8);
    EXPECT_GE(memory_in_use_bytes() - before, size_t{8} * (size_t{1} << 21)) << "at least what is prefetched";
  }
  EXPECT_EQ(memory_in_use_bytes(), before) << "given back";
  set_memory_budget(before + (size_t{9} << 20));  // room for four batches
  {
    auto batches = wide.batch(8).prefetch();
    for (const Element& batch : batches) ASSERT_EQ(batch["x"].extent(0), 8);
    EXPECT_EQ(batches.stats().elements_ahead, 3) << "of four that fit; the rest is for maps and buffers";
    EXPECT_LE(memory_in_use_bytes(), memory_budget_bytes());
  }
  auto fixed = wide.batch(8).prefetch(10);
  EXPECT_ERROR(epoch_of(fixed), ErrorCode::kOutOfMemory, "would exceed the budget");
  EXPECT_ERROR(wide.cache(), ErrorCode::kOutOfMemory, "would exceed the budget");
  set_memory_budget(budget);
  EXPECT_EQ(memory_in_use_bytes(), before);
}

/// While it exists, `bytes` bytes of the budget are left.
class BudgetLeft {
 public:
  explicit BudgetLeft(size_t bytes) { set_memory_budget(memory_in_use_bytes() + bytes); }
  ~BudgetLeft() { set_memory_budget(before_); }
  BudgetLeft(const BudgetLeft&) = delete;
  BudgetLeft& operator=(const BudgetLeft&) = delete;

 private:
  size_t before_ = memory_budget_bytes();
};

TEST(PipelineMemory, OneElementAlwaysMoves) {
  constexpr int64_t kWide = 1 << 16;  // f32, 256 KiB
  const auto widened = [](const Element& e) {
    const Tensor result = empty({DType::kF32, {kWide}});
    std::ranges::fill(result.span<float>(), static_cast<float>(value(e)));
    return Element{{"x", result}};
  };
  const auto wide_into = [](const Element& e, ElementBuffer& out, const Position&) {
    std::fill_n(reinterpret_cast<float*>(out.room(0)), kWide, static_cast<float>(value(e)));
  };
  const Dataset by_map = rows(40).map(widened, {.parallel = 24});
  const Dataset into = rows(40).map_into({"x"}, {{DType::kF32, {kWide}}}, wide_into, {.parallel = 24});
  for (const Dataset& made : {by_map, into}) {
    for (const size_t left : {size_t{300} << 10, size_t{1} << 20, size_t{4} << 20}) {
      const BudgetLeft budget(left);
      Dataset dataset = made;
      int64_t at = 0;
      for (const Element& element : dataset) {
        EXPECT_EQ(element["x"].data<float>()[0], static_cast<float>(at++));
        EXPECT_LE(memory_in_use_bytes(), memory_budget_bytes());
      }
      EXPECT_EQ(at, 40);
    }
  }
  const BudgetLeft budget(size_t{200} << 10);
  Dataset none = into;
  EXPECT_ERROR(none.begin(), ErrorCode::kOutOfMemory, "would exceed the budget");
}

TEST(PipelineMemory, OfTinyElementsIsBoundedToo) {
  const BudgetLeft budget(size_t{4} << 20);
  {
    Dataset held = rows(1'000'000).filter([](const Element&) { return true; }).shuffle(1'000'000);
    EXPECT_ERROR(epoch_of(held), ErrorCode::kOutOfMemory, "would exceed the budget");
    EXPECT_LE(memory_in_use_bytes(), memory_budget_bytes());
  }
  Dataset fits = rows(10'000).filter([](const Element&) { return true; }).shuffle(1000);
  EXPECT_EQ(epoch_of(fits).size(), 10'000u);
}

}  // namespace
}  // namespace isochron::data
