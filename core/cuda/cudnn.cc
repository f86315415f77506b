// cuDNN through its graph API, loaded at run time.
#include "isochron/core/cuda/convolutions.h"

#ifdef ISOCHRON_CUDA
#include <cudnn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "isochron/core/cuda/shared_library.h"
#include "isochron/core/error.h"
#endif

namespace isochron::cuda {

#ifndef ISOCHRON_CUDA

ConvolutionLibrary* machine_convolutions() { return nullptr; }
std::unique_ptr<ConvolutionLibrary> convolutions_for(const std::string&) { return nullptr; }

#else

namespace {

// clang-format off
#define ISOCHRON_CUDNN_CALLS(X) \
  X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) X(cudnnCreate) X(cudnnSetStream) \
  X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) \
  X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
// clang-format on

struct Calls {
  SharedLibrary library{"cuDNN",
                        {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", "libcudnn.so"},
                        "install cuDNN 9 for CUDA 13, or put its folder in LD_LIBRARY_PATH"};
#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_CUDNN_CALLS(X)
#undef X

  Calls() {
#define X(name) library.find(this->name, #name);
    ISOCHRON_CUDNN_CALLS(X)
#undef X
    require(cudnnGetVersion() >= kOldestVersion, ErrorCode::kUnsupported, "cuda",
            "cuDNN {} is too old; {} or later is needed", cudnnGetVersion(), kOldestVersion);
  }

  void check(cudnnStatus_t status, const char* call) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char more[1024] = "";
    cudnnGetLastErrorString(more, sizeof more);
    fail(ErrorCode::kDevice, "cuda", "{}: {} {}", call, cudnnGetErrorString(status), more);
  }

  static constexpr size_t kOldestVersion = 90800;  // the first that plans for a device by its description
};

#define ISOCHRON_CALL(function, ...) calls_.check(calls_.function(__VA_ARGS__), #function)

template <typename T>
struct AttributeType;
#define ISOCHRON_ATTRIBUTE(T, name)                            \
  template <>                                                  \
  struct AttributeType<T> {                                    \
    static constexpr cudnnBackendAttributeType_t kType = name; \
  };
ISOCHRON_ATTRIBUTE(int64_t, CUDNN_TYPE_INT64)
ISOCHRON_ATTRIBUTE(float, CUDNN_TYPE_FLOAT)
ISOCHRON_ATTRIBUTE(char, CUDNN_TYPE_CHAR)
ISOCHRON_ATTRIBUTE(void*, CUDNN_TYPE_VOID_PTR)
ISOCHRON_ATTRIBUTE(cudnnHandle_t, CUDNN_TYPE_HANDLE)
ISOCHRON_ATTRIBUTE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE)
ISOCHRON_ATTRIBUTE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE)
ISOCHRON_ATTRIBUTE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE)
ISOCHRON_ATTRIBUTE(cudnnBackendNumericalNote_t, CUDNN_TYPE_NUMERICAL_NOTE)
#undef ISOCHRON_ATTRIBUTE

/// A descriptor of the graph API.
class Descriptor {
 public:
  Descriptor(const Calls& calls, cudnnBackendDescriptorType_t type) : calls_(calls) {
    ISOCHRON_CALL(cudnnBackendCreateDescriptor, type, &made_);
  }
  Descriptor(Descriptor&& other) noexcept
      : calls_(other.calls_), made_(std::exchange(other.made_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (made_ != nullptr) calls_.cudnnBackendDestroyDescriptor(made_);
  }

  cudnnBackendDescriptor_t get() const { return made_; }

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    ISOCHRON_CALL(cudnnBackendSetAttribute, made_, name, AttributeType<T>::kType, std::ssize(values),
                  values.data());
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span(&value, 1));
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return set(name, std::span<const T>(values));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    const cudnnBackendDescriptor_t descriptor = value.get();
    ISOCHRON_CALL(cudnnBackendSetAttribute, made_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
    return *this;
  }
  Descriptor& finalize() {
    ISOCHRON_CALL(cudnnBackendFinalize, made_);
    return *this;
  }
  /// False where the library has no such thing.
  bool finalized() { return calls_.cudnnBackendFinalize(made_) == CUDNN_STATUS_SUCCESS; }

