// A tool as NVTX loads it (NVTX_INJECTION64_PATH): counts ranges and writes its results to the file named by
// ISOCHRON_NVTX_SEEN, one line per category or string.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Seen {
  std::mutex mutex;
  std::string domain;
  std::map<uint32_t, std::string> categories;
  std::map<std::string, long> ranges;  // by category
  std::map<std::string, long> messages;
  std::deque<std::string> strings;  // the registered strings
  long pushed = 0, popped = 0;

  ~Seen() {
    const char* path = std::getenv("ISOCHRON_NVTX_SEEN");
    std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    std::fprintf(file, "domain %s\npushed %ld\npopped %ld\n", domain.c_str(), pushed, popped);
    for (const auto& [name, count] : ranges) std::fprintf(file, "category %s %ld\n", name.c_str(), count);
    for (const auto& [name, count] : messages) std::fprintf(file, "message %ld %s\n", count, name.c_str());
    std::fclose(file);
  }
};

Seen& seen() {
  static Seen instance;
  return instance;
}

nvtxDomainHandle_t NVTX_API create(const char* name) {
  seen().domain = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&seen());
}

void NVTX_API name_category(nvtxDomainHandle_t, uint32_t category, const char* name) {
  const std::lock_guard lock(seen().mutex);
  seen().categories[category] = name;
}

nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard lock(seen().mutex);
  return reinterpret_cast<nvtxStringHandle_t>(&seen().strings.emplace_back(text));
}

int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  const std::lock_guard lock(seen().mutex);
  ++seen().pushed;
  ++seen().ranges[seen().categories[range->category]];
  ++seen().messages[*reinterpret_cast<const std::string*>(range->message.registered)];
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t) {
  const std::lock_guard lock(seen().mutex);
  ++seen().popped;
  return 0;
}

template <typename F>
void set(NvtxFunctionTable table, unsigned size, unsigned number, F function) {
  if (number < size) *table[number] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t exports) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(exports(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
