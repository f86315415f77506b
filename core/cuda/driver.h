// The CUDA driver calls that this project uses. The machine's own driver (machine_driver) is loaded at run
// time, so that a program built with CUDA starts without a driver, and reports what is missing when a device
// is requested. Allocators, the executor and transfers use only this interface; tests run them on a simulated
// device (tests/support/simulated/simulated_driver.h).
//
// Every call may throw Error: kOutOfMemory if its comment says so, kDevice for any other error that the
// driver reports, with the call, the driver's name for the error and its text. After a kernel fails, the
// context is lost: every later call throws kDeviceLost, and only a new process can use the device again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/cuda/handles.h"

namespace isochron::cuda {

struct DeviceProperties {
  std::string name;
  std::string pci_bus_id = {};  // for example "0000:65:00.0"
  int major = 0, minor = 0;     // compute capability
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t shared_bytes_per_block = 0;  // the most that a kernel may ask for
  bool virtual_memory = false;        // reserve, create and map
  bool memory_pools = false;          // allocate_async
};

struct MemoryInfo {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

struct LaunchSize {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
};

/// What a captured graph consists of.
struct GraphCounts {
  int kernels = 0;
  int copies = 0;
  int memsets = 0;
  int conditionals = 0;  // their bodies aren't counted
  int others = 0;

  int total() const { return kernels + copies + memsets + conditionals + others; }
};

/// One open device. Calls may come from any thread; calls on one stream run in the order in which they were
/// made.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  virtual int index() const = 0;
  virtual const DeviceProperties& properties() const = 0;
  /// From now on, libraries called on this thread use this device.
  virtual void make_current() = 0;
  virtual MemoryInfo memory_info() = 0;

  // Address ranges and physical memory, separately. All sizes and addresses are multiples of `granularity()`.
  virtual size_t granularity() = 0;
  virtual DevicePtr reserve(size_t bytes) = 0;  // kOutOfMemory: no room in the address space
  virtual void release(DevicePtr pointer, size_t bytes) = 0;
  virtual PhysicalMemory create(size_t bytes) = 0;  // kOutOfMemory
  virtual void destroy(PhysicalMemory memory) = 0;  // mapped memory stays until it is unmapped
  /// Maps all of `memory` at `pointer`, for this device to read and write.
  virtual void map(DevicePtr pointer, size_t bytes, PhysicalMemory memory) = 0;
  virtual void unmap(DevicePtr pointer, size_t bytes) = 0;

  // Memory and its address together.
  virtual DevicePtr allocate(size_t bytes) = 0;  // kOutOfMemory; waits for the device
  virtual void free(DevicePtr pointer) = 0;      // waits for the device
  /// Allocates from the device's own pool, for use in `stream`. Throws kOutOfMemory.
  virtual DevicePtr allocate_async(size_t bytes, Stream stream) = 0;
  virtual void free_async(DevicePtr pointer, Stream stream) = 0;
  /// How much the pool holds, and how much of that is in use. `pool_trim` gives back the rest.
  virtual size_t pool_reserved_bytes() = 0;
  virtual size_t pool_used_bytes() = 0;
  virtual void pool_trim() = 0;
  /// Page-locked memory on the host. Throws kOutOfMemory.
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void free_pinned(void* pointer) = 0;

  virtual Stream create_stream(bool urgent) = 0;  // not ordered relative to other streams
  virtual void destroy(Stream stream) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Whether all work queued in the stream is done.
  virtual bool done(Stream stream) = 0;
  /// Work queued later in `stream` waits for what the event recorded.
  virtual void wait(Stream stream, Event event) = 0;
  virtual Event create_event(bool timed) = 0;
  virtual void destroy(Event event) = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void synchronize(Event event) = 0;
  virtual bool done(Event event) = 0;
  /// The time between two timed events that are done.
  virtual double elapsed_ns(Event begin, Event end) = 0;

  // In stream order. If the host memory isn't page-locked, the call returns only when it may be reused or
  // read.
  virtual void copy_to_device(DevicePtr to, const void* from, size_t bytes, Stream stream) = 0;
  virtual void copy_to_host(void* to, DevicePtr from, size_t bytes, Stream stream) = 0;
  virtual void copy(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) = 0;
  virtual void fill(DevicePtr to, uint8_t value, size_t bytes, Stream stream) = 0;

