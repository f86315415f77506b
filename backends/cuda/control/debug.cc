// Kernels of the debugging ops on a device, which inspect their input and return it. The host doesn't wait
// for them.
#include <algorithm>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

using element::kRowThreads;
using graph::KernelRequest;

constexpr size_t kNotFiniteBytes = 2 * sizeof(unsigned long long);  // of debug_text.h

/// `text` as part of a printf format in a string literal.
std::string format_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view(" _-.,:()/").find(c) != std::string_view::npos;
    result += c == '%' ? "%%" : plain ? std::string(1, c) : fmt::format("\\{:03o}", static_cast<uint8_t>(c));
  }
  return result;
}

std::string label_of(const KernelRequest& request) {
  return format_text(request.attributes.get<std::string>("label"));
}

std::unique_ptr<LaunchKernel> debug_kernel(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  for (const std::string_view text : {backends::texts::kRows, backends::texts::kDebug})
    request.module->add_shared(std::string(text));
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_print_cuda(const KernelRequest& request) {
  constexpr int64_t kShown = 16;  // elements, as in Tensor::str
  auto kernel = debug_kernel(request);
  const TensorSpec& x = request.inputs[0];
  std::string format = fmt::format("{}: Tensor({}:", label_of(request), x.str()), numbers;
  for (int64_t i = 0; i < std::min(kShown, x.shape.elems()); ++i) {
    format += " %g";
    numbers += fmt::format(", static_cast<double>(widen(in0[{}]))", i);
  }
  if (x.shape.elems() == 0) format += " ";
  if (x.shape.elems() > kShown) format += " ...";
  // A single call, so that no other output comes in between.
  kernel->add(request, fmt::format("ISOCHRON_PRINT(\"{})\\n\"{});", format, numbers),
              row_of_blocks(request, 1, 1), {{Slot::kInput, 0}});
  kernel->add_loop(request, x.shape.elems(), "if (out0 != in0) out0[i] = in0[i];", moved_type);
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_check_numerics_cuda(const KernelRequest& request) {
  constexpr int64_t kLooksEach = 16,
                    kMaxBlocks = 1024;  // elements of a thread; before more blocks are worth it
  auto kernel = debug_kernel(request);
  const TensorSpec& x = request.inputs[0];
  const int64_t elems = x.shape.elems();
  if (elems == 0) return kernel;
  const int64_t blocks = std::clamp<int64_t>(elems / (kRowThreads * kLooksEach), 1, kMaxBlocks);
  kernel->need_workspace(static_cast<size_t>(blocks) * kNotFiniteBytes);
  kernel->add(request,
              fmt::format("// threads meet\n  const NotFinite found = copy_and_look(in0, out0, {}ull);\n"
                          "  if (threadIdx.x == 0) static_cast<NotFinite*>(workspace)[blockIdx.x] = found;",
                          elems),
              row_of_blocks(request, blocks, kRowThreads));
  for (int axis = 0; axis < x.shape.rank(); ++axis) counted(request, x.shape[axis]);
  PlaceMessage first = place_message("found.first", static_cast<Dims>(x.shape));
  first.arguments.insert(first.arguments.begin(), "found.count");
  kernel->add(
      request,
      fmt::format(
          "// threads meet\n"
          "  const NotFinite found = found_by_blocks(static_cast<const NotFinite*>(workspace), {}u, "
          "{}ull);\n"
          "  if (threadIdx.x == 0 && found.count > 0)\n"
          "    ISOCHRON_FAULT(\"check_numerics: '{}' {}: %llu of {} elements are NaN or infinite, the "
          "first at ({})\", {});",
          blocks, elems, label_of(request), x.str(), elems, first.format, fmt::join(first.arguments, ", ")),
      row_of_blocks(request, 1, kRowThreads), std::vector<Slot>{});
  return kernel;
}

}  // namespace isochron::ops
