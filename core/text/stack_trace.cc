#include "isochron/core/text/stack_trace.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace isochron {
namespace {

/// Names are cut to this length, because those of templates can fill pages.
constexpr size_t kShownChars = 200;

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  std::string result = status == 0 ? text.get() : name;
  if (result.size() > kShownChars) {
    result.resize(kShownChars);
    result += "...";
  }
  return result;
}

/// Whether a function of this name carries no information as an innermost frame: it took the trace, or it
/// allocates or opens something for its caller.
bool is_machinery(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {"isochron::StackTrace::",
                                              "isochron::Seal::note",
                                              "isochron::internal::note_made",
                                              "isochron::(anonymous namespace)::counted",
                                              "operator new",
                                              "void* std::",
                                              "std::__new_allocator",
                                              "__gnu_cxx::new_allocator",
                                              "std::allocator",
                                              "std::_Vector_base",
                                              "std::__cxx11::basic_string"};
  constexpr std::string_view kWhole[] = {"malloc",        "calloc",         "realloc",       "memalign",
                                         "aligned_alloc", "posix_memalign", "open",          "open64",
                                         "openat",        "openat64",       "fopen",         "fopen64",
                                         "opendir",       "socket",         "pthread_create"};
  return std::ranges::any_of(kBeginnings, [&](std::string_view text) { return name.starts_with(text); }) ||
         std::ranges::find(kWhole, name) != std::end(kWhole);
}

/// The program and the libraries that this process has loaded, for looking up function names and source lines
/// by address.
class LoadedObjects {
 public:
  LoadedObjects() : session_(dwfl_begin(&kCallbacks)) {
    if (session_ != nullptr && dwfl_linux_proc_report(session_, ::getpid()) == 0)
      dwfl_report_end(session_, nullptr, nullptr);
  }
  LoadedObjects(const LoadedObjects&) = delete;
  LoadedObjects& operator=(const LoadedObjects&) = delete;
  ~LoadedObjects() { dwfl_end(session_); }

  struct Frame {
    std::string name = "?";
    std::string place;
  };
  /// The frame of a return address.
  Frame frame(uintptr_t address) const {
    const uintptr_t call = address - 1;  // the call may be the last instruction of its function
    Frame frame{.place = fmt::format("{:#x}", address)};
    Dwfl_Module* const object = session_ == nullptr ? nullptr : dwfl_addrmodule(session_, call);
    if (object == nullptr) return frame;
    if (const char* name = dwfl_module_addrname(object, call)) frame.name = demangled(name);
    const char* file = nullptr;
    dwfl_module_info(object, nullptr, nullptr, nullptr, nullptr, nullptr, &file, nullptr);
    GElf_Addr loaded_at = 0;
    if (file == nullptr || dwfl_module_getelf(object, &loaded_at) == nullptr) return frame;
    frame.place =
        fmt::format("{}+{:#x}", std::filesystem::path(file).filename().string(), address - loaded_at);
    int line = 0;
    Dwfl_Line* const source = dwfl_module_getsrc(object, call);
    if (source == nullptr) return frame;
    if (const char* path = dwfl_lineinfo(source, nullptr, &line, nullptr, nullptr, nullptr))
      frame.place += fmt::format(", {}:{}", path, line);
    return frame;
  }

 private:
  /// Stripped debug information isn't looked up, because it may be on servers.
  static int no_debug_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                           char**) {
    return -1;
  }
  static constexpr Dwfl_Callbacks kCallbacks{.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = no_debug_file,
                                             .section_address = nullptr,
                                             .debuginfo_path = nullptr};
  Dwfl* session_;
};

}  // namespace

void StackTrace::prepare() {
  void* frames[4];
  static_cast<void>(backtrace(frames, 4));
}

void StackTrace::capture() noexcept { count_ = backtrace(frames_.data(), kMaxFrames); }

std::string StackTrace::text() const {
  const LoadedObjects objects;
  std::string text;
  int number = 0;
  for (int i = 0; i < count_; ++i) {
    const auto frame = objects.frame(reinterpret_cast<uintptr_t>(frames_[static_cast<size_t>(i)]));
    if (number == 0 && is_machinery(frame.name)) continue;
    text += fmt::format("#{} {} ({})\n", number++, frame.name, frame.place);
  }
  return text;
}

}  // namespace isochron
