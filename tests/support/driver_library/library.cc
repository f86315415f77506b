// A libcuda.so.1 without hardware. It implements the driver functions that machine_driver needs on the
// simulated device, and enforces the driver's rules: each thread has its own current context, and objects of
// one context are unknown in another; memory is accessible only once access was set; unknown flags are
// rejected; after a kernel's fault, every call in its context fails.
//
// Device code that the tests compiled for the host runs there (simulated/host_compiler.h). A cubin's kernels
// can't run, so they do nothing, but their names, compute capability and argument sizes are checked. Memory
// then holds zeros, so that a program can continue with them. ISOCHRON_SIMULATED_MEMORY sets the device's
// memory in bytes, ISOCHRON_SIMULATED_CAPABILITY its compute capability, such as "7.5".
#include "support/driver_library/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "support/driver_library/controls.h"
#include "support/driver_library/cubin.h"

namespace isochron::cuda {

Library& library() {
  static Library& only = *new Library;
  return only;
}

CUresult result_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ErrorCode::kCaptureViolation:
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    case ErrorCode::kDeviceLost:
      return CUDA_ERROR_LAUNCH_FAILED;
    case ErrorCode::kUnsupported:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ErrorCode::kBadFormat:
      return CUDA_ERROR_INVALID_IMAGE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult context_state() {
  const Library& all = library();
  if (!all.initialized) return refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (t_generation == 0) return refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
  if (t_generation != all.primary.generation || all.primary.retained == 0)
    return refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the thread's context was destroyed");
  return CUDA_SUCCESS;
}

namespace {

constexpr size_t kDefaultMemory = size_t{8} << 30;

/// "host kernels N\nLIBRARY\nNAME MEET\n...": functions of a library of the host.
std::map<std::string, SimulatedContext::LoadedKernel> host_kernels(std::string_view image) {
  std::istringstream lines{std::string(image)};
  std::string line, path;
  std::getline(lines, line);
  std::getline(lines, path);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, ErrorCode::kBadFormat, "simulated driver", "{}", dlerror());
  const auto find = [&](const std::string& symbol) {
    void* const found = dlsym(library, symbol.c_str());
    require(found != nullptr, ErrorCode::kBadFormat, "simulated driver", "no {}", symbol);
    return found;
  };
  auto* const fault = static_cast<char*>(find("host_fault"));
  std::map<std::string, SimulatedContext::LoadedKernel> loaded;
  for (std::string name, meet; lines >> name >> meet;) {
    std::vector<size_t> sizes(4096 / sizeof(void*));
    sizes.resize(reinterpret_cast<size_t (*)(size_t*)>(find("sizes_" + name))(sizes.data()));
    using Run = void (*)(void* const*, unsigned, unsigned, unsigned, bool);
    const auto run = reinterpret_cast<Run>(find("run_" + name));
    loaded[name] = {
        sizes, [run, meets = meet == "1", fault](const LaunchSize& size, std::span<void* const> arguments) {
          run(arguments.data(), size.grid[0], size.grid[1], size.block[0], meets);
          if (*fault == 0) return;
          const std::string text = fault;
          *fault = 0;
          isochron::fail(ErrorCode::kDeviceLost, "cuda", "{}", text);
        }};
  }
  return loaded;
}

std::map<std::string, SimulatedContext::LoadedKernel> kernels_of(std::span<const char> image) {
  const std::string_view bytes(image.data(), image.size());
  if (bytes.starts_with("host kernels ")) return host_kernels(bytes);
  const Cubin cubin(bytes);
  const DeviceProperties& device = library().primary.device.properties;
  const auto capability = static_cast<unsigned>(10 * device.major + device.minor);
  require(cubin.compute_capability() == capability, ErrorCode::kUnsupported, "simulated driver",
          "code for compute capability {}, the device has {}", cubin.compute_capability(), capability);
  std::map<std::string, SimulatedContext::LoadedKernel> loaded;
  for (auto& [name, sizes] : cubin.kernels())
    loaded[name] = {sizes, [](const LaunchSize&, std::span<void* const>) {}};
  return loaded;
}

void leave_behind(const std::string& text) {
  if (text.empty()) return;
  Library& all = library();
  all.left_behind += (all.left_behind.empty() ? "" : "; ") + text;
}

/// Of the context that is there, or was there last.
SimulatedContext& counted() {
  Library& all = library();
  require(all.primary.context || all.last, ErrorCode::kInvalidArgument, "simulated driver", "no context yet");
  return all.primary.context ? *all.primary.context : *all.last;
}

}  // namespace
}  // namespace isochron::cuda

using namespace isochron;
using namespace isochron::cuda;

