// Streams, events, kernels and captured graphs of the simulated device.
#include <algorithm>
#include <cstring>
#include <utility>

#include "isochron/core/base/clock.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

Stream SimulatedContext::create_stream(bool) {
  const Inside here(mutex_);
  enter("create_stream");
  streams_[next_handle_];
  return static_cast<Stream>(next_handle_++);
}

void SimulatedContext::destroy(Stream stream) {
  const Inside here(mutex_);
  enter("destroy stream");
  while (!at(stream).operations.empty() && run_one()) continue;
  streams_.erase(static_cast<uintptr_t>(stream));
}

void SimulatedContext::run_work(const Work& work) {
  try {
    work();
  } catch (...) {
    lost_ = true;  // as after a kernel's fault
    throw;
  }
}

bool SimulatedContext::run_one() {
  std::vector<StreamState*> ready;
  for (auto& [handle, stream] : streams_) {
    if (stream.operations.empty()) continue;
    const auto& waits = stream.operations.front().waits;
    if (!waits || recorded_.contains(*waits)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  StreamState& stream = *ready[std::min(
      ready.size() - 1, static_cast<size_t>(random_.uniform() * static_cast<double>(ready.size())))];
  const Operation operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  if (operation.work) run_work(operation.work);
  return true;
}

void SimulatedContext::synchronize(Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("synchronize");
  while (!at(stream).operations.empty()) {
    require(run_one(), ErrorCode::kDevice, "cuda", "synchronize: every stream waits for what never comes");
  }
}

bool SimulatedContext::done(Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("done");
  if (!at(stream).operations.empty()) run_one();
  return at(stream).operations.empty();
}

Event SimulatedContext::create_event(bool) {
  const Inside here(mutex_);
  enter("create_event");
  events_[next_handle_];
  return static_cast<Event>(next_handle_++);
}

void SimulatedContext::destroy(Event event) {
  const Inside here(mutex_);
  enter("destroy event");
  events_.erase(static_cast<uintptr_t>(event));
}

void SimulatedContext::record(Event event, Stream stream) {
  const Inside here(mutex_);
  enter("record");
  StreamState& from = at(stream);
  EventState& state = at(event);
  if (from.captured) {
    state.captured = from.last;
    return;
  }
  state.captured.reset();
  const uintptr_t number = ++records_;
  state.record = number;
  from.operations.push_back({[this, number, handle = static_cast<uintptr_t>(event)] {
                               recorded_.insert(number);
                               if (const auto found = events_.find(handle); found != events_.end())
                                 found->second.time_ns = now_ns();
                             },
                             {}});
}

void SimulatedContext::wait(Stream stream, Event event) {
  const Inside here(mutex_);
  enter("wait");
  const EventState& state = at(event);
  StreamState& to = at(stream);
  if (state.captured) {
    require(capture_.has_value(), ErrorCode::kCaptureViolation, "cuda",
            "wait: for an event of a capture that is over");
    to.captured = true;
    to.last.insert(to.last.end(), state.captured->begin(), state.captured->end());
    return;
  }
  require(!to.captured, ErrorCode::kCaptureViolation, "cuda", "wait: a captured stream for an event outside");
  if (state.record > 0) to.operations.push_back({{}, state.record});
}

void SimulatedContext::synchronize(Event event) {
  const Inside here(mutex_);
  enter_outside_capture("synchronize event");
  const uintptr_t record = at(event).record;
  while (record > 0 && !recorded_.contains(record)) {
    require(run_one(), ErrorCode::kDevice, "cuda", "synchronize: every stream waits for what never comes");
  }
}

bool SimulatedContext::done(Event event) {
  const Inside here(mutex_);
  enter_outside_capture("done event");
  const uintptr_t record = at(event).record;
  if (record > 0 && !recorded_.contains(record)) run_one();
  return record == 0 || recorded_.contains(record);
}

double SimulatedContext::elapsed_ns(Event begin, Event end) {
  const Inside here(mutex_);
  enter("elapsed");
  return static_cast<double>(at(end).time_ns - at(begin).time_ns);
}

void SimulatedContext::put(Stream stream, NodeKind kind, Work work) {
  StreamState& to = at(stream);
  if (!to.captured) {
    to.operations.push_back({std::move(work), {}});
    return;
  }
  capture_->nodes.push_back({kind, std::move(work), std::move(to.last)});
  to.last = {capture_->nodes.size() - 1};
}

void SimulatedContext::copy_to_device(DevicePtr to, const void* from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy_to_device");
  check_range("copy_to_device", to, bytes);
  const auto put_copy = [&](Work work) { put(stream, NodeKind::kCopy, std::move(work)); };
  if (pinned(from, bytes) || at(stream).captured) {
    put_copy([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
    return;
  }
  const auto* bytes_of = static_cast<const std::byte*>(from);
  put_copy([to, staged = std::vector<std::byte>(bytes_of, bytes_of + bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), staged.data(), staged.size());
  });
}

void SimulatedContext::copy_to_host(void* to, DevicePtr from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy_to_host");
  check_range("copy_to_host", from, bytes);
  put(stream, NodeKind::kCopy, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  if (pinned(to, bytes) || at(stream).captured) return;
  while (!at(stream).operations.empty()) {
    require(run_one(), ErrorCode::kDevice, "cuda", "copy_to_host: every stream waits for what never comes");
  }
}

void SimulatedContext::copy(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy");
  check_range("copy", to, bytes);
  check_range("copy", from, bytes);
  put(stream, NodeKind::kCopy,
      [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
}

void SimulatedContext::fill(DevicePtr to, uint8_t value, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("fill");
  check_range("fill", to, bytes);
  put(stream, NodeKind::kMemset, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}

Module SimulatedContext::load(std::span<const char> image) {
  const Inside here(mutex_);
  enter_outside_capture("load");
  const std::string name(image.data(), strnlen(image.data(), image.size()));
  const auto known = kernels_.find(name);
  require(known != kernels_.end() || loader_, ErrorCode::kUnsupported, "cuda",
          "load: no kernel '{}' for this device", name);
  if (known != kernels_.end()) {
    modules_[next_handle_] = {*known};
  } else {
    modules_[next_handle_] = loader_(image);
  }
  return static_cast<Module>(next_handle_++);
}

void SimulatedContext::unload(Module module) {
  const Inside here(mutex_);
  enter_outside_capture("unload");
  require(modules_.erase(static_cast<uintptr_t>(module)) == 1, ErrorCode::kDevice, "cuda",
          "unload: no such module");
}

Function SimulatedContext::function(Module module, const std::string& name) {
  const Inside here(mutex_);
  enter_outside_capture("function");
  const auto found = modules_.find(static_cast<uintptr_t>(module));
  require(found != modules_.end() && found->second.contains(name), ErrorCode::kDevice, "cuda",
          "function: no '{}'", name);
  functions_[next_handle_] = found->second.at(name);
  return static_cast<Function>(next_handle_++);
}

void SimulatedContext::allow_shared_bytes(Function, size_t bytes) {
  const Inside here(mutex_);
  enter("allow_shared_bytes");
  require(bytes <= device_.properties.shared_bytes_per_block, ErrorCode::kDevice, "cuda",
          "allow_shared_bytes: {} of {}", bytes, device_.properties.shared_bytes_per_block);
}

void SimulatedContext::launch(Function function, const LaunchSize& size, std::span<void* const> arguments,
                              Stream stream) {
  const Inside here(mutex_);
  enter("launch");
  const auto found = functions_.find(static_cast<uintptr_t>(function));
  require(found != functions_.end(), ErrorCode::kDevice, "cuda", "launch: no such function");
  const LoadedKernel& loaded = found->second;
  for (const unsigned extent :
       {size.grid[0], size.grid[1], size.grid[2], size.block[0], size.block[1], size.block[2]})
    require(extent > 0, ErrorCode::kDevice, "cuda", "launch: an extent of 0");
  require(size.block[0] * size.block[1] * size.block[2] <= 1024, ErrorCode::kDevice, "cuda",
          "launch: block too large");
  require(arguments.size() == loaded.argument_bytes.size(), ErrorCode::kDevice, "cuda",
          "launch: {} arguments, not {}", arguments.size(), loaded.argument_bytes.size());
  std::vector<std::vector<std::byte>> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* value = static_cast<const std::byte*>(arguments[i]);
    values.emplace_back(value, value + loaded.argument_bytes[i]);
  }
  put(stream, NodeKind::kKernel, [kernel = loaded.kernel, size, values = std::move(values)]() mutable {
    std::vector<void*> addresses;
    for (auto& value : values) addresses.push_back(value.data());
    kernel(size, addresses);
  });
}

void SimulatedContext::launch(std::function<void()> kernel, Stream stream) {
  const Inside here(mutex_);
  enter("launch");
  put(stream, NodeKind::kKernel, std::move(kernel));
}

void SimulatedContext::begin_capture(Stream stream) {
  const Inside here(mutex_);
  enter("begin_capture");
  require(!capture_, ErrorCode::kCaptureViolation, "cuda", "begin_capture: one is under way");
  StreamState& origin = at(stream);
  capture_.emplace();
  capture_->origin = static_cast<uintptr_t>(stream);
  origin.captured = true;
  origin.last.clear();
}

Graph SimulatedContext::end_capture(Stream stream) {
  const Inside here(mutex_);
  require(capture_ && capture_->origin == static_cast<uintptr_t>(stream), ErrorCode::kCaptureViolation,
          "cuda", "end_capture: not of the stream where it began");
  Capture capture = std::move(*capture_);
  capture_.reset();
  // What the origin's end follows, directly or not.
  std::vector<bool> joined(capture.nodes.size());
  std::vector<size_t> open = at(stream).last;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  bool unjoined = false;
  for (auto& [handle, state] : streams_) {
    for (const size_t node : state.last) unjoined |= !joined[node];
    state.captured = false;
    state.last.clear();
  }
  enter("end_capture");
  require(capture.outer.empty(), ErrorCode::kCaptureViolation, "cuda", "end_capture: a body is still open");
  require(!capture.broken, ErrorCode::kCaptureViolation, "cuda", "end_capture: a call broke it");
  require(!unjoined, ErrorCode::kCaptureViolation, "cuda",
          "end_capture: a stream that was forked isn't joined");
  graphs_[next_handle_] = std::move(capture.nodes);
  return static_cast<Graph>(next_handle_++);
}

bool SimulatedContext::capturing(Stream stream) {
  const Inside here(mutex_);
  return at(stream).captured;
}

void SimulatedContext::follow(Stream stream, std::span<const GraphNode> nodes) {
  const Inside here(mutex_);
  enter("follow");
  StreamState& state = at(stream);
  require(state.captured, ErrorCode::kCaptureViolation, "cuda", "follow: outside of a capture");
  state.last.clear();
  for (const GraphNode node : nodes) {
    const size_t index = static_cast<uintptr_t>(node) - 1;
    require(index < capture_->nodes.size() && std::ranges::find(state.last, index) == state.last.end(),
            ErrorCode::kDevice, "cuda", "follow: no such node here, or the same twice");
    state.last.push_back(index);
  }
}

std::vector<GraphNode> SimulatedContext::followed(Stream stream) {
  const Inside here(mutex_);
  enter("followed");
  require(at(stream).captured, ErrorCode::kCaptureViolation, "cuda", "followed: outside of a capture");
  std::vector<GraphNode> nodes;
  for (const size_t index : at(stream).last) nodes.push_back(static_cast<GraphNode>(index + 1));
  return nodes;
}

Condition SimulatedContext::create_condition(Stream stream) {
  const Inside here(mutex_);
  enter("create_condition");
  require(at(stream).captured, ErrorCode::kCaptureViolation, "cuda",
          "create_condition: outside of a capture");
  auto value = std::make_unique<unsigned>(0);
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(value.get()));
  conditions_[address] = std::move(value);
  return static_cast<Condition>(address);
}

Stream SimulatedContext::begin_body(Stream stream, Condition condition, bool repeats) {
  const Inside here(mutex_);
  enter("begin_body");
  require(at(stream).captured && conditions_.contains(static_cast<uint64_t>(condition)),
          ErrorCode::kCaptureViolation, "cuda", "begin_body: outside of a capture, or without a condition");
  const uintptr_t body = next_handle_++;
  streams_[body].captured = true;
  capture_->outer.push_back({static_cast<uintptr_t>(stream), body, static_cast<uint64_t>(condition), repeats,
                             std::exchange(capture_->nodes, {})});
  return static_cast<Stream>(body);
}

void SimulatedContext::end_body(Stream body) {
  const Inside here(mutex_);
  enter("end_body");
  require(capture_ && !capture_->outer.empty() && capture_->outer.back().body == static_cast<uintptr_t>(body),
          ErrorCode::kCaptureViolation, "cuda", "end_body: not of the body that is open");
  Capture::Outer outer = std::move(capture_->outer.back());
  capture_->outer.pop_back();
  streams_.erase(static_cast<uintptr_t>(body));
  StreamState& to = at(static_cast<Stream>(outer.stream));
  Node node{NodeKind::kConditional, {},
            std::move(to.last),     outer.condition,
            outer.repeats,          std::exchange(capture_->nodes, std::move(outer.nodes))};
  capture_->nodes.push_back(std::move(node));
  to.last = {capture_->nodes.size() - 1};
}

GraphCounts SimulatedContext::counts(Graph graph) {
  const Inside here(mutex_);
  enter("counts");
  GraphCounts counts;
  for (const Node& node : graphs_.at(static_cast<uintptr_t>(graph))) {
    counts.kernels += node.kind == NodeKind::kKernel;
    counts.copies += node.kind == NodeKind::kCopy;
    counts.memsets += node.kind == NodeKind::kMemset;
    counts.conditionals += node.kind == NodeKind::kConditional;
  }
  return counts;
}

GraphExec SimulatedContext::instantiate(Graph graph) {
  const Inside here(mutex_);
  enter_outside_capture("instantiate");
  executables_[next_handle_] = graphs_.at(static_cast<uintptr_t>(graph));
  return static_cast<GraphExec>(next_handle_++);
}

void SimulatedContext::upload(GraphExec graph, Stream) {
  const Inside here(mutex_);
  enter_outside_capture("upload");
  require(executables_.contains(static_cast<uintptr_t>(graph)), ErrorCode::kDevice, "cuda",
          "upload: no such graph");
}

void SimulatedContext::destroy(Graph graph) {
  const Inside here(mutex_);
  enter("destroy graph");
  graphs_.erase(static_cast<uintptr_t>(graph));
}

void SimulatedContext::destroy(GraphExec graph) {
  const Inside here(mutex_);
  enter("destroy executable");
  while (run_one()) continue;
  executables_.erase(static_cast<uintptr_t>(graph));
}

void SimulatedContext::run_graph(const std::vector<Node>& nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t count = 0; count < nodes.size(); ++count) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto& after = nodes[i].after;
      if (!done[i] && std::all_of(after.begin(), after.end(), [&](size_t node) { return done[node]; }))
        ready.push_back(i);
    }
    const size_t chosen = ready[std::min(
        ready.size() - 1, static_cast<size_t>(random_.uniform() * static_cast<double>(ready.size())))];
    run_node(nodes[chosen]);
    done[chosen] = true;
  }
}

void SimulatedContext::run_node(const Node& node) {
  if (node.kind != NodeKind::kConditional) return node.work();
  constexpr int kForEver = 1'000'000;
  const unsigned& condition = *conditions_.at(node.condition);
  for (int i = 0; condition != 0; ++i) {
    require(i < kForEver, ErrorCode::kDevice, "cuda", "a conditional part repeats for ever");
    run_graph(node.body);
    if (!node.repeats) return;
  }
}

void SimulatedContext::launch(GraphExec graph, Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("launch graph");
  const auto found = executables_.find(static_cast<uintptr_t>(graph));
  require(found != executables_.end(), ErrorCode::kDevice, "cuda", "launch: no such graph");
  put(stream, NodeKind::kKernel, [this, &nodes = found->second] {
    for (auto& [address, value] : conditions_) *value = 0;
    run_graph(nodes);
  });
}

}  // namespace isochron::cuda
