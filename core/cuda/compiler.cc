#include "isochron/core/cuda/compiler.h"

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/driver.h"
#include "isochron/core/cuda/kernel_cache.h"
#include "isochron/core/cuda/linker.h"
#include "isochron/core/cuda/shared_library.h"
#include "isochron/core/files/cache_folder.h"

#ifdef ISOCHRON_CUDA
#include <nvrtc.h>

#include <mutex>
#endif

namespace isochron::cuda {

#ifndef ISOCHRON_CUDA

Compiler& machine_compiler() {
  fail(ErrorCode::kUnsupported, "cuda",
       "this was built without CUDA; configure with -DISOCHRON_CUDA=ON where the toolkit is installed");
}

#else

namespace {

// clang-format off
#define ISOCHRON_NVRTC_CALLS(X) \
  X(nvrtcVersion) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) X(nvrtcGetProgramLogSize) \
  X(nvrtcGetProgramLog) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetErrorString) X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)
// clang-format on

constexpr size_t kMaxLog = 4000;  // characters of an error text

class Nvrtc final : public Compiler {
 public:
  Nvrtc()
      : library_("NVRTC", {"libnvrtc.so.13", "libnvrtc.so"},
                 "install the CUDA Toolkit, or put its folder of libraries in LD_LIBRARY_PATH") {
#define X(name) library_.find(this->name, #name);
    ISOCHRON_NVRTC_CALLS(X)
#undef X
    library_.load_beside("libnvrtc-builtins.so.");
    int major = 0, minor = 0;
    check(nvrtcVersion(&major, &minor), "nvrtcVersion");
    version_ = 1000 * major + 10 * minor;
    int count = 0;
    check(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
    known_.resize(static_cast<size_t>(count));
    check(nvrtcGetSupportedArchs(known_.data()), "nvrtcGetSupportedArchs");
  }

  int version() override { return version_; }

  std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                            bool device_runtime) override {
    const int wanted = 10 * major + minor;
    bool known = false;
    for (const int arch : known_) known |= arch == wanted;
    require(known, ErrorCode::kUnsupported, "cuda",
            "NVRTC {} doesn't compile for compute capability {}.{}; install a newer CUDA Toolkit, or "
            "compute on the CPU (--device cpu)",
            version_text(version_), major, minor);
    nvrtcProgram program = nullptr;
    std::lock_guard lock(mutex_);
    check(nvrtcCreateProgram(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram");
    const std::string arch = fmt::format("--gpu-architecture=sm_{}", wanted);
    std::vector<const char*> options(std::begin(kCompileOptions), std::end(kCompileOptions));
    options.push_back(arch.c_str());
    if (device_runtime) options.push_back("--relocatable-device-code=true");
    const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
    std::string log;
    std::vector<char> cubin;
    size_t size = 0;
    if (result != NVRTC_SUCCESS) {
      if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
        log.resize(size);
        nvrtcGetProgramLog(program, log.data());
      }
    } else if (nvrtcGetCUBINSize(program, &size) == NVRTC_SUCCESS) {
      cubin.resize(size);
      if (nvrtcGetCUBIN(program, cubin.data()) != NVRTC_SUCCESS) cubin.clear();
    }
    nvrtcDestroyProgram(&program);
    require(result == NVRTC_SUCCESS && !cubin.empty(), ErrorCode::kBadFormat, name, "{}: {}",
            nvrtcGetErrorString(result), log.substr(0, kMaxLog));
    if (!device_runtime) return cubin;
    if (!linker_) linker_ = std::make_unique<Linker>();
    return linker_->link(cubin, fmt::format("sm_{}", wanted));
  }

 private:
  void check(nvrtcResult result, const char* call) const {
    require(result == NVRTC_SUCCESS, ErrorCode::kDevice, "cuda", "{}: {}", call, nvrtcGetErrorString(result));
  }

#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_NVRTC_CALLS(X)
#undef X
  SharedLibrary library_;
  int version_ = 0;
  std::vector<int> known_;
  std::unique_ptr<Linker> linker_;  // created when first needed
  std::mutex mutex_;
};

}  // namespace

Compiler& machine_compiler() {
  // Never destroyed: it keeps its resources until the process ends. If the construction throws, the next call
  // tries again.
  static auto* const compiler = new KernelCache(*new Nvrtc, cache_folder());
  return *compiler;
}

#endif

}  // namespace isochron::cuda
