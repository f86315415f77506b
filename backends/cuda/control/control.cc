#include "isochron/backends/cuda/control/control.h"

#include <algorithm>

#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

/// Captures `body` as a conditional node that runs under `condition`.
void capture_body(cuda::Context& context, cuda::Stream stream, cuda::Condition condition, bool repeats,
                  const EnqueueFunction& body) {
  const cuda::Stream within = context.begin_body(stream, condition, repeats);
  try {
    body(within);
  } catch (...) {
    try {
      context.end_body(within);
    } catch (const Error&) {  // less informative than the original error
    }
    throw;
  }
  context.end_body(within);
}

}  // namespace

DeviceControl::DeviceControl(cuda::KernelModule& module) : module_(module) {
  const std::string name = module.unique_name("set_condition");
  module.need_device_runtime();
  module.add_shared(element_prelude());
  module.add(
      fmt::format("extern \"C\" __global__ void {}(unsigned long long condition, const bool* predicate, "
                  "bool wanted) {{\n  set_condition(condition, *predicate == wanted);\n}}\n",
                  name));
  set_ = module.add_function(name);
}

void DeviceControl::set(cuda::Stream stream, cuda::Condition condition, const std::byte* predicate,
                        bool wanted) const {
  void* arguments[] = {&condition, &predicate, &wanted};
  module_.launch(set_, {}, arguments, stream);
}

bool DeviceControl::read(cuda::Stream stream, const std::byte* predicate) const {
  bool value = false;
  context().copy_to_host(&value, reinterpret_cast<uintptr_t>(predicate), sizeof value, stream);
  context().synchronize(stream);
  return value;
}

void DeviceControl::run_if(cuda::Stream stream, const std::byte* predicate, bool wanted,
                           const EnqueueFunction& body) const {
  if (!context().capturing(stream)) {
    if (read(stream, predicate) == wanted) body(stream);
    return;
  }
  const cuda::Condition condition = context().create_condition(stream);
  set(stream, condition, predicate, wanted);
  capture_body(context(), stream, condition, false, body);
}

void DeviceControl::run_while(cuda::Stream stream, const std::byte* predicate,
                              const EnqueueFunction& body) const {
  if (!context().capturing(stream)) {
    while (read(stream, predicate)) body(stream);
    return;
  }
  const cuda::Condition condition = context().create_condition(stream);
  set(stream, condition, predicate, true);
  capture_body(context(), stream, condition, true, [&](cuda::Stream within) {
    body(within);
    set(within, condition, predicate, true);
  });
}

DeviceLoop::DeviceLoop(cuda::KernelModule& module) : module_(module) {
  module.add_shared(element_prelude());
  module.add_shared(std::string(backends::texts::kLoops));
  set_number_ = module.add_function("set_number");
  count_iteration_ = module.add_function("count_iteration");
  test_bound_ = module.add_function("test_bound");
  save_row_ = module.add_function("save_row");
}

void DeviceLoop::set_number(cuda::Stream stream, std::byte* number, int64_t value) const {
  void* arguments[] = {&number, &value};
  module_.launch(set_number_, {}, arguments, stream);
}

void DeviceLoop::count_iteration(cuda::Stream stream, std::byte* iteration) const {
  void* arguments[] = {&iteration};
  module_.launch(count_iteration_, {}, arguments, stream);
}

void DeviceLoop::test_bound(cuda::Stream stream, const std::byte* iteration, int64_t bound,
                            std::byte* continues) const {
  void* arguments[] = {&iteration, &bound, &continues};
  module_.launch(test_bound_, {}, arguments, stream);
}

void DeviceLoop::save_row(cuda::Stream stream, const std::byte* row, std::byte* stack, const std::byte* index,
                          size_t bytes) const {
  constexpr uint64_t kThreads = 256, kMaxBlocks = 1024, kBytesEach = 4;
  if (bytes == 0) return;
  uint64_t count = bytes;
  const auto blocks = static_cast<unsigned>(
      std::min<uint64_t>(kMaxBlocks, (count + kThreads * kBytesEach - 1) / (kThreads * kBytesEach)));
  void* arguments[] = {&row, &stack, &index, &count};
  module_.launch(save_row_, {.grid = {blocks, 1, 1}, .block = {kThreads, 1, 1}}, arguments, stream);
}

}  // namespace isochron::ops
