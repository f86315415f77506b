// A device without hardware. Its addresses are the host's, so that a kernel is a function here; its memory
// has a limit and holds rubbish at first; what is put in streams runs only when somebody waits, those of
// different streams in a random order, so that an order which nobody asked for shows. Misuse that a device
// would punish by wrong numbers or a dead process throws kDevice here: copies beyond what is mapped, memory
// unmapped while work is to come.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/cuda/driver.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron::cuda {

struct SimulatedDevice {
  DeviceProperties properties{.name = "Simulated Device",
                              .major = 9,
                              .minor = 0,
                              .multiprocessors = 4,
                              .total_bytes = size_t{64} << 20,
                              .shared_bytes_per_block = 48 << 10,
                              .virtual_memory = true,
                              .memory_pools = true};
  size_t granularity_bytes = 64 << 10;
  uint64_t seed = 1;
};

/// One with so much memory.
inline SimulatedDevice simulated_device(size_t total_bytes) {
  SimulatedDevice device;
  device.properties.total_bytes = total_bytes;
  return device;
}

class SimulatedContext final : public Context {
 public:
  explicit SimulatedContext(const SimulatedDevice& device = {}, int index = 0);
  ~SimulatedContext() override;

  // What tests ask for.
  using Kernel = std::function<void(const LaunchSize& size, std::span<void* const> arguments)>;
  /// Modules whose image is `name` have one kernel of that name, with arguments of these sizes.
  void add_kernel(const std::string& name, std::vector<size_t> argument_bytes, Kernel kernel);
  struct LoadedKernel {
    std::vector<size_t> argument_bytes;
    Kernel kernel;
  };
  /// What gives the kernels of any other image, by name.
  using Loader = std::function<std::map<std::string, LoadedKernel>(std::span<const char> image)>;
  void set_loader(Loader loader) { loader_ = std::move(loader); }
  /// How often a call was made: "allocate", "launch graph".
  int64_t calls(const std::string& call) const;
  void forget_calls() { calls_.clear(); }
  /// The `number`-th of these calls from now on throws, and no other.
  void fail(const std::string& call, int64_t number, ErrorCode code);
  size_t used_bytes() const { return used_bytes_; }
  /// As a library's kernel.
  void launch(std::function<void()> kernel, Stream stream);
  /// Operations that are put in streams and not done, but for those that free memory.
  size_t pending() const;

  int index() const override { return index_; }
  const DeviceProperties& properties() const override { return device_.properties; }
  void make_current() override {}
  MemoryInfo memory_info() override;
  size_t granularity() override { return device_.granularity_bytes; }
  DevicePtr reserve(size_t bytes) override;
  void release(DevicePtr pointer, size_t bytes) override;
  PhysicalMemory create(size_t bytes) override;
  void destroy(PhysicalMemory memory) override;
  void map(DevicePtr pointer, size_t bytes, PhysicalMemory memory) override;
  void unmap(DevicePtr pointer, size_t bytes) override;
  DevicePtr allocate(size_t bytes) override;
  void free(DevicePtr pointer) override;
  DevicePtr allocate_async(size_t bytes, Stream stream) override;
  void free_async(DevicePtr pointer, Stream stream) override;
  size_t pool_reserved_bytes() override { return pool_reserved_bytes_; }
  size_t pool_used_bytes() override { return pool_used_bytes_; }
  void pool_trim() override;
  void* allocate_pinned(size_t bytes) override;
  void free_pinned(void* pointer) override;
  Stream create_stream(bool urgent) override;
  void destroy(Stream stream) override;
  void synchronize(Stream stream) override;
  bool done(Stream stream) override;
  void wait(Stream stream, Event event) override;
  Event create_event(bool timed) override;
  void destroy(Event event) override;
  void record(Event event, Stream stream) override;
  void synchronize(Event event) override;
  bool done(Event event) override;
  double elapsed_ns(Event begin, Event end) override;
  void copy_to_device(DevicePtr to, const void* from, size_t bytes, Stream stream) override;
  void copy_to_host(void* to, DevicePtr from, size_t bytes, Stream stream) override;
  void copy(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) override;
  void fill(DevicePtr to, uint8_t value, size_t bytes, Stream stream) override;
  Module load(std::span<const char> image) override;
  void unload(Module module) override;
  Function function(Module module, const std::string& name) override;
  void allow_shared_bytes(Function function, size_t bytes) override;
  void launch(Function function, const LaunchSize& size, std::span<void* const> arguments,
              Stream stream) override;
  void begin_capture(Stream stream) override;
  Graph end_capture(Stream stream) override;
  bool capturing(Stream stream) override;
  void follow(Stream stream, std::span<const GraphNode> nodes) override;
  std::vector<GraphNode> followed(Stream stream) override;
  Condition create_condition(Stream stream) override;
  Stream begin_body(Stream stream, Condition condition, bool repeats) override;
  void end_body(Stream body) override;
  GraphCounts counts(Graph graph) override;
  GraphExec instantiate(Graph graph) override;
  void upload(GraphExec graph, Stream stream) override;
  void destroy(Graph graph) override;
  void destroy(GraphExec graph) override;
  void launch(GraphExec graph, Stream stream) override;