extern "C" {

void simulated_configure(const SimulatedLibraryDevice* device) {
  SimulatedDevice& next = library().primary.device;
  next.properties.total_bytes = device->total_bytes;
  next.properties.multiprocessors = device->multiprocessors;
  next.granularity_bytes = device->granularity_bytes;
  next.seed = device->seed;
  next.stages_pageable = device->stages_pageable != 0;
  library().configured = true;
  next.first_byte = SimulatedDevice{}.first_byte;  // kernels run, so that rubbish shows
}
int64_t simulated_calls(const char* call) { return counted().calls(call); }
void simulated_forget_calls() { counted().forget_calls(); }
void simulated_fail(const char* call, int64_t number, int error_code) {
  counted().fail(call, number, static_cast<ErrorCode>(error_code));
}
size_t simulated_used_bytes() { return counted().used_bytes(); }
const char* simulated_left_behind() {
  const std::lock_guard lock(library().mutex);
  if (library().primary.retained > 0) leave_behind("1 context");
  static std::string told;
  told = std::exchange(library().left_behind, {});
  return told.c_str();
}

// The library and its device.

CUresult cuInit(unsigned flags) {
  if (flags != 0) return refuse(CUDA_ERROR_INVALID_VALUE, "flags are 0");
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.initialized) return CUDA_SUCCESS;
  all.initialized = true;
  if (all.configured) return CUDA_SUCCESS;
  SimulatedDevice& device = all.primary.device;
  device.properties.total_bytes = kDefaultMemory;
  device.granularity_bytes = size_t{2} << 20;
  device.first_byte = 0;
  if (const char* const bytes = std::getenv("ISOCHRON_SIMULATED_MEMORY"))
    device.properties.total_bytes = std::strtoull(bytes, nullptr, 10);
  if (const char* const capability = std::getenv("ISOCHRON_SIMULATED_CAPABILITY")) {  // "7.5"
    char* rest = nullptr;
    device.properties.major = static_cast<int>(std::strtol(capability, &rest, 10));
    device.properties.minor = *rest == '.' ? static_cast<int>(std::strtol(rest + 1, nullptr, 10)) : 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
// Asked for by NVRTC, where a driver is loaded: what NVIDIA's own libraries share, which isn't here.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return refuse(CUDA_ERROR_NOT_FOUND, "no such table");
}
CUresult cuDeviceGetCount(int* count) {
  return initialized([&] { *count = 1; });
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  return initialized([&] {
    if (index != 0) return refuse(CUDA_ERROR_INVALID_DEVICE, "there is one device");
    *device = 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  return initialized([&] {
    demand(bytes > 0, "no room for the name");
    library().primary.device.properties.name.copy(name, static_cast<size_t>(bytes) - 1);
    name[std::min<size_t>(static_cast<size_t>(bytes) - 1, library().primary.device.properties.name.size())] =
        0;
  });
}
CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice) {
  return initialized([&] {
    constexpr std::string_view kId = "0000:01:00.0";
    demand(bytes > static_cast<int>(kId.size()), "no room for the bus");
    id[kId.copy(id, kId.size())] = 0;
  });
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  return initialized([&] { *bytes = library().primary.device.properties.total_bytes; });
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  return initialized([&] {
    const SimulatedDevice& device = library().primary.device;
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = device.properties.major;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = device.properties.minor;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = device.properties.multiprocessors;
        break;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = static_cast<int>(device.properties.shared_bytes_per_block);
        break;
      case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value = 1;
        break;
      case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = device.stages_pageable ? 0 : 1;
        break;
      default:
        demand(false, "an attribute that the simulated device doesn't have");
    }
  });
}
CUresult cuGetErrorName(CUresult error, const char** name) {
#define NAMED(which) \
  { which, #which }
  static constexpr std::pair<CUresult, const char*> kNames[] = {
      NAMED(CUDA_SUCCESS),
      NAMED(CUDA_ERROR_INVALID_VALUE),
      NAMED(CUDA_ERROR_OUT_OF_MEMORY),
      NAMED(CUDA_ERROR_NOT_INITIALIZED),
      NAMED(CUDA_ERROR_INVALID_DEVICE),
      NAMED(CUDA_ERROR_INVALID_IMAGE),
      NAMED(CUDA_ERROR_INVALID_CONTEXT),
      NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU),
      NAMED(CUDA_ERROR_INVALID_HANDLE),
      NAMED(CUDA_ERROR_NOT_FOUND),
      NAMED(CUDA_ERROR_NOT_READY),
      NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED),
      NAMED(CUDA_ERROR_LAUNCH_FAILED),
      NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
      NAMED(CUDA_ERROR_UNKNOWN),
  };
#undef NAMED
  const auto* const found = std::ranges::find(kNames, error, &std::pair<CUresult, const char*>::first);
  if (found == std::end(kNames)) return CUDA_ERROR_INVALID_VALUE;
  *name = found->second;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = t_text.c_str();
  return CUDA_SUCCESS;
}

// Contexts.

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return initialized([&] {
    Library& all = library();
    Primary& primary = all.primary;
    if (primary.retained++ == 0) {
      ++primary.generation;
      primary.context = std::make_unique<SimulatedContext>(primary.device, 0, (primary.generation << 32) + 1);
      primary.context->set_loader(kernels_of);
    }
    *context = reinterpret_cast<CUcontext>(&primary);
  });
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return initialized([&] {
    Library& all = library();
    Primary& primary = all.primary;
    demand(primary.retained > 0, "released more often than retained");
    if (--primary.retained > 0) return;
    leave_behind(primary.context->alive());
    all.last = std::move(primary.context);
    primary.inaccessible.clear();
    primary.followed.clear();
    primary.bodies.clear();
  });
}
CUresult cuCtxSetCurrent(CUcontext context) {
  return initialized([&] {
    Primary& primary = library().primary;
    demand(context == nullptr || context == reinterpret_cast<CUcontext>(&primary), "no such context");
    if (context != nullptr && primary.retained == 0)
      return refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed");
    t_generation = context == nullptr ? 0 : primary.generation;
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  return initialized(
      [&] { *context = t_generation == 0 ? nullptr : reinterpret_cast<CUcontext>(&library().primary); });
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](SimulatedContext&) {
    *least = 0;
    *greatest = -5;
  });
}

}  // extern "C"
