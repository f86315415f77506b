#include "isochron/core/cuda/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron::cuda {

namespace fs = std::filesystem;

namespace {

/// The folders that an environment variable lists, separated by colons.
std::vector<fs::path> folders_of(const char* variable) {
  std::vector<fs::path> folders;
  const char* const listed = std::getenv(variable);
  for (std::string_view rest = listed != nullptr ? listed : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) folders.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

}  // namespace

std::vector<fs::path> nvidia_folders() {
  std::vector<fs::path> folders = folders_of("LD_LIBRARY_PATH"), environments;
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* environment = std::getenv(variable)) environments.emplace_back(environment);
  }
  for (const fs::path& folder : folders_of("PATH")) {
    std::error_code none;
    if (fs::exists(folder / "python3", none)) environments.push_back(folder.parent_path());
  }
  const auto entries = [](const fs::path& folder) {
    std::error_code none;
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder, none)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  };
  for (const fs::path& environment : environments) {
    for (const fs::path& python : entries(environment / "lib")) {
      if (!python.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : entries(python / packages / "nvidia"))
          folders.push_back(package / "lib");
      }
    }
  }
  return folders;
}

SharedLibrary::SharedLibrary(std::string what, std::initializer_list<const char*> names, const char* fix)
    : what_(std::move(what)) {
  std::string tried, text;
  for (const char* name : names) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    if (const char* reason = dlerror(); reason != nullptr && text.empty()) text = reason;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  for (const fs::path& folder : nvidia_folders()) {
    for (const char* name : names) {
      handle_ = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
    }
  }
  fail(ErrorCode::kUnsupported, "cuda", "{} is not found: {} ({}); {}", what_, tried, text, fix);
}

void SharedLibrary::load_beside(std::string_view prefix) const {
  link_map* loaded = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &loaded) != 0) return;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(loaded->l_name).parent_path(), none)) {
    // Never unloaded, because the library that uses it isn't either.
    if (entry.path().filename().string().starts_with(prefix))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  require(found != nullptr, ErrorCode::kUnsupported, "cuda", "{} has no {}; install a newer one", what_,
          name);
  return found;
}

}  // namespace isochron::cuda
