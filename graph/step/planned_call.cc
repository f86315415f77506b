#include "isochron/graph/step/planned_call.h"

#include <utility>

#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron {

void PlannedCall::bind(const Ref<Storage>& arena) {
  plan->bind_arena(arena->data());
  output_impls.clear();
  for (size_t i = 0; i < graph->outputs().size(); ++i) {
    const size_t offset = static_cast<size_t>(plan->output(i) - arena->data());
    output_impls.push_back(Tensor::over(arena, graph->outputs()[i]->spec, offset).impl());
    if (i < outputs.size() && outputs[i].defined()) outputs[i] = Tensor(output_impls[i]);  // frees the old
  }
}

void PlannedCall::make_ring(Device device) {
  std::vector<size_t> bytes;
  for (const TensorSpec& spec : signature) bytes.push_back(spec.size_bytes());
  ring = std::make_unique<cuda::TransferRing>(cuda::gpu(device), bytes);
  for (size_t slot = 0; slot < cuda::TransferRing::kSlots; ++slot) {
    const std::span<std::byte* const> there = ring->addresses(slot);
    for (size_t i = 0; i < there.size(); ++i) plan->bind_input(i, there[i]);
    plan->record();
  }
}

void PlannedCall::bind_on_device(Device device, const std::string& name,
                                 std::span<const Tensor* const> arguments) {
  transfers = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Tensor& argument = arguments[i]->contiguous() ? *arguments[i] : packed[i];
    if (argument.device() != device && !argument.device().is_cpu()) [[unlikely]]
      fail(ErrorCode::kDevice, name,
           "argument {}, {}, lives on {}, but the plan is for {}; pass tensors on that device or on the CPU",
           i, argument.spec().str(), argument.device().str(), device.str());
    parts[i] = argument.device().is_cpu() ? argument.raw() : nullptr;
    transfers |= parts[i] != nullptr;
  }
  std::span<std::byte* const> there;
  if (transfers) {
    if (!ring) [[unlikely]]
      make_ring(device);
    there = ring->begin(parts);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    plan->bind_input(i, parts[i] != nullptr ? there[i] : address_for(i, *arguments[i]));
  }
}

/// The address of an argument on the plan's device. If the argument isn't aligned as libraries require (a
/// part of another tensor may not be), it is copied, and this is the address of the copy.
std::byte* PlannedCall::address_for(size_t index, const Tensor& argument) {
  Tensor& copied = packed[index];
  const Tensor& content = argument.contiguous() ? argument : copied;
  std::byte* const address = content.device_address();
  if (reinterpret_cast<uintptr_t>(address) % cuda::kLibraryAlignment == 0) return address;
  if (!copied.defined() || copied.device() != argument.device()) {
    copied = graph::copy(argument);
  } else {
    cuda::Gpu& gpu = *cuda::gpu(argument.device());
    cuda::copy_within(gpu.context(), copied.device_address(), address, argument.spec().size_bytes(),
                      gpu.stream());
  }
  return copied.device_address();
}

void PlannedCall::end_transfer() {
  if (std::exchange(transfers, false)) ring->end();
}

}  // namespace isochron
