#ifdef ISOCHRON_CUDA

#include "isochron/core/cuda/linker.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <nvJitLink.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/shared_library.h"

namespace isochron::cuda {

// clang-format off
#define ISOCHRON_LINKER_CALLS(X) \
  X(nvJitLinkCreate) X(nvJitLinkDestroy) X(nvJitLinkAddData) X(nvJitLinkAddFile) X(nvJitLinkComplete) \
  X(nvJitLinkGetLinkedCubinSize) X(nvJitLinkGetLinkedCubin) X(nvJitLinkGetErrorLogSize) X(nvJitLinkGetErrorLog)
// clang-format on

struct Linker::Calls {
  SharedLibrary library{"nvJitLink",
                        {"libnvJitLink.so.13", "libnvJitLink.so"},
                        "install the CUDA Toolkit, or put its folder of libraries in LD_LIBRARY_PATH"};
#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_LINKER_CALLS(X)
#undef X
};

Linker::Linker() : calls_(std::make_unique<Calls>()) {
#define X(name) calls_->library.find(calls_->name, #name);
  ISOCHRON_LINKER_CALLS(X)
#undef X
  // Next to the linker in the toolkit, or in a package of its own.
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(calls_->nvJitLinkCreate), &info) != 0 &&
      info.dli_fname != nullptr) {
    std::error_code none;
    folders.push_back(fs::path(info.dli_fname).parent_path());
    folders.push_back(fs::weakly_canonical(info.dli_fname, none).parent_path());
  }
  std::ranges::copy(nvidia_folders(), std::back_inserter(folders));
  std::vector<std::string> texts;
  for (const fs::path& folder : folders) {
    std::error_code none;
    const fs::path path = folder / "libcudadevrt.a";
    if (std::ranges::find(texts, folder.string()) == texts.end()) texts.push_back(folder.string());
    if (device_runtime_.empty() && fs::exists(path, none)) device_runtime_ = path.string();
  }
  require(
      !device_runtime_.empty(), ErrorCode::kUnsupported, "cuda",
      "libcudadevrt.a, which `cond`, `while_loop` and conditional updates need on a device, is not in {}; "
      "install the CUDA Toolkit, or put the file's folder in LD_LIBRARY_PATH",
      fmt::join(texts, ", "));
}

Linker::~Linker() = default;

std::vector<char> Linker::link(std::span<const char> cubin, const std::string& arch) {
  const std::lock_guard lock(mutex_);
  nvJitLinkHandle handle = nullptr;
  const std::string option = "-arch=" + arch;
  const char* options[] = {option.c_str()};
  nvJitLinkResult result = calls_->nvJitLinkCreate(&handle, 1, options);
  require(result == NVJITLINK_SUCCESS, ErrorCode::kUnsupported, "cuda", "nvJitLinkCreate for {}: error {}",
          arch, static_cast<int>(result));
  std::vector<char> linked;
  result = calls_->nvJitLinkAddData(handle, NVJITLINK_INPUT_CUBIN, cubin.data(), cubin.size(), "kernels");
  if (result == NVJITLINK_SUCCESS)
    result = calls_->nvJitLinkAddFile(handle, NVJITLINK_INPUT_LIBRARY, device_runtime_.c_str());
  if (result == NVJITLINK_SUCCESS) result = calls_->nvJitLinkComplete(handle);
  size_t size = 0;
  if (result == NVJITLINK_SUCCESS) result = calls_->nvJitLinkGetLinkedCubinSize(handle, &size);
  if (result == NVJITLINK_SUCCESS) {
    linked.resize(size);
    result = calls_->nvJitLinkGetLinkedCubin(handle, linked.data());
  }
  std::string log;
  if (result != NVJITLINK_SUCCESS && calls_->nvJitLinkGetErrorLogSize(handle, &size) == NVJITLINK_SUCCESS &&
      size > 1) {
    log.resize(size);
    calls_->nvJitLinkGetErrorLog(handle, log.data());
  }
  calls_->nvJitLinkDestroy(&handle);
  require(result == NVJITLINK_SUCCESS, ErrorCode::kBadFormat, "cuda",
          "device code could not be linked (error {}): {}", static_cast<int>(result), log.substr(0, 4000));
  return linked;
}

}  // namespace isochron::cuda

#endif