  template <typename T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    int64_t count = 0;
    ISOCHRON_CALL(cudnnBackendGetAttribute, made_, name, AttributeType<T>::kType, 1, &count, &value);
    return value;
  }
  /// At most `most`.
  template <typename T>
  std::vector<T> list(cudnnBackendAttributeName_t name, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    int64_t count = 0;
    ISOCHRON_CALL(cudnnBackendGetAttribute, made_, name, AttributeType<T>::kType, most, &count,
                  values.data());
    values.resize(static_cast<size_t>(std::min(count, most)));
    return values;
  }
  /// Fills descriptors that are there.
  int64_t read(cudnnBackendAttributeName_t name, std::span<cudnnBackendDescriptor_t> to) const {
    int64_t count = 0;
    ISOCHRON_CALL(cudnnBackendGetAttribute, made_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(to),
                  &count, to.data());
    return count;
  }

 private:
  const Calls& calls_;
  cudnnBackendDescriptor_t made_ = nullptr;
};

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDNN_DATA_DOUBLE;
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// A device's handle. Handles have one stream at a time.
struct Handle {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

constexpr int64_t kX = 1, kKernel = 2, kY = 3;  // how the tensors are called in the graph

/// What a plan was made from, which lives as long.
struct Description {
  Descriptor x, kernel, y, window, operation, graph, device;
};

class CudnnConvolution final : public LibraryCall {
 public:
  CudnnConvolution(const Calls& calls, std::shared_ptr<Handle> handle,
                   std::shared_ptr<const Description> description, std::string name, Descriptor configuration,
                   Descriptor plan)
      : calls_(calls),
        handle_(std::move(handle)),
        description_(std::move(description)),
        name_(std::move(name)),
        configuration_(std::move(configuration)),
        plan_(std::move(plan)),
        workspace_bytes_(static_cast<size_t>(plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

  std::string name() const override { return name_; }
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) override {
    require(handle_ != nullptr, ErrorCode::kUnsupported, "cuda",
            "{} is for a device that is described, not for one that is here", name_);
    std::vector<void*> addresses;
    for (const DevicePtr each : tensors) addresses.push_back(reinterpret_cast<void*>(each));
    Descriptor pack(calls_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<int64_t>{kX, kKernel, kY})
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, reinterpret_cast<void*>(workspace))
        .finalize();
    const std::lock_guard lock(handle_->mutex);
    ISOCHRON_CALL(cudnnSetStream, handle_->handle, reinterpret_cast<cudaStream_t>(stream));
    ISOCHRON_CALL(cudnnBackendExecute, handle_->handle, plan_.get(), pack.get());
  }

 private:
  const Calls& calls_;
  const std::shared_ptr<Handle> handle_;
  const std::shared_ptr<const Description> description_;
  const std::string name_;
  const Descriptor configuration_;
  const Descriptor plan_;
  const size_t workspace_bytes_;
};

class Cudnn final : public ConvolutionLibrary {
 public:
  /// `described`: the device to plan for; empty: that of each context.
  Cudnn(const Calls& calls, std::string described) : calls_(calls), described_(std::move(described)) {}

  int64_t version() override { return static_cast<int64_t>(calls_.cudnnGetVersion()); }

  LibraryCalls ways(Context& context, const ConvolutionSpec& spec) override {
    context.make_current();
    const std::shared_ptr<Handle> handle = described_.empty() ? handle_for(context.index()) : nullptr;
    std::unique_lock<std::mutex> lock;  // plans read the handle
    if (handle) lock = std::unique_lock(handle->mutex);
    const std::shared_ptr<const Description> description = describe(spec, handle.get());
    LibraryCalls result;
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
      add_plans(spec, description, handle, mode, result);
    return result;
  }

 private:
  Descriptor make(cudnnBackendDescriptorType_t type) { return Descriptor(calls_, type); }

