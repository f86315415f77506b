// A library that is loaded at run time, so that programs start where it is missing.
#pragma once

#include <initializer_list>
#include <string>

namespace isochron::cuda {

class SharedLibrary {
 public:
  /// The first of `names` that the system's loader finds. Throws kUnsupported naming them, with the loader's
  /// text and `mend`.
  SharedLibrary(std::string what, std::initializer_list<const char*> names, const char* mend);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

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

}  // namespace isochron::cuda
