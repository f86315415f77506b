// cuDNN's graph API, loaded at run time. Included by the sources that build graphs for it.
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/core/cuda/shared_library.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::cuda::cudnn {

// clang-format off
#define ISOCHRON_CUDNN_FUNCTIONS(X) \
  X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) X(cudnnCreate) X(cudnnSetStream) \
  X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) \
  X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
// clang-format on

struct Calls {
  SharedLibrary library{"cuDNN",
                        {"libcudnn.so.9", "libcudnn.so"},
                        "install cuDNN 9 for CUDA 13, or put its folder in LD_LIBRARY_PATH"};
#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_CUDNN_FUNCTIONS(X)
#undef X

  Calls() {
#define X(name) library.find(this->name, #name);
    ISOCHRON_CUDNN_FUNCTIONS(X)
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

  static constexpr size_t kOldestVersion = 90800;  // first that can plan for a described device
};

#define ISOCHRON_CUDNN_CALL(function, ...) calls_.check(calls_.function(__VA_ARGS__), #function)

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
ISOCHRON_ATTRIBUTE(bool, CUDNN_TYPE_BOOLEAN)
ISOCHRON_ATTRIBUTE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE)
ISOCHRON_ATTRIBUTE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE)
ISOCHRON_ATTRIBUTE(cudnnReduceTensorOp_t, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
ISOCHRON_ATTRIBUTE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE)
ISOCHRON_ATTRIBUTE(cudnnBackendNumericalNote_t, CUDNN_TYPE_NUMERICAL_NOTE)
#undef ISOCHRON_ATTRIBUTE

