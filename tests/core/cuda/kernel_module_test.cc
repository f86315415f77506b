// The text of a plan's device code.
#include "isochron/core/cuda/kernel_module.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

TEST(KernelModule, EqualTextIsOneFunctionWithAPlaceOfItsOwnForEachLaunchToCountIn) {
  KernelModule module(std::make_shared<SimulatedContext>(), {});
  const std::string text = "void @() {}\nvoid @_join() {}\n";
  const std::string name = module.add_named("sum", text);
  EXPECT_EQ(module.add_named("mean", text), name);
  EXPECT_EQ(module.text(), "void " + name + "() {}\nvoid " + name + "_join() {}\n");
  EXPECT_NE(module.add_named("sum", "void @(int) {}\n"), name);
  EXPECT_EQ(module.add_function(name), module.add_function(name));
  EXPECT_NE(module.add_function(name), module.add_function(name + "_join"));
  EXPECT_EQ(module.add_arrivals(3), 0u);
  EXPECT_EQ(module.add_arrivals(1), 3u);
  EXPECT_ERROR(module.add_arrivals(int64_t{1} << 31), ErrorCode::kUnsupported, "more blocks that wait");
}

TEST(KernelModule, WhatWaitsForItsLoadIsCalledEvenWhereThereIsNoText) {
  KernelModule module(std::make_shared<SimulatedContext>(), {});
  std::vector<int> called;
  for (const int number : {1, 2}) module.after_load([&called, number] { called.push_back(number); });
  EXPECT_TRUE(called.empty());
  module.load();
  EXPECT_EQ(called, (std::vector{1, 2}));
}

}  // namespace
}  // namespace isochron::cuda
