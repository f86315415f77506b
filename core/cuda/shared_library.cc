#include "isochron/core/cuda/shared_library.h"

#include <dlfcn.h>

#include <utility>
#include <vector>

#include "isochron/core/base/error.h"

namespace isochron::cuda {

SharedLibrary::SharedLibrary(std::string what, std::initializer_list<const char*> names, const char* fix)
    : what_(std::move(what)) {
  std::string tried, text;
  for (const char* name : names) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    if (const char* reason = dlerror(); reason != nullptr && text.empty()) text = reason;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  fail(ErrorCode::kUnsupported, "cuda", "{} is not found: {} ({}); {}", what_, tried, text, fix);
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