 private:
  enum class NodeKind { kKernel, kCopy, kMemset, kConditional };
  using Work = std::function<void()>;
  struct Node {
    NodeKind kind;
    Work work;
    std::vector<size_t> after;
    // Of a conditional one.
    uint64_t condition = 0;
    bool repeats = false;
    std::vector<Node> body = {};
  };
  struct Operation {
    Work work;                       // or
    std::optional<uintptr_t> waits;  // for the record of this number
    bool frees = false;              // touches no memory but what it frees
  };
  struct Range {
    size_t bytes;
    bool pool = false;
  };
  struct Capture {
    std::thread::id thread = std::this_thread::get_id();  // others may do what it may not
    uintptr_t origin = 0;
    std::vector<Node> nodes;  // of the innermost body that is open
    bool broken = false;
    struct Outer {
      uintptr_t stream;  // of what the body is a part of
      uintptr_t body;
      uint64_t condition;
      bool repeats;
      std::vector<Node> nodes;
    };
    std::vector<Outer> outer;
  };
  struct StreamState {
    std::deque<Operation> operations;
    bool captured = false;
    std::vector<size_t> last;  // of the capture's nodes, those that what comes next follows
  };
  struct EventState {
    uintptr_t record = 0;  // the latest; 0: never
    std::optional<std::vector<size_t>> captured;
    int64_t time_ns = 0;
  };

  /// In a call. What the simulation itself takes is nothing that the caller makes.
  struct Inside {
    explicit Inside(std::recursive_mutex& mutex) : lock(mutex) {}
    UnsealedScope unsealed;
    std::lock_guard<std::recursive_mutex> lock;
  };
  /// Notes a call, and throws where it is to fail or the device is lost.
  void enter(const std::string& call);
  /// A call that a capture doesn't allow to its thread.
  void enter_outside_capture(const std::string& call);
  void put(Stream stream, NodeKind kind, Work work);
  /// Runs one operation of a stream that is ready; false where all wait.
  bool run_one();
  void run_graph(const std::vector<Node>& nodes);
  void run_node(const Node& node);
  void run_work(const Work& work);
  void check_range(const char* call, DevicePtr pointer, size_t bytes) const;
  bool pinned(const void* pointer, size_t bytes) const;
  void take(const char* call, size_t bytes);
  StreamState& at(Stream stream);
  EventState& at(Event event);

  const SimulatedDevice device_;
  const int index_;
  Rng random_;
  mutable std::recursive_mutex mutex_;
  std::map<std::string, int64_t> calls_;
  struct Failure {
    int64_t left;
    ErrorCode code;
  };
  std::map<std::string, Failure> failures_;
  bool lost_ = false;
  uintptr_t next_handle_ = 1;
  size_t used_bytes_ = 0;
  size_t pool_reserved_bytes_ = 0, pool_used_bytes_ = 0;
  struct Reserved {
    size_t bytes;
    void* begin;  // of what the system gave, which is longer
  };
  std::map<DevicePtr, Reserved> reserved_;
  std::map<DevicePtr, Range> live_;       // mapped or allocated
  std::map<uintptr_t, size_t> physical_;  // not destroyed
  std::map<DevicePtr, std::pair<uintptr_t, size_t>> mapped_;
  std::set<uintptr_t> destroyed_;  // still mapped
  std::map<uintptr_t, size_t> pinned_;
  std::map<uintptr_t, StreamState> streams_;
  std::map<uintptr_t, EventState> events_;
  uintptr_t records_ = 0;
  std::set<uintptr_t> recorded_;  // done
  std::map<std::string, LoadedKernel> kernels_;
  Loader loader_;
  std::map<uintptr_t, std::map<std::string, LoadedKernel>> modules_;
  std::map<uintptr_t, LoadedKernel> functions_;
  std::optional<Capture> capture_;
  std::map<uintptr_t, std::vector<Node>> graphs_, executables_;
  std::map<uint64_t, std::unique_ptr<unsigned>> conditions_;  // by address, as kernels are given them
};

class SimulatedDriver final : public Driver {
 public:
  explicit SimulatedDriver(std::vector<SimulatedDevice> devices = {SimulatedDevice{}},
                           int version = kOldestDriver)
      : devices_(std::move(devices)), version_(version) {}
  int version() override { return version_; }
  int device_count() override { return static_cast<int>(devices_.size()); }
  std::shared_ptr<Context> open(int index) override;

 private:
  std::vector<SimulatedDevice> devices_;
  int version_;
};

}  // namespace isochron::cuda