  /// `image`: a cubin, or PTX that ends with a 0.
  virtual Module load(std::span<const char> image) = 0;
  virtual void unload(Module module) = 0;
  virtual Function function(Module module, const std::string& name) = 0;
  /// Dynamic shared memory beyond 48 KiB must be allowed first.
  virtual void allow_shared_bytes(Function function, size_t bytes) = 0;
  /// `arguments`: the address of each; they are read before this returns.
  virtual void launch(Function function, const LaunchSize& size, std::span<void* const> arguments,
                      Stream stream) = 0;

  /// From now on, work queued in `stream` isn't run but becomes part of a graph. This includes work in other
  /// streams that wait for `stream` and for which `stream` waits later. Every launch of the graph uses the
  /// same host memory and addresses.
  virtual void begin_capture(Stream stream) = 0;
  /// Throws kCaptureViolation if a call was made that can't be captured.
  virtual Graph end_capture(Stream stream) = 0;
  virtual bool capturing(Stream stream) = 0;
  /// In a capture of `stream`: work added from now on depends on `nodes`, instead of on the work that is
  /// already in the stream. Branches of the graph needn't be joined: one launch runs the whole graph.
  virtual void follow(Stream stream, std::span<const GraphNode> nodes) = 0;
  virtual std::vector<GraphNode> followed(Stream stream) = 0;
  /// In a capture of `stream`: creates a condition that is 0 at the start of each launch of the graph.
  /// Kernels set it.
  virtual Condition create_condition(Stream stream) = 0;
  /// In a capture of `stream`, after the work already in it: returns a stream for the body, which ends at
  /// `end_body`. The body runs if the condition isn't 0 at that point; with `repeats`, it runs again as long
  /// as the condition isn't 0. A body may contain only kernels, copies, fills and other such parts.
  virtual Stream begin_body(Stream stream, Condition condition, bool repeats) = 0;
  virtual void end_body(Stream body) = 0;
  virtual GraphCounts counts(Graph graph) = 0;
  virtual GraphExec instantiate(Graph graph) = 0;  // kOutOfMemory
  /// Copies the graph to the device, which its first launch would otherwise do.
  virtual void upload(GraphExec graph, Stream stream) = 0;
  virtual void destroy(Graph graph) = 0;
  virtual void destroy(GraphExec graph) = 0;
  virtual void launch(GraphExec graph, Stream stream) = 0;
};

/// Copies bytes of one tensor to another on the same device, in stream order; does nothing if both are the
/// same.
inline void copy_within(Context& context, std::byte* to, const std::byte* from, size_t bytes, Stream stream) {
  if (bytes > 0 && to != from)
    context.copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, stream);
}

/// Captures the work that `enqueue` adds to `stream` as a graph that one launch runs; the caller destroys the
/// graph. `counts`, if not null, receives what the graph consists of. Throws like `enqueue`,
/// kCaptureViolation if a call can't be captured, and kOutOfMemory; no capture is left open in these cases.
GraphExec capture_graph(Context& context, Stream stream, const std::function<void()>& enqueue,
                        GraphCounts* counts = nullptr);

class Driver {
 public:
  virtual ~Driver() = default;
  /// For example, 13000 for 13.0.
  virtual int version() = 0;
  virtual int device_count() = 0;
  /// Throws kUnsupported for an index without a device, and for a device that is too old.
  virtual std::shared_ptr<Context> open(int index) = 0;
};

/// The oldest compute capability that is supported, as 10 * major + minor.
inline constexpr int kOldestDevice = 75;
/// The oldest driver that is supported: the one of the toolkit with which the library is built and tested.
inline constexpr int kOldestDriver = 13000;

/// For example, "13.0" for 13000.
std::string version_text(int version);

/// Throws kUnsupported, naming what was found and the fix, if the device or driver isn't supported.
void require_served(int driver_version);
void require_served(int driver_version, const DeviceProperties& device);

/// The driver of this machine; one per process. Throws kUnsupported if this was built without CUDA, if the
/// driver library is missing or too old, or if there is no device.
Driver& machine_driver();
/// Whether this build could use a device.
bool built_with_cuda();

}  // namespace isochron::cuda
