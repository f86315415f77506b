// Sealed loops: the test plants each kind of object that an iteration may create. The error names the object
// and the function that created it; a clean loop passes.
#include "isochron/core/telemetry/sealed.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "isochron/apps/allocation_counter.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/process/threads.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Never inlined, cloned or merged: each must be found by its name in a stack.
#define PLANTED [[gnu::noipa]] void

const Tensor& kept_after() {
  static const Tensor tensor = full({4}, 1.0);
  return tensor;
}

PLANTED plant_heap_allocation() {
  void* block = std::malloc(1234);
  asm volatile("" : : "r"(block) : "memory");  // or it would be left out
  std::free(block);
}
PLANTED plant_pool_allocation() {
  default_allocator().deallocate(default_allocator().allocate(4321, "planted"), 4321);
}
PLANTED plant_tensor() { static_cast<void>(Tensor::over(kept_after().storage(), {DType::kF32, {4}}, 0)); }
PLANTED plant_graph_node() {
  graph::Graph graph;
  graph::Capture capture(graph);
  const Tensor x = graph::Graph::tensor_of(graph.add_input({DType::kF32, {4}}));
  static_cast<void>(x + x);
  capture.finish();
}
PLANTED plant_tape_entry() {
  GradientTape tape;
  const Tensor doubled = kept_after() + kept_after();
}
PLANTED plant_thread() {
  std::thread([] {}).join();
}
PLANTED plant_file_handle() {
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) std::fclose(file);
}
PLANTED plant_plan() {
  graph::Graph graph;
  graph.add_input({DType::kF32, {4}});
  graph.outputs().push_back(graph.inputs()[0]);
  const graph::Plan plan(graph);
}
PLANTED plant_retrace(Captured<Tensor (*)(const Tensor&)>& step, const Tensor& unseen) { step(unseen); }

/// The text of the error of a loop whose third step calls `plant`, empty without an error.
template <typename Plant>
std::string error_of(const Plant& plant) {
  Seal seal;
  try {
    for (int64_t step = 1; step <= 5; ++step) {
      {
        const SealedSection section(&seal);
        if (step == 3) plant();
      }
      seal.check("planted loop", step);
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSealed);
    EXPECT_FALSE(seal.broken()) << "a loop that goes on begins anew";
    return error.what();
  }
  return "";
}

auto region_names(const std::string& made, const std::string& function) {
  return AllOf(
      HasSubstr("[planted loop] step 3 is sealed, so it must create nothing, but it created " + made),
      ContainsRegex("#[0-9] .*" + function), HasSubstr("train_test+0x"));
}

class Sealed : public testing::Test {
 protected:
  void SetUp() override {
    if (!allocations_counted()) GTEST_SKIP() << "sanitizers interpose malloc themselves";
    kept_after();
  }
};

TEST_F(Sealed, AHeapAllocationIsNamed) {
  const std::string text = error_of(plant_heap_allocation);
  EXPECT_THAT(text, region_names("1 allocation of 1234 bytes;", "plant_heap_allocation"));
  EXPECT_THAT(text, HasSubstr("#0 isochron::train::(anonymous namespace)::plant_heap_allocation()"))
      << "without what took the trace and operator new";
}

TEST_F(Sealed, APoolAllocationIsNamedWithItsTag) {
  EXPECT_THAT(error_of(plant_pool_allocation),
              region_names("1 allocation of 4321 bytes for 'planted';", "plant_pool_allocation"));
}

TEST_F(Sealed, ATensorIsNamed) {
  EXPECT_THAT(error_of(plant_tensor), region_names("1 tensor, 1 allocation", "plant_tensor"));
}

TEST_F(Sealed, ATapeEntryIsNamed) {
  plant_tape_entry();  // what its first use sets up
  EXPECT_THAT(error_of(plant_tape_entry), region_names("1 tape entry, 1 tensor", "plant_tape_entry"));
}

TEST_F(Sealed, AGraphNodeIsNamed) {
  plant_graph_node();
  EXPECT_THAT(error_of(plant_graph_node), region_names("1 graph node, ", "plant_graph_node"));
}

TEST_F(Sealed, APlanIsNamed) { EXPECT_THAT(error_of(plant_plan), region_names("1 plan, ", "plant_plan")); }

TEST_F(Sealed, ARetraceIsNamed) {
  auto step = capture(+[](const Tensor& x) { return x * x; });
  step(full({4}, 2.0));
  const Tensor unseen = full({5}, 2.0);
  EXPECT_THAT(error_of([&] { plant_retrace(step, unseen); }),
              region_names("1 trace, 1 plan, ", "plant_retrace"));
  EXPECT_EQ(error_of([&] { plant_retrace(step, unseen); }), "") << "its plan is there by now";
}