/// A descriptor of the graph API.
class Descriptor {
 public:
  Descriptor(const Calls& calls, cudnnBackendDescriptorType_t type) : calls_(calls) {
    ISOCHRON_CUDNN_CALL(cudnnBackendCreateDescriptor, type, &made_);
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
    ISOCHRON_CUDNN_CALL(cudnnBackendSetAttribute, made_, name, AttributeType<T>::kType, std::ssize(values),
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
  /// Has its own name because in C++ a descriptor has the same type as an address of data.
  Descriptor& set_descriptors(cudnnBackendAttributeName_t name,
                              std::span<const cudnnBackendDescriptor_t> values) {
    ISOCHRON_CUDNN_CALL(cudnnBackendSetAttribute, made_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        std::ssize(values), values.data());
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set_descriptors(name, {&value.made_, 1});
  }
  Descriptor& finalize() {
    ISOCHRON_CUDNN_CALL(cudnnBackendFinalize, made_);
    return *this;
  }
  /// Returns an error if the library doesn't support this.
  cudnnStatus_t try_finalize() { return calls_.cudnnBackendFinalize(made_); }

  template <typename T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    int64_t count = 0;
    ISOCHRON_CUDNN_CALL(cudnnBackendGetAttribute, made_, name, AttributeType<T>::kType, 1, &count, &value);
    return value;
  }
  /// Returns at most `most` values.
  template <typename T>
  std::vector<T> list(cudnnBackendAttributeName_t name, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    int64_t count = 0;
    ISOCHRON_CUDNN_CALL(cudnnBackendGetAttribute, made_, name, AttributeType<T>::kType, most, &count,
                        values.data());
    values.resize(static_cast<size_t>(std::min(count, most)));
    return values;
  }
  /// Fills existing descriptors.
  int64_t read(cudnnBackendAttributeName_t name, std::span<cudnnBackendDescriptor_t> to) const {
    int64_t count = 0;
    ISOCHRON_CUDNN_CALL(cudnnBackendGetAttribute, made_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(to),
                        &count, to.data());
    return count;
  }

 private:
  const Calls& calls_;
  cudnnBackendDescriptor_t made_ = nullptr;
};

inline cudnnDataType_t type_of(DType dtype) {
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

/// Operations and all descriptors that they refer to, in order of creation. Tensor t of a call has the id t +
/// 1. A scalar is a number that is part of the graph; scalar s has the id tensors + s + 1.
struct Operations {
  std::deque<Descriptor> parts = {};
  std::vector<cudnnBackendDescriptor_t> operations = {};
  size_t tensors = 0;
  std::vector<float> scalars = {};

  Descriptor& keep(Descriptor part) { return parts.emplace_back(std::move(part)); }
  void add(Descriptor operation) { operations.push_back(keep(std::move(operation.finalize())).get()); }
};

/// A device's handle. A handle can use only one stream at a time.
struct Handle {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

/// The data from which plans were made. It must live as long as they do.
struct Description {
  Operations operations;
  Descriptor graph, device;  // `device` is set only for a described device; else the handle identifies it
};

/// An execution plan of a graph, which calls share.
struct Plan {
  std::shared_ptr<Handle> handle;  // null for a described device
  std::shared_ptr<const Description> description;
  std::string name;
  Descriptor configuration, plan;
  size_t workspace_bytes;
};
using Plans = std::vector<std::shared_ptr<const Plan>>;

class Call final : public LibraryAlgorithm {
 public:
  Call(const Calls& calls, std::shared_ptr<const Plan> plan) : calls_(calls), plan_(std::move(plan)) {
    for (size_t i = 0; i < plan_->description->operations.tensors + scalars().size(); ++i)
      ids_.push_back(static_cast<int64_t>(i) + 1);
  }

  std::string name() const override { return plan_->name; }
  size_t workspace_bytes() const override { return plan_->workspace_bytes; }
  void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) override {
    std::vector<void*> addresses;
    for (const DevicePtr each : tensors) addresses.push_back(reinterpret_cast<void*>(each));
    for (const float& each : scalars()) addresses.push_back(const_cast<float*>(&each));
    Descriptor pack(calls_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids_)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, reinterpret_cast<void*>(workspace))
        .finalize();
    require(plan_->handle != nullptr, ErrorCode::kUnsupported, "cuda",
            "{} is for a device that is described, not for one that is here", plan_->name);
    Handle& handle = *plan_->handle;
    const std::lock_guard lock(handle.mutex);
    ISOCHRON_CUDNN_CALL(cudnnSetStream, handle.handle, reinterpret_cast<cudaStream_t>(stream));
    const cudnnStatus_t status = calls_.cudnnBackendExecute(handle.handle, plan_->plan.get(), pack.get());
    calls_.cudnnSetStream(handle.handle, nullptr);  // the stream may no longer exist at the next call
    calls_.check(status, "cudnnBackendExecute");
  }

 private:
  const std::vector<float>& scalars() const { return plan_->description->operations.scalars; }

  const Calls& calls_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<int64_t> ids_;
};

/// Plans for the devices of this machine, or for a device that is only described.
class Planner {
 public:
  /// `described`: the device to plan for, as cuDNN describes it in JSON. If empty, plans are made for the
  /// device of each context.
  Planner(const Calls& calls, std::string described) : calls_(calls), described_(std::move(described)) {}

  int64_t version() const { return static_cast<int64_t>(calls_.cudnnGetVersion()); }

