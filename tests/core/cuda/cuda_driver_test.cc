// Which drivers, devices and libraries are supported, and the error if there is none.
#include "isochron/core/cuda/driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "isochron/core/cuda/shared_library.h"
#include "support/expect_error.h"
#include "support/simulated/simulated_driver.h"
#include "support/temp_folder.h"

namespace isochron::cuda {
namespace {

TEST(Served, OldDevicesAndDriversAreNamedWithTheFix) {
  const DeviceProperties good = SimulatedDevice().properties;
  require_served(kOldestDriver, good);
  EXPECT_ERROR(require_served(12040, good), ErrorCode::kUnsupported,
               "the driver supports CUDA 12.4, but 13.0 is needed");
  DeviceProperties old = good;
  old.name = "Old Device";
  old.major = 6;
  old.minor = 1;
  EXPECT_ERROR(require_served(kOldestDriver, old), ErrorCode::kUnsupported,
               "Old Device has compute capability 6.1, but 7.5 is needed; compute on the CPU (--device cpu)");
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

TEST(SharedLibrary, FoldersOfTheLoadersPathComeFirst) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("LD_LIBRARY_PATH", ":/first/lib::/second/lib", 1);
  const std::vector<std::filesystem::path> folders = nvidia_folders();
  if (before != nullptr) {
    ::setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  } else {
    ::unsetenv("LD_LIBRARY_PATH");
  }
  ASSERT_GE(folders.size(), 3u);
  EXPECT_EQ(folders[0], "/first/lib");
  EXPECT_EQ(folders[1], "/second/lib");
  EXPECT_EQ(folders[2], "/usr/local/cuda/lib64");
}

/// Ends the process, because it can't forget a driver again. The status is 0 if the machine's driver works or
/// the error explains why there is none.
[[noreturn]] void open_what_is_there() {
  try {
    Driver& driver = machine_driver();
    std::_Exit(driver.version() >= 1000 && driver.device_count() >= 1 && built_with_cuda() ? 0 : 1);
  } catch (const Error& error) {
    const char* const fix = built_with_cuda() ? "--device cpu" : "-DISOCHRON_CUDA=ON";
    const bool explained = std::string_view(error.what()).find(fix) != std::string_view::npos;
    std::_Exit(error.code() == ErrorCode::kUnsupported && explained ? 0 : 2);
  }
}

TEST(MachineDriver, SaysWhatIsMissingOrServes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_what_is_there(), testing::ExitedWithCode(0), "");
}

TEST(SharedLibrary, FindsItsPartsBesideIt) {
  const TempFolder folder;
  std::ofstream(folder / "part.cc") << "extern \"C\" int part_of_nobody() { return 5; }";
  std::ofstream(folder / "library.cc")
      << "#include <dlfcn.h>\n"
         "extern \"C\" bool has_part() { return dlopen(\"libnobody-part.so.3\", RTLD_NOW) != nullptr; }";
  const std::string in = folder.path().string();
  const std::string command = fmt::format(
      "{0} -shared -fPIC -Wl,-soname,libnobody-part.so.3 -o {1}/libnobody-part.so.3 {1}/part.cc && "
      "{0} -shared -fPIC -o {1}/libnobody-whole.so {1}/library.cc",
      ISOCHRON_CXX, in);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const SharedLibrary library("the library of nobody", {(in + "/libnobody-whole.so").c_str()}, "");
  bool (*has_part)() = nullptr;
  library.find(has_part, "has_part");
  EXPECT_FALSE(has_part());
  library.load_beside("libnobody-part.so.");
  EXPECT_TRUE(has_part());
}

/// Ends the process, because it can't forget a driver again. The status is 0 if the toolkit's stub is
/// recognized.
[[noreturn]] void open_stub(const char* path) {
  dlopen(path, RTLD_NOW);
  try {
    machine_driver();
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("out of LD_LIBRARY_PATH") != std::string_view::npos)
      std::_Exit(0);
    std::fputs(error.what(), stderr);
  }
  std::_Exit(1);
}

TEST(MachineDriver, KnowsTheToolkitsStub) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub) || !built_with_cuda()) GTEST_SKIP() << "there is no toolkit";
  // The loader returns the first library loaded under a name, and the stub has the driver's name.
  EXPECT_EXIT(open_stub(stub), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace isochron::cuda