  /// Dimensions in the library's order: batch, channels, spatial. A kernel's are outputs, channels, spatial.
  Descriptor tensor(int64_t id, DType dtype, const std::vector<int64_t>& dimensions,
                    const std::vector<int64_t>& strides) {
    Descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(dtype))
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<int64_t>(kLibraryAlignment))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dimensions)
        .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .finalize();
    return made;
  }
  /// (batch, spatial..., channels).
  Descriptor image(int64_t id, DType dtype, const ConvolutionSpec& spec, int64_t channels,
                   int64_t ConvolutionSpec::Axis::*extent) {
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
  /// (outputs, spatial..., channels of a group): the library's engines know a kernel beside images with their
  /// channels last in no other order, whatever strides they are told.
  Descriptor kernel(const ConvolutionSpec& spec) {
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
  Descriptor window(const ConvolutionSpec& spec) {
    const auto each = [&](int64_t ConvolutionSpec::Axis::*number) {
      std::vector<int64_t> numbers;
      for (int a = 0; a < spec.axes; ++a) numbers.push_back(spec.axis[static_cast<size_t>(a)].*number);
      return numbers;
    };
    Descriptor made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
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
  /// `handle`: null for the described device.
  std::shared_ptr<const Description> describe(const ConvolutionSpec& spec, const Handle* handle) {
    const Names names = names_of(spec.pass);
    Description d{image(kX, spec.dtype, spec, spec.channels, &ConvolutionSpec::Axis::input),
                  kernel(spec),
                  image(kY, spec.dtype, spec, spec.outputs, &ConvolutionSpec::Axis::output),
                  window(spec),
                  make(names.operation),
                  make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                  make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)};
    d.operation.set(names.x, d.x)
        .set(names.kernel, d.kernel)
        .set(names.y, d.y)
        .set(names.window, d.window)
        .set(names.alpha, 1.0F)
        .set(names.beta, 0.0F)
        .finalize();
    d.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, d.operation).finalize();
    if (handle != nullptr) {
      d.device.set(CUDNN_ATTR_DEVICEPROP_HANDLE, handle->handle);
    } else {
      d.device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(described_));
    }
    d.device.finalize();
    return std::make_shared<const Description>(std::move(d));
  }

  /// Whether equal runs give equal bits, and f32 stays f32 unless it needn't.
  bool allowed(const ConvolutionSpec& spec, const std::vector<cudnnBackendNumericalNote_t>& notes) const {
    const bool f32 = spec.dtype == DType::kF32 && !spec.tf32;
    for (const cudnnBackendNumericalNote_t note : notes) {
      if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
          note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
          note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
        return false;
      if (f32 && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;
    }
    return true;
  }

  void add_plans(const ConvolutionSpec& spec, const std::shared_ptr<const Description>& description,
                 const std::shared_ptr<Handle>& handle, cudnnBackendHeurMode_t mode, LibraryCalls& to) {
    constexpr int64_t kMostConfigurations = 64, kMostNotes = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    Descriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, description->graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
        .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, description->device);
    if (!heuristics.finalized()) return;
    std::vector<Descriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < kMostConfigurations; ++i) {
      configurations.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      raw.push_back(configurations.back().get());
    }
    const int64_t found = std::min(heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, raw), kMostConfigurations);
    for (int64_t i = 0; i < found && std::ssize(to) < kMostLibraryCalls; ++i) {
      Descriptor& configuration = configurations[static_cast<size_t>(i)];
      const Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t raw_engine = engine.get();
      configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, {&raw_engine, 1});
      if (!allowed(spec,
                   engine.list<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMostNotes)))
        continue;
      Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
          .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, description->device);
      if (!plan.finalized()) continue;
      std::string name =
          fmt::format("cudnn engine {} mode {} place {}", engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                      static_cast<int>(mode), i);
      auto call = std::make_unique<CudnnConvolution>(calls_, handle, description, std::move(name),
                                                     std::move(configuration), std::move(plan));
      if (call->workspace_bytes() <= kMostLibraryWorkspace) to.push_back(std::move(call));
    }
  }

  std::shared_ptr<Handle> handle_for(int device) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Handle>& handle = handles_[device];
    if (!handle) {
      auto made = std::make_shared<Handle>();
      ISOCHRON_CALL(cudnnCreate, &made->handle);
      handle = std::move(made);
    }
    return handle;
  }

  const Calls& calls_;
  const std::string described_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Handle> > handles_;  // to the process' end: plans refer to them
};

/// Null where the library isn't found.
const Calls* machine_calls() {
  static const Calls* const calls = library_or_notice<Calls>("convolutions");
  return calls;
}

}  // namespace

ConvolutionLibrary* machine_convolutions() {
  static ConvolutionLibrary* const library =
      machine_calls() != nullptr ? new Cudnn(*machine_calls(), {}) : nullptr;
  return library;
}

std::unique_ptr<ConvolutionLibrary> convolutions_for(const std::string& described_device) {
  if (machine_calls() == nullptr) return nullptr;
  return std::make_unique<Cudnn>(*machine_calls(), described_device);
}

#endif

}  // namespace isochron::cuda
