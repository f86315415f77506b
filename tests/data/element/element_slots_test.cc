#include "isochron/data/element/element_slots.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace isochron::data {
namespace {

Layout one_number() {
  Layout layout;
  layout.names = {"x"};
  layout.specs = {{DType::kI64, {}}};
  return layout;
}

TEST(ElementSlots, StayWhereTheyAreWhileTheTableGrows) {
  const Layout layout = one_number();
  ElementSlots slots(layout);
  std::vector<ElementSlots::Slot*> seen;
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(slots.take(), i);
    seen.push_back(&slots.at(i));
    slots.at(i).row = i;
  }
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 300u);
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(&slots.at(i), seen[static_cast<size_t>(i)]);
    EXPECT_EQ(slots.at(i).row, i);
  }
}

TEST(ElementSlots, AreTakenAgainOnceGivenBack) {
  const Layout layout = one_number();
  ElementSlots slots(layout);
  for (int i = 0; i < 3; ++i) slots.take();
  slots.give_back(std::vector<int64_t>{1, kNoRow});
  EXPECT_EQ(slots.take(), 1);
  EXPECT_EQ(slots.take(), 3);
}

TEST(ElementSlots, AreReadByOneThreadWhileAnotherTakesMore) {
  const Layout layout = one_number();
  ElementSlots slots(layout);
  const int64_t first = slots.take();
  slots.at(first).row = 7;
  std::thread other([&] {
    for (int i = 0; i < 2000; ++i) slots.take();
  });
  int64_t sum = 0;
  for (int i = 0; i < 2000; ++i) sum += slots.at(first).row;
  other.join();
  EXPECT_EQ(sum, 7 * 2000);
}

}  // namespace
}  // namespace isochron::data
