// The driver of this machine, loaded at run time.
#ifdef ISOCHRON_CUDA

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/driver.h"
#include "isochron/core/cuda/driver_calls-inl.h"
#include "isochron/core/cuda/shared_library.h"

namespace isochron::cuda {
namespace {

// The driver's own allocations count as the driver's, not as ours.
#define ISOCHRON_RUN(function, ...) Calls::run([&] { return calls_.function(__VA_ARGS__); })
#define ISOCHRON_CALL(function, ...) calls_.check(ISOCHRON_RUN(function, __VA_ARGS__), #function)

template <typename Handle, typename Raw>
Handle handle_of(Raw* raw) {
  return static_cast<Handle>(reinterpret_cast<uintptr_t>(raw));
}
CUstream raw(Stream stream) { return reinterpret_cast<CUstream>(stream); }
CUevent raw(Event event) { return reinterpret_cast<CUevent>(event); }
CUmodule raw(Module module) { return reinterpret_cast<CUmodule>(module); }
CUfunction raw(Function function) { return reinterpret_cast<CUfunction>(function); }
CUgraph raw(Graph graph) { return reinterpret_cast<CUgraph>(graph); }
CUgraphNode raw(GraphNode node) { return reinterpret_cast<CUgraphNode>(node); }
CUgraphExec raw(GraphExec graph) { return reinterpret_cast<CUgraphExec>(graph); }

class MachineContext final : public Context {
 public:
  MachineContext(const Calls& calls, int index, CUdevice device, DeviceProperties properties)
      : calls_(calls), index_(index), device_(device), properties_(std::move(properties)) {
    const CUresult retained = ISOCHRON_RUN(cuDevicePrimaryCtxRetain, &context_, device_);
    require(retained != CUDA_ERROR_DEVICE_UNAVAILABLE, ErrorCode::kUnsupported, "cuda",
            "the compute mode of {} allows only one process, which is running already, or none; see "
            "nvidia-smi, or compute on the CPU (--device cpu)",
            properties_.name);
    calls_.check(retained, "cuDevicePrimaryCtxRetain");
    enter();
    location_ = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
    allocation_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    allocation_.location = location_;
    ISOCHRON_CALL(cuDeviceGetDefaultMemPool, &pool_, device_);
    // Freed memory stays in the pool, because the next step asks for it again.
    cuuint64_t all = UINT64_MAX;
    ISOCHRON_CALL(cuMemPoolSetAttribute, pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    ISOCHRON_CALL(cuDeviceGetAttribute, &reads_pageable_memory_, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                  device_);
  }
  ~MachineContext() override {
    try {
      enter();  // the last owner may be a thread that never entered
      for (const Stream stream : spare_streams_) ISOCHRON_RUN(cuStreamDestroy, raw(stream));
    } catch (const Error&) {  // the device is lost, with all that it held
    }
    ISOCHRON_RUN(cuDevicePrimaryCtxRelease, device_);
  }

  int index() const override { return index_; }
  const DeviceProperties& properties() const override { return properties_; }
  void make_current() override { enter(); }

  MemoryInfo memory_info() override {
    enter();
    MemoryInfo info;
    ISOCHRON_CALL(cuMemGetInfo, &info.free_bytes, &info.total_bytes);
    return info;
  }

  size_t granularity() override {
    enter();
    size_t bytes = 0;
    ISOCHRON_CALL(cuMemGetAllocationGranularity, &bytes, &allocation_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    return bytes;
  }
  DevicePtr reserve(size_t bytes) override {
    enter();
    CUdeviceptr pointer = 0;
    ISOCHRON_CALL(cuMemAddressReserve, &pointer, bytes, 0, 0, 0);
    return pointer;
  }
  void release(DevicePtr pointer, size_t bytes) override {
    enter();
    ISOCHRON_CALL(cuMemAddressFree, pointer, bytes);
  }
  PhysicalMemory create(size_t bytes) override {
    enter();
    CUmemGenericAllocationHandle memory = 0;
    ISOCHRON_CALL(cuMemCreate, &memory, bytes, &allocation_, 0);
    return static_cast<PhysicalMemory>(memory);
  }
  void destroy(PhysicalMemory memory) override {
    enter();
    ISOCHRON_CALL(cuMemRelease, static_cast<CUmemGenericAllocationHandle>(memory));
  }
  void map(DevicePtr pointer, size_t bytes, PhysicalMemory memory) override {
    enter();
    ISOCHRON_CALL(cuMemMap, pointer, bytes, 0, static_cast<CUmemGenericAllocationHandle>(memory), 0);
    const CUmemAccessDesc access{location_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUresult allowed = ISOCHRON_RUN(cuMemSetAccess, pointer, bytes, &access, 1);
    if (allowed != CUDA_SUCCESS) ISOCHRON_RUN(cuMemUnmap, pointer, bytes);
    calls_.check(allowed, "cuMemSetAccess");
  }
  void unmap(DevicePtr pointer, size_t bytes) override {
    enter();
    ISOCHRON_CALL(cuMemUnmap, pointer, bytes);
  }

  DevicePtr allocate(size_t bytes) override {
    enter();
    CUdeviceptr pointer = 0;
    ISOCHRON_CALL(cuMemAlloc, &pointer, bytes);
    return pointer;
  }
  void free(DevicePtr pointer) override {
    enter();
    ISOCHRON_CALL(cuMemFree, pointer);
  }
  DevicePtr allocate_async(size_t bytes, Stream stream) override {
    enter();
    CUdeviceptr pointer = 0;
    ISOCHRON_CALL(cuMemAllocAsync, &pointer, bytes, raw(stream));
    return pointer;
  }
  void free_async(DevicePtr pointer, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuMemFreeAsync, pointer, raw(stream));
  }
  size_t pool_reserved_bytes() override { return pool_attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  size_t pool_used_bytes() override { return pool_attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  void pool_trim() override {
    enter();
    ISOCHRON_CALL(cuMemPoolTrimTo, pool_, 0);
  }
  void* allocate_pinned(size_t bytes) override {
    enter();
    void* pointer = nullptr;
    ISOCHRON_CALL(cuMemHostAlloc, &pointer, bytes, CU_MEMHOSTALLOC_PORTABLE);
    return pointer;
  }
  void free_pinned(void* pointer) override {
    enter();
    ISOCHRON_CALL(cuMemFreeHost, pointer);
  }

  Stream create_stream(bool urgent) override {
    enter();
    int least = 0, most = 0;
    ISOCHRON_CALL(cuCtxGetStreamPriorityRange, &least, &most);
    CUstream stream = nullptr;
    ISOCHRON_CALL(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, urgent ? most : least);
    return handle_of<Stream>(stream);
  }
  void destroy(Stream stream) override {
    enter();
    ISOCHRON_CALL(cuStreamDestroy, raw(stream));
  }
  void synchronize(Stream stream) override {
    enter();
    ISOCHRON_CALL(cuStreamSynchronize, raw(stream));
  }
  bool done(Stream stream) override {
    enter();
    return calls_.check(ISOCHRON_RUN(cuStreamQuery, raw(stream)), "cuStreamQuery", CUDA_ERROR_NOT_READY) ==
           CUDA_SUCCESS;
  }
  void wait(Stream stream, Event event) override {
    enter();
    ISOCHRON_CALL(cuStreamWaitEvent, raw(stream), raw(event), CU_EVENT_WAIT_DEFAULT);
  }
  Event create_event(bool timed) override {
    enter();
    CUevent event = nullptr;
    ISOCHRON_CALL(cuEventCreate, &event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    return handle_of<Event>(event);
  }
  void destroy(Event event) override {
    enter();
    ISOCHRON_CALL(cuEventDestroy, raw(event));
  }
  void record(Event event, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuEventRecord, raw(event), raw(stream));
  }
  void synchronize(Event event) override {
    enter();
    ISOCHRON_CALL(cuEventSynchronize, raw(event));
  }
  bool done(Event event) override {
    enter();
    return calls_.check(ISOCHRON_RUN(cuEventQuery, raw(event)), "cuEventQuery", CUDA_ERROR_NOT_READY) ==
           CUDA_SUCCESS;
  }
  double elapsed_ns(Event begin, Event end) override {
    enter();
    float milliseconds = 0;
    ISOCHRON_CALL(cuEventElapsedTime, &milliseconds, raw(begin), raw(end));
    return 1e6 * static_cast<double>(milliseconds);
  }

  void copy_to_device(DevicePtr to, const void* from, size_t bytes, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuMemcpyHtoDAsync, to, from, bytes, raw(stream));
    wait_for_pageable(from, stream);
  }
  void copy_to_host(void* to, DevicePtr from, size_t bytes, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuMemcpyDtoHAsync, to, from, bytes, raw(stream));
    wait_for_pageable(to, stream);
  }
  void copy(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuMemcpyDtoDAsync, to, from, bytes, raw(stream));
  }
  void fill(DevicePtr to, uint8_t value, size_t bytes, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuMemsetD8Async, to, value, bytes, raw(stream));
  }

