// Sums of gradients by a tree on a device.
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/optimizer/update_settings.h"

namespace isochron::ops {

/// One launch per gradient. Results may be stored in the memory of the inputs.
std::unique_ptr<graph::Kernel> prepare_tree_accumulate_cuda(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  add_update_texts(*request.module);
  constexpr size_t kFirst = 2;  // behind phase and due
  const auto count = static_cast<size_t>(request.attributes.get<int64_t>("gradients"));
  for (size_t g = 0; g < count; ++g) {
    const TensorSpec& spec = request.outputs[g];
    std::vector<Slot> slots = {
        {Slot::kInput, 0}, {Slot::kInput, 1}, {Slot::kInput, kFirst + g}, {Slot::kOutput, g}};
    std::string text = fmt::format(
        "const long long phase = *in0;\n  const bool due = *in1;\n"
        "  bool placed = due;\n  {} total = in{}[i];\n",
        storage_type(spec.dtype), kFirst + g);
    for (size_t o = g + count, level = 0; o < request.outputs.size(); o += count, ++level) {
      slots.insert(slots.end(), {{Slot::kInput, kFirst + o}, {Slot::kOutput, o}});
      text += fmt::format("  add_level(total, in{}[i], out{}[i], (phase >> {} & 1) != 0, due, placed);\n",
                          kFirst + o, o, level);
    }
    kernel->add_loop(request, spec.shape.elems(), text + fmt::format("  out{}[i] = total;", g),
                     std::move(slots));
  }
  return kernel;
}

}  // namespace isochron::ops
