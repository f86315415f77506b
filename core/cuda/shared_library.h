// A library that is loaded at run time, so that programs start where it is missing.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::cuda {

/// Where NVIDIA's libraries may lie: the folders of LD_LIBRARY_PATH, and where the system's loader doesn't
/// look for them, the toolkit's folder and those of NVIDIA's packages in the Python environments that
/// VIRTUAL_ENV, CONDA_PREFIX and the python3 of PATH name.
std::vector<std::filesystem::path> nvidia_folders();

class SharedLibrary {
 public:
  /// The first of `names` that the system's loader finds, or that lies in one of nvidia_folders(). Throws
  /// kUnsupported naming them, with the loader's text and `fix`.
  SharedLibrary(std::string what, std::initializer_list<const char*> names, const char* fix);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  /// Loads the libraries in this one's folder whose names begin with `prefix`, for it to find them: in
  /// NVIDIA's packages of Python environments NVRTC opens its own parts by their names alone.
  void load_beside(std::string_view prefix) const;

  /// Throws kUnsupported where the library has none of that name: it is too old.
  template <typename F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  std::string what_;
  void* handle_ = nullptr;
};

/// Made for good, as plans of static objects may refer to it; null where it isn't to be had here, which is
/// told as an event kNotice: `what` run in plain kernels.
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
