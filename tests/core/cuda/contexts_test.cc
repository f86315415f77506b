// What the driver interface promises (core/cuda/driver.h), tested on every available context: the simulated
// device, machine_driver over the tests' libcuda.so.1, and, with ISOCHRON_TEST_DRIVER=machine, the machine's
// own device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>

#include "isochron/core/cuda/driver.h"
#include "support/driver_library/library_device.h"
#include "support/expect_error.h"
#include "support/simulated/host_compiler.h"

namespace isochron::cuda {
namespace {

enum class Driven { kSimulated, kLibrary, kMachine };

constexpr const char* kText = R"(
#ifdef __CUDACC_RTC__
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned value);
#else
extern "C" { char host_fault[256] = ""; }
static void cudaGraphSetConditional(unsigned long long condition, unsigned value) {
  *reinterpret_cast<unsigned*>(condition) = value;
}
#endif
extern "C" __global__ void add(int* numbers, int count, int amount) {
  for (int i = 0; i < count; ++i) numbers[i] += amount;
}
extern "C" __global__ void below(unsigned long long condition, const int* number, int limit) {
  cudaGraphSetConditional(condition, *number < limit);
}
)";

class Contexts : public testing::TestWithParam<Driven> {
 protected:
  void SetUp() override {
    open();
    load();
  }
  void TearDown() override {
    if (!context_) return;
    if (!lost_) unload();
    context_.reset();
    if (library_ && !lost_) {
      EXPECT_EQ(library_->left_behind(), "");
    }
  }

  void load() {
    loaded_ = context_->load(compiler().compile(kText, "kernels", context_->properties().major,
                                                context_->properties().minor, /*device_runtime=*/true));
    add_ = context_->function(loaded_, "add");
    below_ = context_->function(loaded_, "below");
    stream_ = context_->create_stream(false);
    other_ = context_->create_stream(true);
  }
  void unload() {
    context_->unload(loaded_);
    context_->destroy(stream_);
    context_->destroy(other_);
  }

  void open(const SimulatedDevice& device = {}) {
    context_.reset();
    switch (GetParam()) {
      case Driven::kSimulated: {
        const auto simulated = std::make_shared<SimulatedContext>(device);
        simulated->set_loader(compiler_.loader());
        context_ = simulated;
        controls_ = simulated;
        break;
      }
      case Driven::kLibrary:
        controls_ = library_ = std::make_shared<LibraryDevice>(device);
        library_->left_behind();
        [[fallthrough]];
      case Driven::kMachine:
        context_ = machine_driver().open(0);
    }
  }
  Compiler& compiler() {
    if (GetParam() == Driven::kMachine) return machine_compiler();
    return compiler_;
  }
  bool simulated() const { return controls_ != nullptr; }

  void add(DevicePtr numbers, int count, int amount, Stream stream) {
    void* const arguments[] = {&numbers, &count, &amount};
    context_->launch(add_, {}, arguments, stream);
  }
  void set_where_below(Condition condition, DevicePtr number, int limit, Stream stream) {
    auto value = static_cast<uint64_t>(condition);
    void* const arguments[] = {&value, &number, &limit};
    context_->launch(below_, {}, arguments, stream);
  }
  int value_at(DevicePtr number) {
    int value = 0;
    context_->copy_to_host(&value, number, sizeof value, stream_);
    context_->synchronize(stream_);
    return value;
  }

  HostCompiler compiler_;
  std::shared_ptr<LibraryDevice> library_;
  std::shared_ptr<SimulatedControls> controls_;
  std::shared_ptr<Context> context_;
  bool lost_ = false;
  Module loaded_ = Module::kNone;
  Function add_ = Function::kNone, below_ = Function::kNone;
  Stream stream_ = Stream::kNone, other_ = Stream::kNone;
};

