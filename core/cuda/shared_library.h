// A library that is loaded at run time, so that programs start even if it is missing.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::cuda {

/// Folders that may contain NVIDIA's libraries: those of LD_LIBRARY_PATH and, because the system's loader
/// doesn't look there, the toolkit's folder and those of NVIDIA's packages in the Python environments that
/// VIRTUAL_ENV, CONDA_PREFIX and the python3 in PATH name.
std::vector<std::filesystem::path> nvidia_folders();

class SharedLibrary {
 public:
  /// The first of `names` that the system's loader finds, or that lies in one of nvidia_folders(). Throws
  /// kUnsupported naming them, with the loader's text and `fix`.
  SharedLibrary(std::string what, std::initializer_list<const char*> names, const char* fix);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  /// Loads the libraries in this library's folder whose names begin with `prefix`, so that it finds them. In
  /// NVIDIA's packages for Python environments, NVRTC opens its own parts by name only.
  void load_beside(std::string_view prefix) const;

  /// Throws kUnsupported if the library has no function of that name, which means that it is too old.
  template <typename F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string what_;
  void* handle_ = nullptr;
};

/// Creates a library that is never destroyed, because plans of static objects may refer to it. Returns null
/// if the library isn't available, and emits an event kNotice: `what` run in plain kernels.
template <typename Library>
Library* library_or_notice(std::string_view what) {
  try {
    return new Library;
  } catch (const Error& error) {
    emit({EventKind::kNotice, "cuda",
          fmt::format("{} run in plain kernels, which are slow: {}", what, error.what())});
    return nullptr;
  }
}

}  // namespace isochron::cuda
