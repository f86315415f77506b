#include "isochron/core/telemetry/nvtx.h"

#include "isochron/core/telemetry/trace.h"

#ifdef ISOCHRON_NVTX
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <mutex>
#include <string>
#endif

namespace isochron {

#ifdef ISOCHRON_NVTX

bool built_with_nvtx() { return true; }

namespace internal {
namespace {

nvtxDomainHandle_t g_domain = nullptr;
/// Both are indexed by a name's number.
std::array<std::atomic<nvtxStringHandle_t>, kMaxTraceNames + 1> g_strings{};
std::array<std::atomic<uint8_t>, kMaxTraceNames + 1> g_categories{};  // 0: not registered yet

void register_name(uint32_t number) {  // two threads may do so at once, which does no harm
  const TraceName& name = trace_name_of(number);
  g_strings[number].store(nvtxDomainRegisterStringA(g_domain, name.name.c_str()), std::memory_order_relaxed);
  g_categories[number].store(static_cast<uint8_t>(name.category) + 1, std::memory_order_release);
}

}  // namespace

void nvtx_begin() {
  static std::once_flag begun;
  std::call_once(begun, [] {
    g_domain = nvtxDomainCreateA("isochron");
    for (uint32_t c = 0; c < static_cast<uint32_t>(TraceCategory::kCount); ++c) {
      const std::string name(trace_category_name(static_cast<TraceCategory>(c)));
      nvtxDomainNameCategoryA(g_domain, c + 1, name.c_str());
    }
  });
}

void nvtx_push(uint32_t name, int64_t value) {
  if (g_categories[name].load(std::memory_order_acquire) == 0) register_name(name);
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.category = g_categories[name].load(std::memory_order_relaxed);
  range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  range.payload.llValue = value;
  range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  range.message.registered = g_strings[name].load(std::memory_order_relaxed);
  nvtxDomainRangePushEx(g_domain, &range);
}

void nvtx_pop() { nvtxDomainRangePop(g_domain); }

}  // namespace internal

#else

bool built_with_nvtx() { return false; }

namespace internal {
void nvtx_begin() {}
void nvtx_push(uint32_t, int64_t) {}
void nvtx_pop() {}
}  // namespace internal

#endif

}  // namespace isochron