TEST_P(Contexts, CopyThereAndBackInTheOrderOfAStream) {
  std::vector<int> numbers(100), result(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  const DevicePtr at = context_->allocate(400);
  context_->copy_to_device(at, numbers.data(), 400, stream_);
  numbers.assign(100, -1);  // not page-locked, so it was read before the call returned
  add(at, 100, 5, stream_);
  context_->copy_to_host(result.data(), at, 400, stream_);
  EXPECT_EQ(result[0], 5);
  EXPECT_EQ(result[99], 104);
  context_->free(at);
}

TEST_P(Contexts, CopyMemoryThatTheDeviceReadsItself) {
  if (!simulated()) GTEST_SKIP() << "a device has this or not";
  unload();
  open({.stages_pageable = false});
  load();
  if (GetParam() == Driven::kSimulated)
    return;  // whose copies are the driver's, which machine_driver waits for
  const DevicePtr at = context_->allocate(4);
  int number = 3;
  context_->copy_to_device(at, &number, 4, stream_);
  number = 4;
  add(at, 1, 5, stream_);
  context_->copy_to_host(&number, at, 4, stream_);
  EXPECT_EQ(number, 8);
  context_->free(at);
}

TEST_P(Contexts, ReadPageLockedMemoryWhenTheCopyRuns) {
  if (!simulated()) GTEST_SKIP() << "a device may run it at once";
  auto* numbers = static_cast<int*>(context_->allocate_pinned(4));
  *numbers = 1;
  const DevicePtr at = context_->allocate(4);
  context_->copy_to_device(at, numbers, 4, stream_);
  *numbers = 2;  // too early: the copy is still to come
  EXPECT_EQ(value_at(at), 2);
  context_->free(at);
  context_->free_pinned(numbers);
}

TEST_P(Contexts, OrderStreamsByEventsAlone) {
  const DevicePtr at = context_->allocate(4);
  bool unordered = false;
  for (int attempt = 0; attempt < 100; ++attempt) {
    for (bool waits : {false, true}) {
      context_->fill(at, 0, 4, stream_);
      add(at, 1, 7, stream_);
      const Event event = context_->create_event(false);
      context_->record(event, stream_);
      if (waits) context_->wait(other_, event);
      int result = 0;
      context_->copy_to_host(&result, at, 4, other_);
      context_->synchronize(other_);
      if (waits) {
        EXPECT_EQ(result, 7);
      } else {
        unordered |= result != 7;
      }
      context_->synchronize(stream_);
      context_->destroy(event);
    }
  }
  if (simulated()) {
    EXPECT_TRUE(unordered) << "a missing wait must show";
  }
  context_->free(at);
}

TEST_P(Contexts, TellTimeBetweenEventsThatAreDone) {
  const Event begin = context_->create_event(true), end = context_->create_event(true),
              untimed = context_->create_event(false);
  for (const Event event : {begin, end, untimed}) context_->record(event, stream_);
  context_->synchronize(end);
  EXPECT_TRUE(context_->done(begin) && context_->done(end));
  context_->synchronize(stream_);
  EXPECT_GE(context_->elapsed_ns(begin, end), 0);
  EXPECT_ERROR(context_->elapsed_ns(begin, untimed), ErrorCode::kDevice,
               simulated() ? "an event that isn't timed" : "");
  for (const Event event : {begin, end, untimed}) context_->destroy(event);
}

TEST_P(Contexts, RunACapturedStepAtEachLaunchWithItsBranchesJoined) {
  const DevicePtr a = context_->allocate(4), b = context_->allocate(4);
  context_->fill(a, 0, 4, stream_);
  context_->fill(b, 0, 4, stream_);
  const Event fork = context_->create_event(false), join = context_->create_event(false);
  context_->begin_capture(stream_);
  EXPECT_TRUE(context_->capturing(stream_));
  EXPECT_FALSE(context_->capturing(other_));
  add(a, 1, 1, stream_);
  context_->record(fork, stream_);
  context_->wait(other_, fork);
  add(a, 1, 10, stream_);
  add(b, 1, 100, other_);
  context_->record(join, other_);
  context_->wait(stream_, join);
  context_->copy(a, b, 4, stream_);
  const Graph graph = context_->end_capture(stream_);
  EXPECT_FALSE(context_->capturing(stream_));
  const GraphCounts counts = context_->counts(graph);
  EXPECT_EQ(counts.kernels, 3);
  EXPECT_EQ(counts.copies, 1);
  EXPECT_EQ(counts.total(), 4);
  const GraphExec step = context_->instantiate(graph);
  context_->destroy(graph);
  context_->upload(step, stream_);
  if (simulated()) controls_->forget_calls();
  for (int i = 1; i <= 3; ++i) {
    context_->launch(step, stream_);
    EXPECT_EQ(value_at(a), 100 * i);
  }
  if (simulated()) {
    EXPECT_EQ(controls_->calls("launch graph"), 3);
  }
  context_->destroy(step);
  context_->destroy(fork);
  context_->destroy(join);
  context_->free(a);
  context_->free(b);
}

TEST_P(Contexts, LetPartsOfAGraphFollowThoseThatTheyAreToldTo) {
  const DevicePtr a = context_->allocate(4), b = context_->allocate(4);
  context_->fill(a, 0, 4, stream_);
  context_->begin_capture(stream_);
  EXPECT_TRUE(context_->followed(stream_).empty());
  add(a, 1, 1, stream_);
  const std::vector<GraphNode> first = context_->followed(stream_);
  ASSERT_EQ(first.size(), 1u);
  context_->follow(stream_, {});
  context_->fill(b, 0, 4, stream_);
  add(b, 1, 10, stream_);
  const GraphNode both[] = {first[0], context_->followed(stream_)[0]};
  context_->follow(stream_, both);
  context_->copy(a, b, 4, stream_);
  const Graph graph = context_->end_capture(stream_);
  const GraphExec step = context_->instantiate(graph);
  context_->destroy(graph);
  for (int i = 0; i < 20; ++i) {
    context_->launch(step, stream_);
    ASSERT_EQ(value_at(a), 10);
  }
  EXPECT_ERROR(context_->follow(stream_, first), ErrorCode::kCaptureViolation, "capture");
  context_->destroy(step);
  context_->free(a);
  context_->free(b);
}

TEST_P(Contexts, RunConditionalPartsWithinEachOther) {
  const DevicePtr outer = context_->allocate(4), inner = context_->allocate(4), all = context_->allocate(4);
  for (const DevicePtr number : {outer, inner, all}) context_->fill(number, 0, 4, stream_);
  context_->begin_capture(stream_);
  const Condition more = context_->create_condition(stream_);
  set_where_below(more, outer, 3, stream_);
  const Stream loop = context_->begin_body(stream_, more, /*repeats=*/true);
  add(outer, 1, 1, loop);
  const Condition once = context_->create_condition(loop);
  set_where_below(once, outer, 3, loop);
  const Stream branch = context_->begin_body(loop, once, /*repeats=*/false);
  add(inner, 1, 1, branch);
  context_->end_body(branch);
  set_where_below(more, outer, 3, loop);
  context_->end_body(loop);
  context_->copy(all, outer, 4, stream_);  // behind the loop
  const Graph graph = context_->end_capture(stream_);
  const GraphCounts counts = context_->counts(graph);
  EXPECT_EQ(counts.conditionals, 1);
  EXPECT_EQ(counts.kernels, 1);
  EXPECT_EQ(counts.copies, 1);
  const GraphExec step = context_->instantiate(graph);
  context_->destroy(graph);
  for (int i = 1; i <= 10; ++i) {
    context_->fill(outer, 0, 4, stream_);
    context_->launch(step, stream_);
    EXPECT_EQ(value_at(outer), 3);
    EXPECT_EQ(value_at(inner), 2 * i);
    EXPECT_EQ(value_at(all), 3);
  }
  context_->destroy(step);
  for (const DevicePtr number : {outer, inner, all}) context_->free(number);
}

TEST_P(Contexts, HaveBodiesWithinEachOtherAsOftenAsTheyLike) {
  const DevicePtr number = context_->allocate(4);
  for (int again = 0; again < 3; ++again) {
    context_->fill(number, 0, 4, stream_);
    context_->begin_capture(stream_);
    std::vector<Stream> bodies = {stream_};
    for (int depth = 0; depth < 8; ++depth) {
      const Condition condition = context_->create_condition(bodies.back());
      set_where_below(condition, number, 100, bodies.back());
      bodies.push_back(context_->begin_body(bodies.back(), condition, false));
      add(number, 1, 1, bodies.back());
    }
    for (; bodies.size() > 1; bodies.pop_back()) context_->end_body(bodies.back());
    const Graph graph = context_->end_capture(stream_);
    const GraphExec step = context_->instantiate(graph);
    context_->destroy(graph);
    context_->launch(step, stream_);
    EXPECT_EQ(value_at(number), 8);
    context_->destroy(step);
  }
  context_->free(number);
}

TEST_P(Contexts, RefuseWhatCannotBeCaptured) {
  const DevicePtr at = context_->allocate(4);
  context_->begin_capture(stream_);
  EXPECT_ERROR(context_->allocate(4), ErrorCode::kCaptureViolation, "");
  EXPECT_ERROR(context_->end_capture(stream_), ErrorCode::kCaptureViolation, "");
  const Event fork = context_->create_event(false);
  context_->begin_capture(stream_);
  context_->record(fork, stream_);
  context_->wait(other_, fork);
  add(at, 1, 1, other_);
  EXPECT_ERROR(context_->end_capture(stream_), ErrorCode::kCaptureViolation, "");
  context_->begin_capture(stream_);
  EXPECT_ERROR(context_->synchronize(stream_), ErrorCode::kCaptureViolation, "");
  EXPECT_ERROR(context_->end_capture(stream_), ErrorCode::kCaptureViolation, "");
  context_->fill(at, 0, 4, stream_);  // nothing of that is left in the streams
  context_->fill(at, 0, 4, other_);
  context_->synchronize(stream_);
  context_->synchronize(other_);
  context_->destroy(fork);
  context_->free(at);
}

TEST_P(Contexts, CaptureForOneThreadWhileOthersAllocate) {
  context_->begin_capture(stream_);
  std::thread([&] { context_->free(context_->allocate(64)); }).join();
  context_->destroy(context_->end_capture(stream_));
}

TEST_P(Contexts, ServeThreadsThatHaveNeverSeenThem) {
  DevicePtr at = 0;
  std::thread([&] {
    at = context_->allocate(4);
    context_->fill(at, 1, 4, stream_);
  }).join();
  EXPECT_EQ(value_at(at), 0x01010101);
  // Each of these is the first call of a thread.
  const auto first = [](auto call) { std::thread(call).join(); };
  first([&] { add(at, 1, 1, stream_); });
  first([&] { EXPECT_FALSE(context_->capturing(stream_)); });
  first([&] { EXPECT_GT(context_->memory_info().free_bytes, 0u); });
  first([&] { EXPECT_GT(context_->granularity(), 0u); });
  first([&] { context_->destroy(context_->create_event(true)); });
  first([&] { context_->destroy(context_->create_stream(false)); });
  first([&] { context_->synchronize(stream_); });
  first([&] { context_->free_pinned(context_->allocate_pinned(64)); });
  first([&] { EXPECT_TRUE(context_->done(stream_)); });
  first([&] { context_->pool_trim(); });
  first([&] { EXPECT_EQ(context_->pool_used_bytes(), 0u); });
  first([&] { static_cast<void>(context_->function(loaded_, "add")); });
  EXPECT_EQ(value_at(at), 0x01010102);
  first([&] { context_->free(at); });
}

TEST_P(Contexts, MapMemoryWhereItIsReserved) {
  const size_t chunk = context_->granularity();
  const DevicePtr range = context_->reserve(4 * chunk);
  const PhysicalMemory first = context_->create(chunk), second = context_->create(2 * chunk);
  context_->map(range, chunk, first);
  context_->map(range + chunk, 2 * chunk, second);
  context_->destroy(first);  // mapped memory stays
  context_->destroy(second);
  context_->fill(range, 7, 3 * chunk, stream_);
  EXPECT_EQ(value_at(range + 3 * chunk - 4), 0x07070707);
  if (simulated()) {
    EXPECT_ERROR(context_->unmap(range + chunk, chunk), ErrorCode::kDevice, "not mapped so");
    EXPECT_ERROR(context_->release(range, 4 * chunk), ErrorCode::kDevice, "still mapped");
    EXPECT_EQ(controls_->used_bytes(), 3 * chunk);
  }
  context_->unmap(range + chunk, 2 * chunk);
  context_->unmap(range, chunk);
  context_->release(range, 4 * chunk);
  if (simulated()) {
    EXPECT_EQ(controls_->used_bytes(), 0u);
  }
}

TEST_P(Contexts, KeepAPoolOfMemory) {
  const DevicePtr at = context_->allocate_async(1 << 20, stream_);
  context_->fill(at, 0, 1 << 20, stream_);
  EXPECT_GE(context_->pool_used_bytes(), size_t{1} << 20);
  context_->free_async(at, stream_);
  context_->synchronize(stream_);
  EXPECT_EQ(context_->pool_used_bytes(), 0u);
  EXPECT_GE(context_->pool_reserved_bytes(), size_t{1} << 20);
  context_->pool_trim();
  EXPECT_EQ(context_->pool_reserved_bytes(), 0u);
}

TEST_P(Contexts, AllowSharedMemoryThatIsAskedFor) {
  const size_t most = context_->properties().shared_bytes_per_block;
  context_->allow_shared_bytes(add_, most);
  EXPECT_ERROR(context_->allow_shared_bytes(add_, most + 1024), ErrorCode::kDevice, "");
}

TEST_P(Contexts, ShowMisuse) {
  if (!simulated()) GTEST_SKIP() << "a device may be lost by it";
  const DevicePtr at = context_->allocate(1000);
  EXPECT_ERROR(context_->fill(at + 900, 0, 200, stream_), ErrorCode::kDevice, "isn't memory");
  EXPECT_ERROR(context_->allocate(size_t{65} << 20), ErrorCode::kOutOfMemory, "are free");
  EXPECT_ERROR(context_->launch(Function::kNone, {}, {}, stream_), ErrorCode::kDevice, "no such function");
  EXPECT_ERROR(static_cast<void>(context_->function(loaded_, "nobody")), ErrorCode::kDevice, "no 'nobody'");
  context_->free(at);
  EXPECT_ERROR(context_->free(at), ErrorCode::kDevice, "not allocated");
}

TEST_P(Contexts, StayLost) {
  if (!simulated()) GTEST_SKIP() << "nothing breaks a device on demand";
  lost_ = true;
  controls_->fail("launch graph", 1, ErrorCode::kDeviceLost);
  context_->begin_capture(stream_);
  const GraphExec empty = context_->instantiate(context_->end_capture(stream_));
  EXPECT_ERROR(context_->launch(empty, stream_), ErrorCode::kDeviceLost, "");
  EXPECT_ERROR(context_->synchronize(stream_), ErrorCode::kDeviceLost, "failed before");
}

TEST_P(Contexts, AreOpenedOneAfterTheOther) {
  unload();
  for (int again = 0; again < 3; ++again) {
    open();
    const DevicePtr at = context_->allocate(4);
    stream_ = context_->create_stream(false);
    context_->fill(at, 3, 4, stream_);
    EXPECT_EQ(value_at(at), 0x03030303);
    context_->begin_capture(stream_);
    context_->destroy(context_->end_capture(stream_));
    context_->destroy(stream_);
    context_->free(at);
    std::thread([&] { context_.reset(); }).join();  // by a thread that has never used it
    if (library_) {
      EXPECT_EQ(library_->left_behind(), "");
    }
  }
}

/// A process has one libcuda.so.1: the tests' or the machine's.
std::vector<Driven> drivers() {
  const char* const asked = std::getenv("ISOCHRON_TEST_DRIVER");
  if (asked != nullptr && std::string_view(asked) == "machine") return {Driven::kMachine};
  if (!LibraryDevice::built()) return {Driven::kSimulated};
  return {Driven::kSimulated, Driven::kLibrary};
}

INSTANTIATE_TEST_SUITE_P(Over, Contexts, testing::ValuesIn(drivers()), [](const auto& driven) {
  return driven.param == Driven::kSimulated ? "Simulated"
         : driven.param == Driven::kLibrary ? "Library"
                                            : "Machine";
});

}  // namespace
}  // namespace isochron::cuda
