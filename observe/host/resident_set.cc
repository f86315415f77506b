#include "isochron/observe/host/resident_set.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string>
#include <utility>

namespace isochron::observe {
namespace {

/// In glibc, the heaps of the arenas of all threads but the first lie at multiples of this size.
constexpr uint64_t kThreadHeapBytes = uint64_t{64} << 20;
constexpr uint64_t kGuardBytes = 4096;

struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string access = {};  // "rw-p"
  bool of_file = false;
  std::string path = {};  // a file's path, or "[heap]"
  int64_t resident = 0;

  uint64_t size() const { return end - begin; }
  bool anonymous() const { return !of_file && (path.empty() || path.starts_with("[anon")); }
  bool guard() const { return anonymous() && access.starts_with("---"); }
};

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

uint64_t number(std::string_view word, int base = 10) {
  uint64_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value, base);
  return value;
}

/// "55d0-55e0 rw-p 00000000 fd:00 1234   /usr/bin/x", each followed by lines "Rss:   12 kB".
std::vector<Mapping> parse_mappings(std::istream& smaps) {
  std::vector<Mapping> mappings;
  for (std::string text; std::getline(smaps, text);) {
    std::string_view line = text;
    const std::string_view first = next_word(line);
    if (first == "Rss:") {
      if (!mappings.empty()) mappings.back().resident = static_cast<int64_t>(number(next_word(line)) * 1024);
      continue;
    }
    const size_t dash = first.find('-');
    if (dash == std::string_view::npos || first.ends_with(':')) continue;
    Mapping mapping{.begin = number(first.substr(0, dash), 16), .end = number(first.substr(dash + 1), 16)};
    mapping.access = next_word(line);
    next_word(line);  // offset
    next_word(line);  // device
    mapping.of_file = next_word(line) != "0";
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    mapping.path = line;
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

bool executable(const Mapping& mapping) { return mapping.access.size() > 2 && mapping.access[2] == 'x'; }

HeapTotals heap_totals() {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const struct mallinfo2 info = mallinfo2();
  return {static_cast<int64_t>(info.uordblks), static_cast<int64_t>(info.hblkhd)};
#else
  return {};
#endif
}

uint64_t default_stack_bytes() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  return bytes == 0 ? uint64_t{8} << 20 : bytes;
}

int64_t resident_bytes(uint64_t begin, uint64_t end) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((end - begin) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return 0;
  return static_cast<int64_t>(page) *
         std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) != 0; });
}

}  // namespace

const std::vector<ResidentPart>& resident_parts() {
  static const std::vector<ResidentPart> parts = {
      {"planned", "plans' arenas", &ResidentSet::planned},
      {"tensors", "other tensors and buffers", &ResidentSet::tensors},
      {"pool_slack", "free in our allocators", &ResidentSet::pool_slack},
      {"heap", "heap in use", &ResidentSet::heap},
      {"heap_slack", "free in the heap", &ResidentSet::heap_slack},
      {"program", "program and libraries", &ResidentSet::program},
      {"generated_code", "generated code", &ResidentSet::generated_code},
      {"mapped_files", "mapped files", &ResidentSet::mapped_files},
      {"stacks", "stacks of threads", &ResidentSet::stacks},
      {"device", "device", &ResidentSet::device},
      {"unexplained", "unexplained", &ResidentSet::unexplained},
  };
  return parts;
}

namespace internal {

ResidentSet reconcile(std::istream& smaps, const OwnMemory& own, const HeapTotals& heap, uint64_t stack_bytes,
                      const std::function<int64_t(uint64_t begin, uint64_t end)>& resident) {
  const std::vector<Mapping> mappings = parse_mappings(smaps);
  std::set<std::string_view> programs;  // files that have a mapping with code
  for (const Mapping& mapping : mappings) {
    if (mapping.of_file && executable(mapping)) programs.insert(mapping.path);
  }
  ResidentSet set;
  int64_t heap_resident = 0, rest = 0;  // of malloc's arenas; of mappings of unclear origin
  for (size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    const Mapping* before = i > 0 && mappings[i - 1].end == mapping.begin ? &mappings[i - 1] : nullptr;
    const Mapping* after =
        i + 1 < mappings.size() && mappings[i + 1].begin == mapping.end ? &mappings[i + 1] : nullptr;
    set.total += mapping.resident;
    if (mapping.of_file) {
      (programs.contains(mapping.path) ? set.program : set.mapped_files) += mapping.resident;
    } else if (mapping.path == "[heap]") {
      heap_resident += mapping.resident;
    } else if (mapping.path == "[stack]") {
      set.stacks += mapping.resident;
    } else if (!mapping.anonymous()) {
      set.program += mapping.resident;  // [vdso] and the like
    } else if (executable(mapping)) {
      set.generated_code += mapping.resident;
    } else if (before != nullptr && before->of_file && programs.contains(before->path)) {
      set.program += mapping.resident;  // zero-initialized data isn't stored in the file
    } else if (before != nullptr && before->guard() && before->size() == kGuardBytes) {
      // A stack grows down to its guard; above it, the system may have joined another mapping to it.
      const uint64_t longest = stack_bytes - std::min(stack_bytes, kGuardBytes);
      const int64_t stack =
          mapping.size() <= stack_bytes
              ? mapping.resident
              : std::min(resident(mapping.begin, mapping.begin + longest), mapping.resident);
      set.stacks += stack;
      rest += mapping.resident - stack;
    } else if (mapping.begin % kThreadHeapBytes == 0 &&
               (mapping.size() == kThreadHeapBytes ||
                (after != nullptr && after->guard() && after->end == mapping.begin + kThreadHeapBytes))) {
      heap_resident += mapping.resident;
    } else {
      rest += mapping.resident;
    }
  }
  set.planned = own.planned;
  set.tensors = own.in_use - own.planned;
  const int64_t from_malloc = own.reserved - std::min(own.reserved, own.mapped);
  set.pool_slack = own.mapped + from_malloc - own.in_use;
  rest -= own.mapped;
  const int64_t blocks = std::clamp<int64_t>(rest, 0, heap.mapped);  // malloc's blocks in separate mappings
  rest -= blocks;
  const int64_t in_arenas = std::min(heap.in_use, heap_resident);
  heap_resident += blocks - from_malloc;
  set.heap = std::max<int64_t>(in_arenas + blocks - from_malloc, 0);
  set.heap_slack = heap_resident - set.heap;
  set.unexplained = rest;
  return set;
}

}  // namespace internal

ResidentSet read_resident_set(const OwnMemory& own) {
  const HeapTotals heap = heap_totals();  // before the mappings take their share of the heap
  std::ifstream smaps("/proc/self/smaps");
  return internal::reconcile(smaps, own, heap, default_stack_bytes(), resident_bytes);
}

}  // namespace isochron::observe