TEST_F(Sealed, AThreadIsNamed) {
  EXPECT_THAT(error_of(plant_thread), region_names("1 thread, ", "plant_thread"));
}

TEST_F(Sealed, AFileHandleIsNamed) {
  EXPECT_THAT(error_of(plant_file_handle), region_names("1 file handle, ", "plant_file_handle"));
}

TEST_F(Sealed, ATeamsThreadsWorkForTheLoop) {
  const int threads = compute_threads();
  if (threads < 2) GTEST_SKIP() << "needs two compute threads";
  const auto work = [threads](bool plant) {
    each_thread(threads, [&](int64_t thread) {
      if (plant && thread == threads - 1) plant_heap_allocation();
    });
  };
  work(false);  // makes the team
  EXPECT_EQ(error_of([&] { work(false); }), "");
  EXPECT_THAT(error_of([&] { work(true); }),
              region_names("1 allocation of 1234 bytes", "plant_heap_allocation"));
}

TEST_F(Sealed, BackgroundThreadsAndScopesWithBudgetsAreCountedApart) {
  std::atomic<int> turn = 0;
  std::thread background([&] {
    while (turn == 0) std::this_thread::yield();
    plant_heap_allocation();
    turn = 2;
  });
  EXPECT_EQ(error_of([&] {
              turn = 1;
              while (turn != 2) std::this_thread::yield();
              const UnsealedScope callbacks;
              plant_heap_allocation();
            }),
            "");
  background.join();
}

TEST_F(Sealed, OutsideOfSectionsNothingCounts) {
  Seal seal;
  {
    const SealedSection section(&seal);
    const SealedSection none(nullptr);
    plant_heap_allocation();
  }
  plant_heap_allocation();
  EXPECT_FALSE(seal.broken());
}

/// A linear model trained on 16 rows in batches of 8 and 5, whose map allocates from the `planted`-th call
/// on.
struct SealedFit {
  explicit SealedFit(int64_t planted)
      : batches(data::from_tensor_slices(full({13, 3}, 1.0), full({13, 1}, 2.0))
                    .elements()
                    .map_into({"x", "y"}, {{DType::kF32, {3}}, {DType::kF32, {1}}},
                              [this, planted](const data::Element& in, data::ElementBuffer& out,
                                              const data::Position&) {
                                for (int i = 0; i < 2; ++i) {
                                  const Tensor& tensor = in[static_cast<size_t>(i)];
                                  std::memcpy(out.room(i), tensor.data<float>(), tensor.size_bytes());
                                }
                                if (++calls >= planted) plant_heap_allocation();
                              })
                    .batch(8)) {}
  void fit(FitOptions options) {
    options.progress = nullptr;
    options.enforce_sealed = true;
    trainer.fit(batches, options);
  }

  int64_t calls = 0;
  data::Dataset batches;
  nn::Sequential model{nn::Dense(1)};
  optim::Adam optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
};

TEST_F(Sealed, AFitThatMakesNothingPasses) {
  SealedFit run(INT64_MAX);
  LambdaCallback allocates({.on_batch_end = [](RunState&, const Results&) { plant_heap_allocation(); }});
  run.fit({.epochs = 5, .callbacks = {&allocates}, .report_every = 1});
  EXPECT_EQ(run.optimizer.step_count(), 10);
}

TEST_F(Sealed, AFitEndsWhereAStepAllocates) {
  SealedFit run(2 * 13 + 9);  // in the second batch of the third epoch, which the first step fetches
  try {
    run.fit({.epochs = 5});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSealed);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("[fit] step 5 is sealed, so it must create nothing, but it created 5 "
                                "allocations of 6170 bytes (the first of 1234)"),
                      ContainsRegex("#0 .*plant_heap_allocation")));
  }
  EXPECT_EQ(run.optimizer.step_count(), 5);
}

TEST_F(Sealed, WarmUpMayMakeThings) {
  SealedFit run(1);
  run.fit({.epochs = 1});
  EXPECT_EQ(run.optimizer.step_count(), 2);
}

TEST_F(Sealed, ASingleEpochIsEnforcedAfterItsFirstReport) {
  SealedFit run(2 * 13 + 9);
  EXPECT_THROW(run.fit({.epochs = 1, .steps_per_epoch = 6, .report_every = 1}), Error);
  EXPECT_EQ(run.optimizer.step_count(), 5);
}

}  // namespace
}  // namespace isochron::train