  Module load(std::span<const char> image) override {
    enter();
    CUmodule module = nullptr;
    ISOCHRON_CALL(cuModuleLoadData, &module, image.data());
    return handle_of<Module>(module);
  }
  void unload(Module module) override {
    enter();
    ISOCHRON_CALL(cuModuleUnload, raw(module));
  }
  Function function(Module module, const std::string& name) override {
    enter();
    CUfunction function = nullptr;
    ISOCHRON_CALL(cuModuleGetFunction, &function, raw(module), name.c_str());
    return handle_of<Function>(function);
  }
  void allow_shared_bytes(Function function, size_t bytes) override {
    enter();
    ISOCHRON_CALL(cuFuncSetAttribute, raw(function), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                  static_cast<int>(bytes));
  }
  void launch(Function function, const LaunchSize& size, std::span<void* const> arguments,
              Stream stream) override {
    enter();
    ISOCHRON_CALL(cuLaunchKernel, raw(function), size.grid[0], size.grid[1], size.grid[2], size.block[0],
                  size.block[1], size.block[2], size.shared_bytes, raw(stream),
                  const_cast<void**>(arguments.data()), nullptr);
  }

  void begin_capture(Stream stream) override {
    enter();
    const std::lock_guard lock(bodies_mutex_);
    while (spare_streams_.size() < kDeepestBody) spare_streams_.push_back(create_stream(false));
    ISOCHRON_CALL(cuStreamBeginCapture, raw(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  }
  Graph end_capture(Stream stream) override {
    enter();
    CUgraph graph = nullptr;
    ISOCHRON_CALL(cuStreamEndCapture, raw(stream), &graph);
    return handle_of<Graph>(graph);
  }
  bool capturing(Stream stream) override {
    enter();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    ISOCHRON_CALL(cuStreamIsCapturing, raw(stream), &status);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  void follow(Stream stream, std::span<const GraphNode> nodes) override {
    enter();
    if (std::ranges::equal(followed(stream), nodes)) return;
    std::vector<CUgraphNode> all;
    for (const GraphNode node : nodes) all.push_back(raw(node));
    if (all.empty()) {  // CUDA doesn't document an empty set of dependencies, so use an empty node
      CUgraphNodeParams params{};
      params.type = CU_GRAPH_NODE_TYPE_EMPTY;
      const OpenCapture open = open_capture(stream);
      CUgraphNode nothing = nullptr;
      ISOCHRON_CALL(cuGraphAddNode, &nothing, open.graph, nullptr, nullptr, 0, &params);
      all.push_back(nothing);
    }
    ISOCHRON_CALL(cuStreamUpdateCaptureDependencies, raw(stream), all.data(), nullptr, all.size(),
                  CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  }
  std::vector<GraphNode> followed(Stream stream) override {
    enter();
    const OpenCapture open = open_capture(stream);
    std::vector<GraphNode> nodes;
    for (size_t i = 0; i < open.count; ++i) nodes.push_back(handle_of<GraphNode>(open.dependencies[i]));
    return nodes;
  }
  Condition create_condition(Stream stream) override {
    enter();
    const OpenCapture open = open_capture(stream);
    CUgraphConditionalHandle handle = 0;
    ISOCHRON_CALL(cuGraphConditionalHandleCreate, &handle, open.graph, context_, 0,
                  CU_GRAPH_COND_ASSIGN_DEFAULT);
    return static_cast<Condition>(handle);
  }
  Stream begin_body(Stream stream, Condition condition, bool repeats) override {
    enter();
    const OpenCapture open = open_capture(stream);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = static_cast<CUgraphConditionalHandle>(condition);
    params.conditional.type = repeats ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context_;
    CUgraphNode node = nullptr;
    ISOCHRON_CALL(cuGraphAddNode, &node, open.graph, open.dependencies, open.edges, open.count, &params);
    ISOCHRON_CALL(cuStreamUpdateCaptureDependencies, raw(stream), &node, nullptr, 1,
                  CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    const std::lock_guard lock(bodies_mutex_);
    require(!spare_streams_.empty(), ErrorCode::kUnsupported, "cuda",
            "conditional parts are nested more than {} deep", kDeepestBody);
    const Stream body = spare_streams_.back();
    ISOCHRON_CALL(cuStreamBeginCaptureToGraph, raw(body), params.conditional.phGraph_out[0], nullptr, nullptr,
                  0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    spare_streams_.pop_back();
    return body;
  }
  void end_body(Stream body) override {
    enter();
    CUgraph graph = nullptr;
    const CUresult result = ISOCHRON_RUN(cuStreamEndCapture, raw(body), &graph);
    const std::lock_guard lock(bodies_mutex_);
    if (result == CUDA_SUCCESS) {
      spare_streams_.push_back(body);
    } else {
      ISOCHRON_RUN(cuStreamDestroy, raw(body));
    }
    calls_.check(result, "cuStreamEndCapture");
  }
  GraphCounts counts(Graph graph) override {
    enter();
    size_t count = 0;
    ISOCHRON_CALL(cuGraphGetNodes, raw(graph), nullptr, &count);
    std::vector<CUgraphNode> nodes(count);
    if (count > 0) ISOCHRON_CALL(cuGraphGetNodes, raw(graph), nodes.data(), &count);
    GraphCounts counts;
    for (const CUgraphNode node : nodes) {
      CUgraphNodeType type{};
      ISOCHRON_CALL(cuGraphNodeGetType, node, &type);
      (type == CU_GRAPH_NODE_TYPE_KERNEL        ? counts.kernels
       : type == CU_GRAPH_NODE_TYPE_MEMCPY      ? counts.copies
       : type == CU_GRAPH_NODE_TYPE_MEMSET      ? counts.memsets
       : type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? counts.conditionals
                                                : counts.others)++;
    }
    return counts;
  }
  GraphExec instantiate(Graph graph) override {
    enter();
    CUgraphExec exec = nullptr;
    ISOCHRON_CALL(cuGraphInstantiateWithFlags, &exec, raw(graph), 0);
    return handle_of<GraphExec>(exec);
  }
  void destroy(Graph graph) override {
    enter();
    ISOCHRON_CALL(cuGraphDestroy, raw(graph));
  }
  void destroy(GraphExec graph) override {
    enter();
    ISOCHRON_CALL(cuGraphExecDestroy, raw(graph));
  }
  void upload(GraphExec graph, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuGraphUpload, raw(graph), raw(stream));
  }
  void launch(GraphExec graph, Stream stream) override {
    enter();
    ISOCHRON_CALL(cuGraphLaunch, raw(graph), raw(stream));
  }

 private:
  /// The driver's current context is per thread.
  void enter() {
    static thread_local uint64_t entered = 0;
    if (entered == number_) return;
    ISOCHRON_CALL(cuCtxSetCurrent, context_);
    entered = number_;
  }
  /// Waits for a copy if the device itself accesses memory that isn't page-locked, because it does so only
  /// when the copy runs. Otherwise the driver has staged the data before the copy call returns.
  void wait_for_pageable(const void* pointer, Stream stream) {
    if (reads_pageable_memory_ == 0) return;
    CUmemorytype type{};  // unchanged for memory that the driver doesn't know
    const bool page_locked = ISOCHRON_RUN(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS &&
                             type == CU_MEMORYTYPE_HOST;
    if (!page_locked && !capturing(stream)) synchronize(stream);
  }
  size_t pool_attribute(CUmemPool_attribute attribute) {
    enter();
    cuuint64_t value = 0;
    ISOCHRON_CALL(cuMemPoolGetAttribute, pool_, attribute, &value);
    return value;
  }

  /// An open capture: its graph, and what the next work in it depends on.
  struct OpenCapture {
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    size_t count = 0;
  };
  OpenCapture open_capture(Stream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    OpenCapture open;
    ISOCHRON_CALL(cuStreamGetCaptureInfo, raw(stream), &status, nullptr, &open.graph, &open.dependencies,
                  &open.edges, &open.count);
    require(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, ErrorCode::kCaptureViolation, "cuda",
            "no capture of the stream is in progress");
    return open;
  }

  const Calls& calls_;
  const int index_;
  const CUdevice device_;
  const DeviceProperties properties_;
  CUcontext context_ = nullptr;
  // A context that is created again for a device may have the same handle as the previous one.
  inline static std::atomic<uint64_t> count_{0};
  const uint64_t number_ = ++count_;
  CUmemoryPool pool_ = nullptr;
  int reads_pageable_memory_ = 0;  // 1: the device itself reads it; 0: the driver does
  CUmemLocation location_{};
  CUmemAllocationProp allocation_{};
  // Streams for the bodies of conditional parts. Created before a capture, because no stream can be created
  // during one.
  static constexpr size_t kDeepestBody = 8;
  std::mutex bodies_mutex_;
  std::vector<Stream> spare_streams_;
};

class MachineDriver final : public Driver {
 public:
  MachineDriver()
      : library_("the CUDA driver", {"libcuda.so.1"},
                 "install NVIDIA's driver, or compute on the CPU (--device cpu)"),
        version_(version_of(library_)),
        calls_(library_) {
    const CUresult started = ISOCHRON_RUN(cuInit, 0);
    require(
        started != CUDA_ERROR_STUB_LIBRARY, ErrorCode::kUnsupported, "cuda",
        "the libcuda.so.1 that was found is the toolkit's stub to link with, not a driver; take its folder "
        "out of LD_LIBRARY_PATH, install NVIDIA's driver, or compute on the CPU (--device cpu)");
    if (started != CUDA_ERROR_NO_DEVICE) {
      calls_.check(started, "cuInit");
      ISOCHRON_CALL(cuDeviceGetCount, &count_);
    }
    require(count_ > 0, ErrorCode::kUnsupported, "cuda",
            "no device is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES, or compute on the CPU (--device "
            "cpu)");
    opened_.resize(static_cast<size_t>(count_));
  }

  int version() override { return version_; }
  int device_count() override { return count_; }

  std::shared_ptr<Context> open(int index) override {
    require(index >= 0 && index < count_, ErrorCode::kUnsupported, "cuda",
            "device {} of {}, but devices are counted from 0", index, count_);
    std::lock_guard lock(mutex_);
    std::weak_ptr<Context>& opened = opened_[static_cast<size_t>(index)];
    if (auto context = opened.lock()) return context;
    CUdevice device = 0;
    ISOCHRON_CALL(cuDeviceGet, &device, index);
    const DeviceProperties properties = properties_of(device);
    require_served(version_, properties);
    auto context = std::make_shared<MachineContext>(calls_, index, device, properties);
    opened = context;
    return context;
  }

 private:
  DeviceProperties properties_of(CUdevice device) const {
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      ISOCHRON_CALL(cuDeviceGetAttribute, &value, which, device);
      return value;
    };
    std::array<char, 256> name{};
    ISOCHRON_CALL(cuDeviceGetName, name.data(), static_cast<int>(name.size()), device);
    DeviceProperties properties;
    properties.name = name.data();
    ISOCHRON_CALL(cuDeviceGetPCIBusId, name.data(), static_cast<int>(name.size()), device);
    properties.pci_bus_id = name.data();
    properties.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    properties.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    properties.shared_bytes_per_block =
        static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    properties.virtual_memory = attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
    properties.memory_pools = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
    ISOCHRON_CALL(cuDeviceTotalMem, &properties.total_bytes, device);
    return properties;
  }

  /// Called first, because an older driver lacks functions with some of the names. 0 if the driver gives no
  /// version.
  static int version_of(const SharedLibrary& library) {
    decltype(&::cuDriverGetVersion) get = nullptr;
    library.find(get, "cuDriverGetVersion");
    int version = 0;
    if (get(&version) != CUDA_SUCCESS) return 0;
    require_served(version);
    return version;
  }

  SharedLibrary library_;
  const int version_;
  Calls calls_;
  int count_ = 0;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Context>> opened_;
};

}  // namespace

bool built_with_cuda() { return true; }

Driver& machine_driver() {
  // Never unloaded, because contexts may outlive every static. If the construction throws, the next call
  // tries again.
  static MachineDriver* const driver = new MachineDriver;
  return *driver;
}

}  // namespace isochron::cuda

#endif
