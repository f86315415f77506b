// Pooling on a device.
#include <algorithm>

#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

/// The text that computes an element of the result. `from`: the beginning of its image in the input.
std::string element_text(Pooling pooling, std::string_view sum, const std::string& from, int64_t channels,
                         bool count_padding) {
  const std::string rest = fmt::format("{}u, pixel", channels);
  switch (pooling) {
    case Pooling::kMax:
      return fmt::format(
          "max_of_window(window, in0 + {}, {}, out0 ? out0 + i : out0, out1 ? out1 + i : out1);", from, rest);
    case Pooling::kMaxGradient:
      return fmt::format("put(out0 + i, gradient_of_max<{}>(window, in0 + {}, in1 + {}, {}));", sum, from,
                         from, rest);
    case Pooling::kMaxSelect:
      return fmt::format(
          "const int at = window.source(pixel, in1[i]);\n  if (at < 0) put(out0 + i, {}(0)); "
          "else out0[i] = in0[{} + at * {}ull];",
          sum, from, channels);
    case Pooling::kAverage:
      return fmt::format("put(out0 + i, average_of_window<{}>(window, in0 + {}, {}, {}));", sum, from, rest,
                         count_padding);
    case Pooling::kAverageGradient:
      return fmt::format("put(out0 + i, gradient_of_average<{}>(window, in0 + {}, {}, {}));", sum, from, rest,
                         count_padding);
  }
  return {};
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_pooling_cuda(Pooling pooling, const PoolingShape& s,
                                                    const graph::KernelRequest& request) {
  // Selecting ops need input and result in one dtype; other calls are computed in f32.
  const bool chooses = pooling == Pooling::kMax || pooling == Pooling::kMaxSelect;
  if (chooses && request.outputs[0].dtype != request.inputs[0].dtype) return nullptr;
  auto kernel = std::make_unique<LaunchKernel>(request);
  const bool backward = pooling == Pooling::kMaxGradient || pooling == Pooling::kAverageGradient;
  const int64_t pixels = backward ? s.input_pixels() : s.output_pixels();  // of the result's images
  const int64_t others = backward ? s.output_pixels() : s.input_pixels();
  const int64_t elems = s.batch * pixels * s.channels;
  if (elems == 0) return kernel;
  require(std::max(pixels, others) < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
          "{} has more pixels than its kernel counts", request.inputs[0].str());
  request.module->add_shared(std::string(backends::texts::kWindow));
  request.module->add_shared(std::string(backends::texts::kPooling));
  const std::string_view sum = request.inputs[0].dtype == DType::kF64 ? "double" : "float";
  kernel->add_loop(
      request, elems,
      fmt::format("constexpr Window window = {};\n  const int pixel = i / {}u % {}u;\n"
                  "  const unsigned long long from = i / {}ull * {}ull + i % {}u;\n  {}",
                  window_text(request, s), s.channels, pixels, pixels * s.channels, others * s.channels,
                  s.channels, element_text(pooling, sum, "from", s.channels, s.count_padding)));
  return kernel;
}

}  // namespace isochron::ops
