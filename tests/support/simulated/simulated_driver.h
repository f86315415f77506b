// A device without hardware. Its addresses are the host's, so a kernel is a host function. Its memory is
// limited and initially filled with garbage. Work in streams runs only when somebody waits for it, in a
// random order across streams, so that missing dependencies show. Misuse that would give wrong numbers or
// kill the process on a real device, such as copies beyond mapped memory or unmapping memory that pending
// work uses, throws kDevice. The tests' libcuda.so.1 (driver_library/) adds the driver's own functions.
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
  /// Memory of the host that isn't page-locked is read before a copy returns, not when it runs.
  bool stages_pageable = true;
  /// The initial content of memory.
  uint8_t first_byte = 0xcb;
  /// The clock of recorded events; null: now_ns().
  int64_t (*clock)() = nullptr;
};

/// A device with this much memory.
inline SimulatedDevice simulated_device(size_t total_bytes) {
  SimulatedDevice device;
  device.properties.total_bytes = total_bytes;
  return device;
}

/// What tests ask of a simulated device.
class SimulatedControls {
 public:
  virtual ~SimulatedControls() = default;
  /// How often a call was made: "allocate", "launch graph".
  virtual int64_t calls(const std::string& call) const = 0;
  virtual void forget_calls() = 0;
  /// The `number`-th of these calls from now on throws, and no other.
  virtual void fail(const std::string& call, int64_t number, ErrorCode code) = 0;
  virtual size_t used_bytes() const = 0;
};

class SimulatedContext : public Context, public SimulatedControls {
 public:
  /// `first_handle`: the first handle that it returns, so that different contexts have different handles.
  explicit SimulatedContext(const SimulatedDevice& device = {}, int index = 0, uintptr_t first_handle = 1);
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
  int64_t calls(const std::string& call) const override;
  void forget_calls() override;
  void fail(const std::string& call, int64_t number, ErrorCode code) override;
  size_t used_bytes() const override { return used_bytes_; }
  /// What was created and not destroyed: "2 events, 1 stream". Empty if there is nothing, or if the device
  /// is lost.
  std::string alive() const;
  /// As a library's kernel.
  void launch(std::function<void()> kernel, Stream stream);
  /// How many operations in streams are pending, except those that free memory.
  size_t pending() const;

  // Functions of the driver in addition to those of Context.
  enum class NodeKind { kKernel, kCopy, kMemset, kConditional, kEmpty };
  bool pinned(const void* pointer, size_t bytes) const;
  bool on_device(DevicePtr pointer) const;
  bool ever_recorded(Event event) const;
  bool recorded(Event event) const;
  bool timed(Event event) const;
  /// Of the capture of `stream` that is under way, kNone without one.
  Graph open_graph(Stream stream) const;
  /// A call was made that can't be captured.
  bool capture_is_broken(Stream stream) const;
  /// Begins a capture into a graph that is there, the body of a conditional node.
  void begin_capture_to(Stream stream, Graph graph);
  Condition create_condition_in(Graph graph);
  GraphNode add_empty_node(Graph graph, std::span<const GraphNode> after);
  /// With its body, an empty graph.
  std::pair<GraphNode, Graph> add_conditional_node(Graph graph, std::span<const GraphNode> after,
                                                   Condition condition, bool repeats);
  std::vector<std::pair<GraphNode, NodeKind>> nodes_of(Graph graph) const;
  NodeKind kind_of(GraphNode node) const;
  size_t argument_count(Function function) const;

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
  using Work = std::function<void()>;
  struct Nodes;
  struct Node {
    NodeKind kind;
    Work work;
    std::vector<size_t> after;  // in the same graph
    GraphNode handle = GraphNode::kNone;
    // Of a conditional one.
    uint64_t condition = 0;
    bool repeats = false;
    std::shared_ptr<Nodes> body = nullptr;
  };
  struct Nodes {
    std::vector<Node> all;
    bool is_body = false;
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
    Stream origin = Stream::kNone;
    Graph graph = Graph::kNone;
    std::shared_ptr<Nodes> nodes;
    bool broken = false;
  };
  struct StreamState {
    std::deque<Operation> operations;
    std::shared_ptr<Capture> capture;  // that it is a part of
    std::vector<size_t> last;          // of the capture's nodes, those that what comes next follows
    bool of_body = false;              // made by begin_body
  };
  struct EventState {
    bool timed = false;
    uintptr_t record = 0;               // the latest; 0: never
    std::weak_ptr<Capture> in_capture;  // where that is a part of one
    std::vector<size_t> after;          // of its nodes
    bool captured = false;
    int64_t time_ns = 0;
  };
  struct ConditionState {
    unsigned value = 0;
    Graph graph = Graph::kNone;
    bool used = false;
  };
  struct LoadedFunction {
    LoadedKernel kernel;
    size_t allowed_shared_bytes = size_t{48} << 10;
  };

  /// Scope of a call. Allocations of the simulation itself don't count as the caller's.
  struct Inside {
    explicit Inside(std::recursive_mutex& mutex) : lock(mutex) {}
    UnsealedScope unsealed;
    std::lock_guard<std::recursive_mutex> lock;
  };
  /// Counts a call, and throws if it must fail or the device is lost.
  void enter(const std::string& call);
  /// A call that a capture doesn't allow to its thread.
  void enter_outside_capture(const std::string& call);
  void put(Stream stream, NodeKind kind, Work work);
  /// Waits for a condition of what runs.
  void run_until(const char* call, const std::function<bool()>& reached);
  size_t add_node(Nodes& nodes, Node node);
  void destroy_bodies(const Nodes& nodes);
  void require_page_locked_in_body(const char* call, Stream stream, bool page_locked) const;
  std::vector<size_t> indices_of(const char* call, const Nodes& nodes,
                                 std::span<const GraphNode> handles) const;
  const std::shared_ptr<Nodes>& at(Graph graph) const;
  /// Runs one ready operation of a stream; returns false if all wait.
  bool run_one();
  void run_graph(const Nodes& nodes);
  void run_node(const Node& node);
  void run_work(const Work& work);
  void check_range(const char* call, DevicePtr pointer, size_t bytes) const;
  void take(const char* call, size_t bytes);
  StreamState& at(Stream stream);
  const StreamState& at(Stream stream) const;
  EventState& at(Event event);
  const EventState& at(Event event) const;

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
  uintptr_t next_handle_;
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
  std::map<uintptr_t, LoadedFunction> functions_;
  std::vector<std::shared_ptr<Capture>> captures_;  // under way
  std::map<uintptr_t, std::shared_ptr<Nodes>> graphs_, executables_;
  std::map<uint64_t, std::unique_ptr<ConditionState>> conditions_;  // by address, as kernels are given them
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
