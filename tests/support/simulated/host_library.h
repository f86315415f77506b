// Compiles C++ text and loads it as a library into this process. Compiled libraries are cached if the cache
// is writable, because many tests, with and without sanitizers, compile the same kernels.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/base/hash.h"
#include "support/temp_folder.h"

namespace isochron {

/// A cache for tests with and without sanitizers: files in the folder named by ISOCHRON_HOST_KERNELS, or
/// otherwise in build/host_kernels of the source tree. Their names depend on their inputs and the compiler's
/// version. Nothing is cached if the folder isn't writable.
class KeptFile {
 public:
  explicit KeptFile(std::string_view made_of, std::string_view extension) {
    const uint64_t once = hash_more(hash_more(kHashOfNothing, __VERSION__), made_of);
    path_ =
        folder() / fmt::format("{:016x}{:016x}{}", once, hash_more(hash_more(once, '.'), made_of), extension);
  }
  const std::filesystem::path& path() const { return path_; }
  /// Those longest unused go first.
  bool exists() const {
    std::error_code missing;
    std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now(), missing);
    return !missing;
  }
  /// A copy of `file`. Another test may keep the same at the same time.
  void keep(const std::filesystem::path& file) const {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::create_directories(folder(), ignored);
    const fs::path partial = path_.string() + "." + std::to_string(::getpid());
    if (!fs::copy_file(file, partial, ignored)) return;
    fs::rename(partial, path_, ignored);
    std::vector<std::pair<fs::file_time_type, fs::path>> all;
    for (const auto& entry : fs::directory_iterator(folder(), ignored))
      all.emplace_back(entry.last_write_time(ignored), entry.path());
    if (all.size() <= kMaxKept) return;
    std::ranges::sort(all);
    for (size_t i = 0; i < all.size() / 2; ++i) fs::remove(all[i].second, ignored);
  }

 private:
  static constexpr size_t kMaxKept = 3000;
  static std::filesystem::path folder() {
    const char* const named = std::getenv("ISOCHRON_HOST_KERNELS");
    return named != nullptr ? named : ISOCHRON_SOURCE_DIR "/build/host_kernels";
  }
  std::filesystem::path path_;
};

class HostLibrary {
 public:
  /// `flags`: additional flags for the compiler. Throws kBadFormat with the compiler's message about
  /// `source`.
  explicit HostLibrary(const std::string& source, const std::string& flags = "") {
    const std::filesystem::path path = folder_ / "library.so";
    const KeptFile kept(kCompile + flags + source, ".so");
    std::error_code missing;
    if (!kept.exists() ||
        !std::filesystem::copy_file(kept.path(), path, missing)) {  // a copy: the loader tells files by inode
      compile(source, flags);
      kept.keep(path);
    }
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(library_ != nullptr, ErrorCode::kIo, "host library", "{}", dlerror());
  }
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  ~HostLibrary() {
    if (library_ != nullptr) dlclose(library_);
  }

  std::filesystem::path path() const { return folder_ / "library.so"; }

  template <typename F>
  F* find(const std::string& symbol) const {
    auto* const found = reinterpret_cast<F*>(dlsym(library_, symbol.c_str()));
    require(found != nullptr, ErrorCode::kInvalidArgument, "host library", "no {}", symbol);
    return found;
  }

 private:
  static constexpr const char* kHeaders =
      "#include <ucontext.h>\n#include <bit>\n#include <cmath>\n#include <cstdint>\n#include <cstring>\n"
      "#include <functional>\n#include <numeric>\n#include <utility>\n#include <vector>\n";
  static constexpr const char* kCompile = ISOCHRON_CXX " -std=c++20 -O0 -w -fPIC -pthread";
  /// Compiles in two steps, so that linking doesn't add what the flags of the first step stand for. The
  /// library's own functions take precedence over those of the process with the same names.
  void compile(const std::string& source, const std::string& flags) const {
    write_quickly(folder_ / "source.cc", source);
    precompile_headers(flags);
    run(flags + " -include headers.h -c -o object.o source.cc");
    run("-shared -Wl,-Bsymbolic -o library.so object.o");
  }
  /// Half of the time would go into the standard library's headers.
  void precompile_headers(const std::string& flags) const {
    write_quickly(folder_ / "headers.h", kHeaders);
    const KeptFile kept(kCompile + flags + kHeaders, ".gch");
    if (kept.exists()) return std::filesystem::create_symlink(kept.path(), folder_ / "headers.h.gch");
    run(flags + " -x c++-header headers.h");
    kept.keep(folder_ / "headers.h.gch");
  }
  /// The compiler with more arguments, in the folder.
  void run(const std::string& arguments) const {
    const std::string command =
        fmt::format("cd {} && {} {} 2> errors", folder_.path().string(), kCompile, arguments);
    if (std::system(command.c_str()) == 0) return;
    std::ifstream errors(folder_ / "errors");
    fail(ErrorCode::kBadFormat, "host library", "{}",
         std::string(std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>())
             .substr(0, 2000));
  }

  TempFolder folder_;
  void* library_ = nullptr;
};

}  // namespace isochron