  Descriptor make(cudnnBackendDescriptorType_t type) const { return Descriptor(calls_, type); }
  /// A tensor with the attributes that all kinds of tensors have, not finalized.
  Descriptor tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& dimensions,
                    const std::vector<int64_t>& strides) const {
    Descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<int64_t>(kLibraryAlignment))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dimensions)
        .set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    return made;
  }

  /// The plans that are bitwise reproducible and don't reduce the precision of their inputs. `tensor_cores`:
  /// whether plans may use tensor cores, which is the case if f32 may be rounded or isn't used.
  Plans plans(Context& context, Operations operations, bool tensor_cores) {
    context.make_current();
    const std::shared_ptr<Handle> handle = described_.empty() ? handle_for(context.index()) : nullptr;
    std::unique_lock<std::mutex> lock;  // plans read the handle
    if (handle) lock = std::unique_lock(handle->mutex);
    Description d{std::move(operations), make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
                  make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)};
    d.graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, d.operations.operations);
    if (handle) {
      d.graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle->handle);
    } else {
      d.device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(described_)).finalize();
    }
    d.graph.finalize();
    const auto description = std::make_shared<const Description>(std::move(d));
    Plans result;
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
      add_plans(description, handle, mode, tensor_cores, result);
    return result;
  }
  LibraryAlgorithms calls_of(const Plans& plans) const {
    LibraryAlgorithms result;
    for (const std::shared_ptr<const Plan>& plan : plans)
      result.push_back(std::make_unique<Call>(calls_, plan));
    return result;
  }

 private:
  static bool allowed(const std::vector<cudnnBackendNumericalNote_t>& notes, bool tensor_cores) {
    for (const cudnnBackendNumericalNote_t note : notes) {
      if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
          note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
          note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
        return false;
      if (!tensor_cores && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;
    }
    return true;
  }

  void add_plans(const std::shared_ptr<const Description>& description, const std::shared_ptr<Handle>& handle,
                 cudnnBackendHeurMode_t mode, bool tensor_cores, Plans& to) {
    constexpr int64_t kMaxConfigurations = 64, kMaxPlans = 4;  // a plan takes tenths of a second to make
    constexpr int64_t kMaxNotes = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    Descriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, description->graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    if (!handle) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, description->device);
    if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return;
    std::vector<Descriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < kMaxConfigurations; ++i) {
      configurations.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      raw.push_back(configurations.back().get());
    }
    const int64_t found = std::min(heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, raw), kMaxConfigurations);
    for (int64_t i = 0; i < found && std::ssize(to) < kMaxPlans; ++i) {
      Descriptor& configuration = configurations[static_cast<size_t>(i)];
      const Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t raw_engine = engine.get();
      configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, {&raw_engine, 1});
      if (!allowed(engine.list<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kMaxNotes),
                   tensor_cores))
        continue;
      Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (handle) {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle->handle);
      } else {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, description->device);
      }
      const cudnnStatus_t status = plan.try_finalize();
      // The library loads the kernels that it compiles immediately. For a described device this fails,
      // because there is no driver.
      const bool unloaded = !described_.empty() && status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
      if (status != CUDNN_STATUS_SUCCESS && !unloaded) continue;
      std::string name =
          fmt::format("cudnn engine {} mode {} place {}", engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                      static_cast<int>(mode), i);
      const size_t workspace_bytes =
          unloaded ? 0 : static_cast<size_t>(plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
      if (workspace_bytes > kMaxLibraryWorkspace) continue;
      to.push_back(std::make_shared<const Plan>(Plan{
          handle, description, std::move(name), std::move(configuration), std::move(plan), workspace_bytes}));
    }
  }

  std::shared_ptr<Handle> handle_for(int device) {
    static std::mutex mutex;
    static std::map<int, std::shared_ptr<Handle>> handles;  // until the process ends: plans refer to them
    const std::lock_guard lock(mutex);
    std::shared_ptr<Handle>& handle = handles[device];
    if (!handle) {
      auto made = std::make_shared<Handle>();
      ISOCHRON_CUDNN_CALL(cudnnCreate, &made->handle);
      handle = std::move(made);
    }
    return handle;
  }

  const Calls& calls_;
  const std::string described_;
};

/// A cache of plans by description; equal calls of a model have equal descriptions. The oldest plans are
/// dropped.
template <typename Spec>
class KeptPlans {
 public:
  /// Returns the cached plans for an equal description, or calls `make`.
  template <typename Make>
  Plans plans(Context& context, const Spec& spec, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto same = [&](const Kept& kept) { return kept.device == context.index() && kept.spec == spec; };
    auto found = std::ranges::find_if(kept_, same);
    if (found == kept_.end()) {
      Plans made = make();
      if (kept_.size() == kMaxPlansKept) kept_.pop_front();
      kept_.push_back({context.index(), spec, std::move(made)});
      found = std::prev(kept_.end());
    }
    return found->plans;
  }

 private:
  struct Kept {
    int device;
    Spec spec;
    Plans plans;
  };
  std::mutex mutex_;
  std::deque<Kept> kept_;  // the oldest first
};

/// The machine's cuDNN functions; null if the library isn't found.
inline const Calls* machine_calls() {
  static const Calls* const calls = library_or_notice<Calls>("convolutions, and attention in 16 bits,");
  return calls;
}

}  // namespace isochron::cuda::cudnn
