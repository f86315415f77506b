// Streams, events and kernels of the simulated device.
#include <algorithm>
#include <cstring>
#include <utility>

#include "isochron/core/base/clock.h"
#include "support/simulated/race_checker.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

void write(DevicePtr to, const void* from, size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), from, bytes);
  UnwrittenBytes::all().remove(to, bytes);
}

}  // namespace

Stream SimulatedContext::create_stream(bool) {
  const Inside here(mutex_);
  enter("create_stream");
  streams_[next_handle_];
  return static_cast<Stream>(next_handle_++);
}

void SimulatedContext::destroy(Stream stream) {
  const Inside here(mutex_);
  enter("destroy stream");
  require(!at(stream).capture, ErrorCode::kCaptureViolation, "cuda", "destroy: the stream is captured");
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

void SimulatedContext::run_until(const char* call, const std::function<bool()>& reached) {
  while (!reached())
    require(run_one(), ErrorCode::kDevice, "cuda", "{}: every stream waits for what never comes", call);
}

void SimulatedContext::synchronize(Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("synchronize");
  require(!at(stream).capture, ErrorCode::kCaptureViolation, "cuda", "synchronize: the stream is captured");
  run_until("synchronize", [&] { return at(stream).operations.empty(); });
}

bool SimulatedContext::done(Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("done");
  require(!at(stream).capture, ErrorCode::kCaptureViolation, "cuda", "done: the stream is captured");
  if (!at(stream).operations.empty()) run_one();
  return at(stream).operations.empty();
}

Event SimulatedContext::create_event(bool timed) {
  const Inside here(mutex_);
  enter("create_event");
  events_[next_handle_].timed = timed;
  return static_cast<Event>(next_handle_++);
}

void SimulatedContext::destroy(Event event) {
  const Inside here(mutex_);
  enter("destroy event");
  static_cast<void>(at(event));
  events_.erase(static_cast<uintptr_t>(event));
}

void SimulatedContext::record(Event event, Stream stream) {
  const Inside here(mutex_);
  enter("record");
  StreamState& from = at(stream);
  EventState& state = at(event);
  state.captured = from.capture != nullptr;
  if (from.capture) {
    state.in_capture = from.capture;
    state.after = from.last;
    return;
  }
  const uintptr_t number = ++records_;
  state.record = number;
  from.operations.push_back({[this, number, handle = static_cast<uintptr_t>(event)] {
                               recorded_.insert(number);
                               if (const auto found = events_.find(handle); found != events_.end())
                                 found->second.time_ns = device_.clock ? device_.clock() : now_ns();
                             },
                             {}});
}

void SimulatedContext::wait(Stream stream, Event event) {
  const Inside here(mutex_);
  enter("wait");
  const EventState& state = at(event);
  StreamState& to = at(stream);
  if (state.captured) {
    const std::shared_ptr<Capture> capture = state.in_capture.lock();
    require(capture != nullptr, ErrorCode::kCaptureViolation, "cuda",
            "wait: for an event of a capture that is over");
    require(!to.capture || to.capture == capture, ErrorCode::kCaptureViolation, "cuda",
            "wait: the stream is a part of another capture");
    to.capture = capture;
    for (const size_t node : state.after) {
      if (std::ranges::find(to.last, node) == to.last.end()) to.last.push_back(node);
    }
    return;
  }
  require(!to.capture, ErrorCode::kCaptureViolation, "cuda", "wait: a captured stream for an event outside");
  if (state.record > 0) to.operations.push_back({{}, state.record});
}

void SimulatedContext::synchronize(Event event) {
  const Inside here(mutex_);
  enter_outside_capture("synchronize event");
  run_until("synchronize",
            [&, record = at(event).record] { return record == 0 || recorded_.contains(record); });
}

bool SimulatedContext::done(Event event) {
  const Inside here(mutex_);
  enter_outside_capture("done event");
  const uintptr_t record = at(event).record;
  if (record > 0 && !recorded_.contains(record)) run_one();
  return record == 0 || recorded_.contains(record);
}

bool SimulatedContext::ever_recorded(Event event) const {
  const Inside here(mutex_);
  return at(event).record > 0;
}

bool SimulatedContext::recorded(Event event) const {
  const Inside here(mutex_);
  return at(event).record > 0 && recorded_.contains(at(event).record);
}

bool SimulatedContext::timed(Event event) const {
  const Inside here(mutex_);
  return at(event).timed;
}

double SimulatedContext::elapsed_ns(Event begin, Event end) {
  const Inside here(mutex_);
  enter("elapsed");
  for (const Event event : {begin, end}) {
    require(timed(event), ErrorCode::kDevice, "cuda", "elapsed: an event that isn't timed");
    require(recorded(event), ErrorCode::kDevice, "cuda", "elapsed: an event that isn't done");
  }
  return static_cast<double>(at(end).time_ns - at(begin).time_ns);
}

size_t SimulatedContext::add_node(Nodes& nodes, Node node) {
  node.handle = static_cast<GraphNode>(next_handle_++);
  nodes.all.push_back(std::move(node));
  return nodes.all.size() - 1;
}

void SimulatedContext::put(Stream stream, NodeKind kind, Work work) {
  StreamState& to = at(stream);
  if (!to.capture) {
    to.operations.push_back({std::move(work), {}});
    return;
  }
  to.last = {add_node(*to.capture->nodes, {kind, std::move(work), std::move(to.last)})};
}

void SimulatedContext::copy_to_device(DevicePtr to, const void* from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy_to_device");
  check_range("copy_to_device", to, bytes);
  const auto put_copy = [&](Work work) { put(stream, NodeKind::kCopy, std::move(work)); };
  const bool page_locked = pinned(from, bytes);
  require_page_locked_in_body("copy_to_device", stream, page_locked);
  if (page_locked || !device_.stages_pageable || at(stream).capture) {
    put_copy([=] { write(to, from, bytes); });
    return;
  }
  const auto* bytes_of = static_cast<const std::byte*>(from);
  put_copy([to, staged = std::vector<std::byte>(bytes_of, bytes_of + bytes)] {
    write(to, staged.data(), staged.size());
  });
}

void SimulatedContext::copy_to_host(void* to, DevicePtr from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy_to_host");
  check_range("copy_to_host", from, bytes);
  const bool page_locked = pinned(to, bytes);
  require_page_locked_in_body("copy_to_host", stream, page_locked);
  put(stream, NodeKind::kCopy, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  if (page_locked || !device_.stages_pageable || at(stream).capture) return;
  run_until("copy_to_host", [&] { return at(stream).operations.empty(); });
}

void SimulatedContext::require_page_locked_in_body(const char* call, Stream stream, bool page_locked) const {
  const auto& capture = at(stream).capture;
  require(page_locked || !capture || !capture->nodes->is_body, ErrorCode::kCaptureViolation, "cuda",
          "{}: a body copies page-locked memory alone", call);
}

void SimulatedContext::copy(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("copy");
  check_range("copy", to, bytes);
  check_range("copy", from, bytes);
  put(stream, NodeKind::kCopy, [=] { write(to, reinterpret_cast<const void*>(from), bytes); });
}

void SimulatedContext::fill(DevicePtr to, uint8_t value, size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter("fill");
  check_range("fill", to, bytes);
  put(stream, NodeKind::kMemset, [=] {
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    if (value == 0xFF) {
      UnwrittenBytes::all().add(to, bytes);
    } else {
      UnwrittenBytes::all().remove(to, bytes);
    }
  });
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
  functions_[next_handle_].kernel = found->second.at(name);
  return static_cast<Function>(next_handle_++);
}

void SimulatedContext::allow_shared_bytes(Function function, size_t bytes) {
  const Inside here(mutex_);
  enter("allow_shared_bytes");
  const auto found = functions_.find(static_cast<uintptr_t>(function));
  require(found != functions_.end(), ErrorCode::kDevice, "cuda", "allow_shared_bytes: no such function");
  require(bytes <= device_.properties.shared_bytes_per_block, ErrorCode::kDevice, "cuda",
          "allow_shared_bytes: {} of {}", bytes, device_.properties.shared_bytes_per_block);
  found->second.allowed_shared_bytes = bytes;
}

size_t SimulatedContext::argument_count(Function function) const {
  const Inside here(mutex_);
  const auto found = functions_.find(static_cast<uintptr_t>(function));
  require(found != functions_.end(), ErrorCode::kDevice, "cuda", "launch: no such function");
  return found->second.kernel.argument_bytes.size();
}

void SimulatedContext::launch(Function function, const LaunchSize& size, std::span<void* const> arguments,
                              Stream stream) {
  const Inside here(mutex_);
  enter("launch");
  const auto found = functions_.find(static_cast<uintptr_t>(function));
  require(found != functions_.end(), ErrorCode::kDevice, "cuda", "launch: no such function");
  const LoadedKernel& loaded = found->second.kernel;
  for (const unsigned extent :
       {size.grid[0], size.grid[1], size.grid[2], size.block[0], size.block[1], size.block[2]})
    require(extent > 0, ErrorCode::kDevice, "cuda", "launch: an extent of 0");
  require(size.block[0] * size.block[1] * size.block[2] <= 1024, ErrorCode::kDevice, "cuda",
          "launch: block too large");
  require(size.grid[0] <= 0x7fffffff && size.grid[1] <= 65535 && size.grid[2] <= 65535, ErrorCode::kDevice,
          "cuda", "launch: grid too large");
  require(size.shared_bytes <= found->second.allowed_shared_bytes, ErrorCode::kDevice, "cuda",
          "launch: {} bytes of shared memory, {} are allowed", size.shared_bytes,
          found->second.allowed_shared_bytes);
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

}  // namespace isochron::cuda
