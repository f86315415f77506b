#include "isochron/core/text/stack_trace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "isochron/core/base/error.h"
#include "isochron/core/files/mapped_file.h"
#include "isochron/core/text/symbols.h"

namespace isochron {
namespace {

/// Names of templates can fill pages.
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

/// The innermost frames that tell nothing: what took the trace, and what allocates on behalf of others.
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

/// The running program's own table, which knows more than the dynamic one.
class Program {
 public:
  Program() {
    Dl_info here;
    if (dladdr(reinterpret_cast<void*>(&demangled), &here) != 0) base_ = here.dli_fbase;
    try {
      file_.emplace("/proc/self/exe");
      names_ = FunctionNames(file_->bytes());
    } catch (const Error&) {  // then names are those of the dynamic table
    }
  }
  bool holds(const Dl_info& object) const { return object.dli_fbase == base_; }
  std::string_view find(uint64_t address) const { return names_.find(address); }
  bool relocatable() const { return names_.relocatable(); }

 private:
  void* base_ = nullptr;
  std::optional<MappedFile> file_;
  FunctionNames names_;
};

}  // namespace

void StackTrace::prepare() {
  void* frames[4];
  static_cast<void>(backtrace(frames, 4));
}

void StackTrace::capture() noexcept { count_ = backtrace(frames_.data(), kMaxFrames); }

std::string StackTrace::text() const {
  const Program program;
  std::string text;
  int number = 0;
  for (int i = 0; i < count_; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames_[static_cast<size_t>(i)]);
    Dl_info object{};
    std::string name, place = fmt::format("{:#x}", address);
    if (dladdr(reinterpret_cast<void*>(address), &object) != 0 && object.dli_fname != nullptr) {
      const bool own = program.holds(object);
      uint64_t in_file = address - reinterpret_cast<uintptr_t>(object.dli_fbase);
      if (own && !program.relocatable()) in_file = address;
      place = fmt::format("{}+{:#x}", std::filesystem::path(object.dli_fname).filename().string(), in_file);
      // The address is that of the return, which may lie past the end of a function that never returns.
      if (own) name = program.find(in_file - 1);
      if (name.empty() && object.dli_sname != nullptr) name = object.dli_sname;
    }
    name = name.empty() ? "?" : demangled(name);
    if (number == 0 && is_machinery(name)) continue;
    text += fmt::format("#{} {} ({})\n", number++, name, place);
  }
  return text;
}

}  // namespace isochron
