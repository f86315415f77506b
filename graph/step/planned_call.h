// One plan of a captured function, with what its calls need: results, and copies of arguments.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/signature.h"
#include "isochron/graph/capture/settings.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/graph/program/plan.h"
#include "isochron/memory/cuda/transfer_ring.h"

namespace isochron {

struct PlannedCall {
  Signature signature;
  graph::TracedSettings settings;
  std::unique_ptr<graph::Graph> graph;
  std::unique_ptr<graph::Plan> plan;
  std::vector<Ref<TensorImpl>> output_impls;
  std::vector<Tensor> outputs;
  std::vector<Tensor> borrowed;  // results and dataset elements that the plan reads in place
  std::vector<Tensor> packed;    // copies of arguments that are strided or, on a device, misaligned
  // On a device: `parts` are the current call's arguments on the CPU (null for others). `ring` copies them to
  // the device; it is null until make_ring().
  std::vector<const std::byte*> parts;
  bool transfers = false;
  std::unique_ptr<cuda::TransferRing> ring;
  uint64_t last_call = 0;

  /// Whether the plan serves these arguments under the present settings.
  bool serves(std::span<const Tensor* const> arguments) const {
    if (signature.size() != arguments.size() || !settings.hold()) return false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!(signature[i] == arguments[i]->spec())) return false;
    }
    return true;
  }
  /// Makes the results views of `arena`.
  void bind(const Ref<Storage>& arena);
  /// Makes the ring that copies arguments to the device, and records the plan for each of its slots.
  void make_ring(Device device);
  /// Binds the arguments of a plan for `device`. Arguments on the CPU are copied to the device. Throws
  /// kDevice, as `name`, for arguments on another device.
  void bind_on_device(Device device, const std::string& name, std::span<const Tensor* const> arguments);
  void end_transfer();

 private:
  std::byte* address_for(size_t index, const Tensor& argument);
};

}  // namespace isochron
