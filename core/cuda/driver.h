// What this project asks of the CUDA driver, call by call. The machine's own (machine_driver) is loaded at
// run time, so that a program built with CUDA starts without one, and says what is missing once a device is
// asked for. Allocators, executor and transfers see only this interface; tests run them on a simulated device
// (tests/support/simulated/simulated_driver.h).
//
// Every call may throw Error: kOutOfMemory where it says so, kDevice for anything else that the driver
// refuses, with the call, the driver's name of the error and its text. After an error of a kernel the context
// is lost: every later call throws kDeviceLost, and only a new process has the device again.
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
  std::string pci_bus_id = {};  // as "0000:65:00.0"
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
  int conditionals = 0;  // what is within them isn't counted
  int others = 0;

  int total() const { return kernels + copies + memsets + conditionals + others; }
};

/// One device, opened. Calls may come from any thread; those on one stream run in the order in which they
/// came.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  virtual int index() const = 0;
  virtual const DeviceProperties& properties() const = 0;
  /// What libraries do on the calling thread from now on is done on this device.
  virtual void make_current() = 0;
  virtual MemoryInfo memory_info() = 0;

  // Addresses and memory apart. All sizes and addresses are multiples of `granularity()`.
  virtual size_t granularity() = 0;
  virtual DevicePtr reserve(size_t bytes) = 0;  // kOutOfMemory: no room in the address space
  virtual void release(DevicePtr pointer, size_t bytes) = 0;
  virtual PhysicalMemory create(size_t bytes) = 0;  // kOutOfMemory
  virtual void destroy(PhysicalMemory memory) = 0;  // mapped memory stays until it is unmapped
  /// All of `memory` at `pointer`, for this device to read and write.
  virtual void map(DevicePtr pointer, size_t bytes, PhysicalMemory memory) = 0;
  virtual void unmap(DevicePtr pointer, size_t bytes) = 0;

  // Memory with its address.
  virtual DevicePtr allocate(size_t bytes) = 0;  // kOutOfMemory; waits for the device
  virtual void free(DevicePtr pointer) = 0;      // waits for the device
  /// From the device's own pool, usable in `stream`. kOutOfMemory.
  virtual DevicePtr allocate_async(size_t bytes, Stream stream) = 0;
  virtual void free_async(DevicePtr pointer, Stream stream) = 0;
  /// What the pool holds and what of it is in use; `pool_trim` gives back what isn't.
  virtual size_t pool_reserved_bytes() = 0;
  virtual size_t pool_used_bytes() = 0;
  virtual void pool_trim() = 0;
  /// On the host, page-locked. kOutOfMemory.
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void free_pinned(void* pointer) = 0;

  virtual Stream create_stream(bool urgent) = 0;  // not ordered with any other
  virtual void destroy(Stream stream) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Whether all that was put in is done.
  virtual bool done(Stream stream) = 0;
  /// What comes next in `stream` waits for what was recorded.
  virtual void wait(Stream stream, Event event) = 0;
  virtual Event create_event(bool timed) = 0;
  virtual void destroy(Event event) = 0;
  virtual void record(Event event, Stream stream) = 0;
  virtual void synchronize(Event event) = 0;
  virtual bool done(Event event) = 0;
  /// Between two timed events that are done.
  virtual double elapsed_ns(Event begin, Event end) = 0;

  // In stream order. A copy from or to host memory that isn't page-locked waits for itself.
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

  /// What is put in `stream`, and in streams that wait for it and that it waits for again, is not run but
  /// becomes a graph. Host memory and addresses in it are those of every launch.
  virtual void begin_capture(Stream stream) = 0;
  /// kCaptureViolation where a call was made that can't be captured.
  virtual Graph end_capture(Stream stream) = 0;
  virtual bool capturing(Stream stream) = 0;
  /// In a capture of `stream`: what comes next in it follows these, and whatever else is in the stream only
  /// if they do. The whole graph is one launch, joined or not.
  virtual void follow(Stream stream, std::span<const GraphNode> nodes) = 0;
  virtual std::vector<GraphNode> followed(Stream stream) = 0;
  /// In a capture of `stream`: one that is 0 at each launch of what it becomes. Kernels set it.
  virtual Condition create_condition(Stream stream) = 0;
  /// In a capture of `stream`, behind what is in it: what is put in the stream that is returned, until
  /// `end_body`, runs where the condition isn't 0 then; `repeats`: and again as long as it isn't. Kernels,
  /// copies, fills and other such parts alone.
  virtual Stream begin_body(Stream stream, Condition condition, bool repeats) = 0;
  virtual void end_body(Stream body) = 0;
  virtual GraphCounts counts(Graph graph) = 0;
  virtual GraphExec instantiate(Graph graph) = 0;  // kOutOfMemory
  /// What the first launch would have to bring to the device.
  virtual void upload(GraphExec graph, Stream stream) = 0;
  virtual void destroy(Graph graph) = 0;
  virtual void destroy(GraphExec graph) = 0;
  virtual void launch(GraphExec graph, Stream stream) = 0;
};

/// From one tensor's bytes on a device to another's there, in stream order; nothing where they are the same.
inline void copy_within(Context& context, std::byte* to, const std::byte* from, size_t bytes, Stream stream) {
  if (bytes > 0 && to != from)
    context.copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, stream);
}

/// What `enqueue` puts in `stream`, as something that one launch runs; the caller destroys it. `counts`,
/// where it isn't null, gets what it consists of. Throws as `enqueue`, kCaptureViolation where a call can't
/// be captured, and kOutOfMemory; nothing is under capture then.
GraphExec capture_graph(Context& context, Stream stream, const std::function<void()>& enqueue,
                        GraphCounts* counts = nullptr);

class Driver {
 public:
  virtual ~Driver() = default;
  /// As 13000 for 13.0.
  virtual int version() = 0;
  virtual int device_count() = 0;
  /// Throws kUnsupported for an index without a device, and for a device that is too old.
  virtual std::shared_ptr<Context> open(int index) = 0;
};

/// The oldest compute capability that is served, as 10 * major + minor.
inline constexpr int kOldestDevice = 75;
/// The oldest driver: that of the toolkit this was built and tested with.
inline constexpr int kOldestDriver = 13000;

/// "13.0" of 13000.
std::string version_text(int version);

/// Throws kUnsupported naming what was found, and the fix, for a device or driver that isn't served.
void require_served(int driver_version);
void require_served(int driver_version, const DeviceProperties& device);

/// That of this machine; one for the process. Throws kUnsupported where this was built without CUDA, where
/// there is no driver library or one that is too old, and where there is no device.
Driver& machine_driver();
/// Whether this build could use a device.
bool built_with_cuda();

}  // namespace isochron::cuda
