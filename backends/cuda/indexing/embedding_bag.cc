// Reductions of the rows of a table by bags of indices on a device.
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/ops/indexing/embedding.h"

namespace isochron::ops {

/// A thread for each element of the result.
std::unique_ptr<graph::Kernel> prepare_embedding_bag_cuda(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const graph::Attributes& attributes = request.attributes;
  const Shape &table = request.inputs[0].shape, &result = request.outputs[0].shape;
  if (result.elems() == 0) return kernel;
  const auto mode = static_cast<BagMode>(attributes.get<int64_t>("mode"));
  const bool cut = attributes.get<bool>("cut"), weighted = attributes.get<bool>("weighted");
  const int64_t bags = result[0], width = table[1], count = request.inputs[1].shape.elems();
  counted(request, count + 1);  // one more, for the end of the last bag
  const std::string bag = cut ? fmt::format("bag_between(in2, bag, {}u, {}u, {})", counted(request, bags),
                                            count, attributes.get<bool>("last_offset"))
                              : fmt::format("Bag{{bag * {0}u, bag * {0}u + {0}u}}", count / bags);
  const std::string arguments =
      fmt::format("in0 + i % {0}ll, {1}u, {0}ull, in1, {2}, {3}ll", width, counted(request, table[0]), bag,
                  attributes.get<int64_t>("padding"));
  const std::string_view sum = computed_type(request.inputs[0].dtype);
  std::string call;
  if (mode == BagMode::kMax) {
    call = fmt::format("largest_of_bag<{}>({}, out0 + i, out1 + i);", sum, arguments);
  } else {
    const std::string weights =
        weighted ? fmt::format("in{}", cut ? 3 : 2) : fmt::format("static_cast<decltype(in0)>(nullptr)");
    call =
        fmt::format("sum_of_bag<{}>({}, {}, {}, out0 + i);", sum, arguments, weights, mode == BagMode::kMean);
  }
  request.module->add_shared(std::string(backends::texts::kIndexing));
  kernel->add_loop(request, result.elems(),
                   fmt::format("const unsigned bag = static_cast<unsigned>(i / {}ll);\n  {}", width, call));
  return kernel;
}

}  // namespace isochron::ops
