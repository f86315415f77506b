// Convolutions by cuDNN.
#include "isochron/backends/cuda/libraries/convolutions.h"

#ifdef ISOCHRON_CUDA
#include "isochron/backends/cuda/libraries/cudnn-inl.h"
#endif

namespace isochron::cuda {

#ifndef ISOCHRON_CUDA

ConvolutionLibrary* machine_convolutions() { return nullptr; }
std::unique_ptr<ConvolutionLibrary> convolutions_for(const std::string&) { return nullptr; }

#else

namespace {

using cudnn::Descriptor;

constexpr int64_t kX = 1, kKernel = 2, kY = 3;  // the ids of the tensors in the graph

class CudnnConvolutions final : public ConvolutionLibrary {
 public:
  CudnnConvolutions(const cudnn::Calls& calls, std::string described)
      : planner_(calls, std::move(described)) {}

  int64_t version() override { return planner_.version(); }

  LibraryAlgorithms algorithms(Context& context, const ConvolutionSpec& spec) override {
    return planner_.calls_of(kept_.plans(context, spec, [&] {
      return planner_.plans(context, operations(spec), spec.dtype != DType::kF32 || spec.tf32);
    }));
  }

 private:
  cudnn::Operations operations(const ConvolutionSpec& spec) const {
    const Names names = names_of(spec.pass);
    cudnn::Operations graph{.tensors = 3};
    const Descriptor& x =
        graph.keep(image(kX, spec.dtype, spec, spec.channels, &ConvolutionSpec::Axis::input));
    const Descriptor& weights = graph.keep(kernel(spec));
    const Descriptor& y =
        graph.keep(image(kY, spec.dtype, spec, spec.outputs, &ConvolutionSpec::Axis::output));
    const Descriptor& windows = graph.keep(window(spec));
    Descriptor operation = planner_.make(names.operation);
    operation.set(names.x, x)
        .set(names.kernel, weights)
        .set(names.y, y)
        .set(names.window, windows)
        .set(names.alpha, 1.0F)
        .set(names.beta, 0.0F);
    graph.add(std::move(operation));
    return graph;
  }
  /// A tensor with dimensions in the library's order: batch, channels, spatial (for a kernel: outputs,
  /// channels, spatial).
  Descriptor tensor(int64_t id, DType dtype, const std::vector<int64_t>& dimensions,
                    const std::vector<int64_t>& strides) const {
    Descriptor made = planner_.tensor(id, cudnn::type_of(dtype), dimensions, strides);
    made.finalize();
    return made;
  }
  /// A tensor stored as (batch, spatial..., channels).
  Descriptor image(int64_t id, DType dtype, const ConvolutionSpec& spec, int64_t channels,
                   int64_t ConvolutionSpec::Axis::*extent) const {
    std::vector<int64_t> dimensions = {spec.batch, channels}, strides(static_cast<size_t>(spec.axes) + 2, 1);
    int64_t stride = channels;
    for (int a = spec.axes - 1; a >= 0; --a) {
      strides[static_cast<size_t>(a) + 2] = stride;
      stride *= spec.axis[static_cast<size_t>(a)].*extent;
    }
    strides[0] = stride;
    for (int a = 0; a < spec.axes; ++a) dimensions.push_back(spec.axis[static_cast<size_t>(a)].*extent);
    return tensor(id, dtype, dimensions, strides);
  }
  /// A kernel stored as (outputs, spatial..., channels of a group). For images with channels last, the
  /// library's engines support no other order of the kernel's axes, regardless of the strides.
  Descriptor kernel(const ConvolutionSpec& spec) const {
    const int64_t channels = spec.channels / spec.groups;
    std::vector<int64_t> dimensions = {spec.outputs, channels},
                         strides(static_cast<size_t>(spec.axes) + 2, 1);
    int64_t stride = channels;
    for (int a = spec.axes - 1; a >= 0; --a) {
      strides[static_cast<size_t>(a) + 2] = stride;
      stride *= spec.axis[static_cast<size_t>(a)].window;
    }
    strides[0] = stride;
    for (int a = 0; a < spec.axes; ++a) dimensions.push_back(spec.axis[static_cast<size_t>(a)].window);
    return tensor(kKernel, spec.dtype, dimensions, strides);
  }
  Descriptor window(const ConvolutionSpec& spec) const {
    const auto each = [&](int64_t ConvolutionSpec::Axis::*number) {
      std::vector<int64_t> numbers;
      for (int a = 0; a < spec.axes; ++a) numbers.push_back(spec.axis[static_cast<size_t>(a)].*number);
      return numbers;
    };
    Descriptor made = planner_.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(spec.axes))
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, each(&ConvolutionSpec::Axis::before))
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, each(&ConvolutionSpec::Axis::after))
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, each(&ConvolutionSpec::Axis::stride))
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, each(&ConvolutionSpec::Axis::dilation))
        .finalize();
    return made;
  }

  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, kernel, y, window, alpha, beta;
  };
  static Names names_of(ConvolutionSpec::Pass pass) {
    switch (pass) {
      case ConvolutionSpec::Pass::kInputGradient:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
      case ConvolutionSpec::Pass::kWeightGradient:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
      default:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    }
  }

  cudnn::Planner planner_;
  cudnn::KeptPlans<ConvolutionSpec> kept_;
};

}  // namespace

ConvolutionLibrary* machine_convolutions() {
  static ConvolutionLibrary* const library =
      cudnn::machine_calls() != nullptr ? new CudnnConvolutions(*cudnn::machine_calls(), {}) : nullptr;
  return library;
}

std::unique_ptr<ConvolutionLibrary> convolutions_for(const std::string& described_device) {
  if (cudnn::machine_calls() == nullptr) return nullptr;
  return std::make_unique<CudnnConvolutions>(*cudnn::machine_calls(), described_device);
}

#endif

}  // namespace isochron::cuda
