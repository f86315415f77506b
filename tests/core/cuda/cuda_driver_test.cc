// What the interface of the driver promises, shown by the simulated device; and what is said where there is
// none.
#include "isochron/core/cuda/driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include "isochron/core/cuda/shared_library.h"
#include "support/expect_error.h"
#include "support/simulated/simulated_driver.h"
#include "support/temp_folder.h"

namespace isochron::cuda {
namespace {

using testing::HasSubstr;

class Simulated : public testing::Test {
 protected:
  SimulatedContext device_;
  Stream stream_ = device_.create_stream(false), other_ = device_.create_stream(false);

  /// A kernel that adds `amount` to `count` numbers.
  Function add_kernel() {
    device_.add_kernel("add", {sizeof(DevicePtr), sizeof(int), sizeof(int)},
                       [](const LaunchSize&, std::span<void* const> arguments) {
                         auto* numbers = reinterpret_cast<int*>(*static_cast<DevicePtr*>(arguments[0]));
                         const int count = *static_cast<int*>(arguments[1]);
                         for (int i = 0; i < count; ++i) numbers[i] += *static_cast<int*>(arguments[2]);
                       });
    return device_.function(device_.load(std::string("add")), "add");
  }
  void launch(Function function, DevicePtr numbers, int count, int amount, Stream stream) {
    void* const arguments[] = {&numbers, &count, &amount};
    device_.launch(function, {}, arguments, stream);
  }
};

TEST_F(Simulated, CopiesThereAndBackInTheOrderOfAStream) {
  std::vector<int> numbers(100), result(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  const DevicePtr at = device_.allocate(400);
  device_.copy_to_device(at, numbers.data(), 400, stream_);
  numbers.assign(100, -1);  // not page-locked, so it was read before the call returned
  const Function add = add_kernel();
  launch(add, at, 100, 5, stream_);
  device_.copy_to_host(result.data(), at, 400, stream_);
  EXPECT_EQ(result[0], 5);
  EXPECT_EQ(result[99], 104);
  device_.free(at);
}

TEST_F(Simulated, PageLockedMemoryIsReadWhenTheCopyRuns) {
  auto* numbers = static_cast<int*>(device_.allocate_pinned(4));
  *numbers = 1;
  const DevicePtr at = device_.allocate(4);
  device_.copy_to_device(at, numbers, 4, stream_);
  *numbers = 2;  // too early: the copy is still to come
  int result = 0;
  device_.copy_to_host(&result, at, 4, stream_);
  EXPECT_EQ(result, 2);
  device_.free(at);
  device_.free_pinned(numbers);
}

TEST_F(Simulated, StreamsAreOrderedByEventsAlone) {
  const Function add = add_kernel();
  const DevicePtr at = device_.allocate(4);
  bool unordered = false;
  for (int attempt = 0; attempt < 100; ++attempt) {
    for (bool waits : {false, true}) {
      device_.fill(at, 0, 4, stream_);
      launch(add, at, 1, 7, stream_);
      const Event event = device_.create_event(false);
      device_.record(event, stream_);
      if (waits) device_.wait(other_, event);
      int result = 0;
      device_.copy_to_host(&result, at, 4, other_);
      if (waits) {
        EXPECT_EQ(result, 7);
      } else {
        unordered |= result != 7;
      }
      device_.synchronize(stream_);
      device_.destroy(event);
    }
  }
  EXPECT_TRUE(unordered) << "a missing wait must show";
  device_.free(at);
}

TEST_F(Simulated, ACapturedStepRunsAtEachLaunchWithItsBranchesJoined) {
  const Function add = add_kernel();
  const DevicePtr a = device_.allocate(4), b = device_.allocate(4);
  device_.fill(a, 0, 4, stream_);
  device_.fill(b, 0, 4, stream_);
  const Event fork = device_.create_event(false), join = device_.create_event(false);
  device_.begin_capture(stream_);
  launch(add, a, 1, 1, stream_);
  device_.record(fork, stream_);
  device_.wait(other_, fork);
  launch(add, a, 1, 10, stream_);
  launch(add, b, 1, 100, other_);
  device_.record(join, other_);
  device_.wait(stream_, join);
  device_.copy(a, b, 4, stream_);
  const Graph graph = device_.end_capture(stream_);
  const GraphCounts counts = device_.counts(graph);
  EXPECT_EQ(counts.kernels, 3);
  EXPECT_EQ(counts.copies, 1);
  const GraphExec step = device_.instantiate(graph);
  device_.destroy(graph);
  int result = 0;
  for (int i = 1; i <= 3; ++i) {
    device_.launch(step, stream_);
    device_.copy_to_host(&result, a, 4, stream_);
    EXPECT_EQ(result, 100 * i);
  }
  EXPECT_EQ(device_.calls("launch graph"), 3);
  device_.destroy(step);
}

TEST_F(Simulated, PartsOfAGraphFollowThoseThatTheyAreToldTo) {
  const Function add = add_kernel();
  const DevicePtr a = device_.allocate(4), b = device_.allocate(4);
  device_.fill(a, 0, 4, stream_);
  device_.begin_capture(stream_);
  EXPECT_TRUE(device_.followed(stream_).empty());
  launch(add, a, 1, 1, stream_);
  const std::vector<GraphNode> first = device_.followed(stream_);
  ASSERT_EQ(first.size(), 1u);
  device_.follow(stream_, {});
  device_.fill(b, 0, 4, stream_);
  launch(add, b, 1, 10, stream_);
  const GraphNode both[] = {first[0], device_.followed(stream_)[0]};
  device_.follow(stream_, both);
  device_.copy(a, b, 4, stream_);
  const GraphExec step = device_.instantiate(device_.end_capture(stream_));
  int result = 0;
  for (int i = 0; i < 20; ++i) {
    device_.launch(step, stream_);
    device_.copy_to_host(&result, a, 4, stream_);
    ASSERT_EQ(result, 10);
  }
  EXPECT_ERROR(device_.follow(stream_, first), ErrorCode::kCaptureViolation, "outside of a capture");
}

TEST_F(Simulated, WhatCannotBeCapturedIsRefused) {
  const Function add = add_kernel();
  const DevicePtr at = device_.allocate(4);
  device_.begin_capture(stream_);
  EXPECT_ERROR(device_.allocate(4), ErrorCode::kCaptureViolation, "allocate");
  EXPECT_ERROR(device_.end_capture(stream_), ErrorCode::kCaptureViolation, "a call broke it");
  const Event fork = device_.create_event(false);
  device_.begin_capture(stream_);
  device_.record(fork, stream_);
  device_.wait(other_, fork);
  launch(add, at, 1, 1, other_);
  EXPECT_ERROR(device_.end_capture(stream_), ErrorCode::kCaptureViolation, "isn't joined");
  device_.free(at);
}

TEST_F(Simulated, MisuseShows) {
  const DevicePtr at = device_.allocate(1000);
  EXPECT_ERROR(device_.fill(at + 900, 0, 200, stream_), ErrorCode::kDevice, "isn't memory");
  EXPECT_ERROR(device_.allocate(size_t{65} << 20), ErrorCode::kOutOfMemory, "are free");
  EXPECT_ERROR(device_.launch(Function::kNone, {}, {}, stream_), ErrorCode::kDevice, "no such function");
  device_.free(at);
  EXPECT_ERROR(device_.free(at), ErrorCode::kDevice, "not allocated");
}

TEST_F(Simulated, ALostDeviceStaysLost) {
  device_.fail("launch graph", 1, ErrorCode::kDeviceLost);
  device_.begin_capture(stream_);
  const GraphExec empty = device_.instantiate(device_.end_capture(stream_));
  EXPECT_ERROR(device_.launch(empty, stream_), ErrorCode::kDeviceLost, "launch graph");
  EXPECT_ERROR(device_.synchronize(stream_), ErrorCode::kDeviceLost, "failed before");
}

TEST(Served, OldDevicesAndDriversAreNamedWithTheFix) {
  const DeviceProperties good = SimulatedDevice().properties;
  require_served(kOldestDriver, good);
  EXPECT_ERROR(require_served(12040, good), ErrorCode::kUnsupported,
               "the driver serves CUDA 12.4, 13.0 is needed");
  DeviceProperties old = good;
  old.name = "Old Device";
  old.major = 6;
  old.minor = 1;
  EXPECT_ERROR(require_served(kOldestDriver, old), ErrorCode::kUnsupported,
               "Old Device has compute capability 6.1, 7.5 is needed; run with --device cpu");
  DeviceProperties bare = good;
  bare.virtual_memory = false;
  EXPECT_ERROR(require_served(kOldestDriver, bare), ErrorCode::kUnsupported, "no virtual memory");
  SimulatedDriver driver({SimulatedDevice{.properties = old}});
  EXPECT_ERROR(driver.open(0), ErrorCode::kUnsupported, "Old Device");
  EXPECT_ERROR(driver.open(1), ErrorCode::kUnsupported, "device 1 of 1");
}

TEST(SharedLibrary, AMissingOneIsNamedWithTheFix) {
  EXPECT_ERROR(SharedLibrary("the library of nobody", {"libnobody.so.1", "libnobody.so"}, "install it"),
               ErrorCode::kUnsupported, "the library of nobody is not found: libnobody.so.1, libnobody.so (");
  const SharedLibrary own("the C library", {"libc.so.6"}, "");
  int (*missing)() = nullptr;
  EXPECT_ERROR(own.find(missing, "no_such_function"), ErrorCode::kUnsupported, "no no_such_function");
  int (*process)() = nullptr;
  own.find(process, "getpid");
  EXPECT_GT(process(), 0);
}

TEST(SharedLibrary, IsFoundInAPackageOfAPythonEnvironment) {
  const TempFolder environment;
  const auto folder = environment / "lib/python3.12/site-packages/nvidia/some/lib";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(environment / "bin");
  std::ofstream(environment / "bin/python3") << "";
  std::ofstream(environment / "library.cc") << "extern \"C\" int number_of_nobody() { return 7; }";
  const std::string command = fmt::format("{} -shared -fPIC -o {}/libnobody.so.2 {}", ISOCHRON_CXX,
                                          folder.string(), (environment / "library.cc").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string path = std::getenv("PATH");
  for (const char* variable : {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string value = std::string_view(variable) == "PATH"
                                  ? (environment / "bin").string() + ":" + path
                                  : environment.path().string();
    ::setenv(variable, value.c_str(), 1);
    const SharedLibrary library("the library of nobody", {"libnobody.so.1", "libnobody.so.2"}, "install it");
    int (*number)() = nullptr;
    library.find(number, "number_of_nobody");
    EXPECT_EQ(number(), 7) << variable;
    if (std::string_view(variable) == "PATH") {
      ::setenv("PATH", path.c_str(), 1);
    } else {
      ::unsetenv(variable);
    }
  }
}

TEST(MachineDriver, SaysWhatIsMissingOrServes) {
  try {
    Driver& driver = machine_driver();
    EXPECT_GE(driver.version(), 1000);
    EXPECT_GE(driver.device_count(), 1);
    EXPECT_TRUE(built_with_cuda());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(),
                built_with_cuda() ? HasSubstr("--device cpu") : HasSubstr("-DISOCHRON_CUDA=ON"));
  }
}

TEST(MachineDriver, KnowsTheToolkitsStub) {
  void* const stub = dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW);
  if (stub == nullptr || !built_with_cuda()) GTEST_SKIP() << "there is no toolkit";
  const auto close = [](void* library) { dlclose(library); };
  const std::unique_ptr<void, decltype(close)> loaded(stub, close);
  // The loader gives the first library of that name, and the stub has the driver's.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != stub) GTEST_SKIP() << "a driver is loaded";
  EXPECT_ERROR(machine_driver(), ErrorCode::kUnsupported, "out of LD_LIBRARY_PATH");
}

}  // namespace
}  // namespace isochron::cuda
