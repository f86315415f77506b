#include "support/simulated/simulated_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "isochron/core/base/clock.h"
#include "support/simulated/race_checker.h"

namespace isochron::cuda {
namespace {

constexpr size_t kAlignment = 256;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

SimulatedContext::SimulatedContext(const SimulatedDevice& device, int index, uintptr_t first_handle)
    : device_(device), index_(index), random_(device.seed), next_handle_(first_handle) {}

SimulatedContext::~SimulatedContext() {
  for (const auto& [pointer, range] : live_) {
    UnwrittenBytes::all().remove(pointer, range.bytes);
    if (!mapped_.contains(pointer)) std::free(reinterpret_cast<void*>(pointer));
  }
  for (const auto& [pointer, reserved] : reserved_)
    munmap(reserved.begin, reserved.bytes + device_.granularity_bytes);
  for (const auto& [pointer, bytes] : pinned_) std::free(reinterpret_cast<void*>(pointer));
}

void SimulatedContext::add_kernel(const std::string& name, std::vector<size_t> argument_bytes,
                                  Kernel kernel) {
  kernels_[name] = {std::move(argument_bytes), std::move(kernel)};
}

int64_t SimulatedContext::calls(const std::string& call) const {
  const Inside here(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

void SimulatedContext::forget_calls() {
  const Inside here(mutex_);
  calls_.clear();
}

void SimulatedContext::fail(const std::string& call, int64_t number, ErrorCode code) {
  failures_[call] = {number, code};
}

size_t SimulatedContext::pending() const {
  const Inside here(mutex_);
  size_t count = 0;
  for (const auto& [handle, stream] : streams_) {
    for (const Operation& operation : stream.operations) count += !operation.frees;
  }
  return count;
}

void SimulatedContext::enter(const std::string& call) {
  require(!lost_, ErrorCode::kDeviceLost, "cuda", "{}: a kernel has failed before", call);
  ++calls_[call];
  const auto failure = failures_.find(call);
  if (failure == failures_.end() || --failure->second.left > 0) return;
  const ErrorCode code = failure->second.code;
  failures_.erase(failure);
  lost_ = code == ErrorCode::kDeviceLost;
  isochron::fail(code, "cuda", "{}: as the test asked for", call);
}

void SimulatedContext::enter_outside_capture(const std::string& call) {
  enter(call);
  bool breaks = false;
  for (const auto& capture : captures_) {
    if (capture->thread == std::this_thread::get_id()) breaks = capture->broken = true;
  }
  require(!breaks, ErrorCode::kCaptureViolation, "cuda", "{} while a stream is captured", call);
}

std::string SimulatedContext::alive() const {
  const Inside here(mutex_);
  if (lost_) return {};  // with all it had
  size_t allocated = 0;
  for (const auto& [pointer, range] : live_) allocated += !mapped_.contains(pointer);
  std::string text;
  const auto add = [&](size_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(allocated, "allocations");
  add(mapped_.size(), "mapped chunks");
  add(physical_.size(), "chunks");
  add(reserved_.size(), "reserved ranges");
  add(pinned_.size(), "page-locked ranges");
  add(streams_.size(), "streams");
  add(events_.size(), "events");
  add(modules_.size(), "modules");
  add(std::ranges::count_if(graphs_, [](const auto& graph) { return !graph.second->is_body; }), "graphs");
  add(executables_.size(), "executable graphs");
  return text;
}

const SimulatedContext::StreamState& SimulatedContext::at(Stream stream) const {
  const auto found = streams_.find(static_cast<uintptr_t>(stream));
  require(found != streams_.end(), ErrorCode::kDevice, "cuda", "no such stream");
  return found->second;
}
SimulatedContext::StreamState& SimulatedContext::at(Stream stream) {
  return const_cast<StreamState&>(std::as_const(*this).at(stream));
}

const SimulatedContext::EventState& SimulatedContext::at(Event event) const {
  const auto found = events_.find(static_cast<uintptr_t>(event));
  require(found != events_.end(), ErrorCode::kDevice, "cuda", "no such event");
  return found->second;
}
SimulatedContext::EventState& SimulatedContext::at(Event event) {
  return const_cast<EventState&>(std::as_const(*this).at(event));
}

const std::shared_ptr<SimulatedContext::Nodes>& SimulatedContext::at(Graph graph) const {
  const auto found = graphs_.find(static_cast<uintptr_t>(graph));
  require(found != graphs_.end(), ErrorCode::kDevice, "cuda", "no such graph");
  return found->second;
}

void SimulatedContext::check_range(const char* call, DevicePtr pointer, size_t bytes) const {
  // Chunks that are mapped side by side serve as one.
  DevicePtr at = pointer;
  const DevicePtr end = pointer + bytes;
  while (at < end) {
    auto range = live_.upper_bound(at);
    const bool inside = range != live_.begin() && (--range, at < range->first + range->second.bytes);
    require(inside, ErrorCode::kDevice, "cuda", "{}: {} bytes at {:#x}, which isn't memory at {:#x}", call,
            bytes, pointer, at);
    at = range->first + range->second.bytes;
  }
}

bool SimulatedContext::on_device(DevicePtr pointer) const {
  const Inside here(mutex_);
  auto range = live_.upper_bound(pointer);
  return range != live_.begin() && (--range, pointer < range->first + range->second.bytes);
}

bool SimulatedContext::pinned(const void* pointer, size_t bytes) const {
  const Inside here(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto range = pinned_.upper_bound(address);
  return range != pinned_.begin() && (--range, address + bytes <= range->first + range->second);
}

void SimulatedContext::take(const char* call, size_t bytes) {
  require(bytes <= device_.properties.total_bytes - used_bytes_, ErrorCode::kOutOfMemory, "cuda",
          "{}: {} bytes, {} are free", call, bytes, device_.properties.total_bytes - used_bytes_);
  used_bytes_ += bytes;
}

MemoryInfo SimulatedContext::memory_info() {
  const Inside here(mutex_);
  enter("memory_info");
  return {device_.properties.total_bytes - used_bytes_, device_.properties.total_bytes};
}

DevicePtr SimulatedContext::reserve(size_t bytes) {
  const Inside here(mutex_);
  enter("reserve");
  require(bytes > 0 && bytes % granularity() == 0, ErrorCode::kDevice, "cuda", "reserve: {} bytes", bytes);
  void* begin =
      mmap(nullptr, bytes + granularity(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(begin != MAP_FAILED, ErrorCode::kOutOfMemory, "cuda", "reserve: {} bytes", bytes);
  const DevicePtr address = rounded(reinterpret_cast<uintptr_t>(begin), granularity());
  reserved_[address] = {bytes, begin};
  return address;
}

void SimulatedContext::release(DevicePtr pointer, size_t bytes) {
  const Inside here(mutex_);
  enter("release");
  const auto found = reserved_.find(pointer);
  require(found != reserved_.end() && found->second.bytes == bytes, ErrorCode::kDevice, "cuda",
          "release: not reserved so");
  const auto inside = mapped_.lower_bound(pointer);
  require(inside == mapped_.end() || inside->first >= pointer + bytes, ErrorCode::kDevice, "cuda",
          "release: memory is still mapped there");
  munmap(found->second.begin, bytes + granularity());
  reserved_.erase(found);
}

PhysicalMemory SimulatedContext::create(size_t bytes) {
  const Inside here(mutex_);
  enter("create");
  require(bytes > 0 && bytes % granularity() == 0, ErrorCode::kDevice, "cuda", "create: {} bytes", bytes);
  take("create", bytes);
  physical_[next_handle_] = bytes;
  return static_cast<PhysicalMemory>(next_handle_++);
}

void SimulatedContext::destroy(PhysicalMemory memory) {
  const Inside here(mutex_);
  enter("destroy memory");
  const auto found = physical_.find(static_cast<uintptr_t>(memory));
  require(found != physical_.end(), ErrorCode::kDevice, "cuda", "destroy: no such memory");
  const bool used = std::any_of(mapped_.begin(), mapped_.end(),
                                [&](const auto& mapping) { return mapping.second.first == found->first; });
  if (used) {
    destroyed_.insert(found->first);
  } else {
    used_bytes_ -= found->second;
  }
  physical_.erase(found);
}

void SimulatedContext::map(DevicePtr pointer, size_t bytes, PhysicalMemory memory) {
  const Inside here(mutex_);
  enter("map");
  const auto physical = physical_.find(static_cast<uintptr_t>(memory));
  require(physical != physical_.end() && physical->second == bytes, ErrorCode::kDevice, "cuda",
          "map: no memory of {} bytes", bytes);
  auto range = reserved_.upper_bound(pointer);
  const bool inside =
      range != reserved_.begin() && (--range, pointer + bytes <= range->first + range->second.bytes);
  require(inside && pointer % granularity() == 0, ErrorCode::kDevice, "cuda",
          "map: the address isn't reserved");
  const auto next = mapped_.lower_bound(pointer);
  require(next == mapped_.end() || next->first >= pointer + bytes, ErrorCode::kDevice, "cuda",
          "map: mapped already");
  mprotect(reinterpret_cast<void*>(pointer), bytes, PROT_READ | PROT_WRITE);
  std::memset(reinterpret_cast<void*>(pointer), device_.first_byte, bytes);
  mapped_[pointer] = {physical->first, bytes};
  live_[pointer] = {bytes};
}

void SimulatedContext::unmap(DevicePtr pointer, size_t bytes) {
  const Inside here(mutex_);
  enter_outside_capture("unmap");
  const auto found = mapped_.find(pointer);
  require(found != mapped_.end() && found->second.second == bytes, ErrorCode::kDevice, "cuda",
          "unmap: not mapped so");
  require(pending() == 0, ErrorCode::kDevice, "cuda", "unmap: {} operations are still to come", pending());
  if (destroyed_.erase(found->second.first) > 0) used_bytes_ -= bytes;
  mapped_.erase(found);
  live_.erase(pointer);
  UnwrittenBytes::all().remove(pointer, bytes);
  mmap(reinterpret_cast<void*>(pointer), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

DevicePtr SimulatedContext::allocate(size_t bytes) {
  const Inside here(mutex_);
  enter_outside_capture("allocate");
  while (run_one()) continue;
  const size_t block = rounded(std::max<size_t>(bytes, 1), kAlignment);
  take("allocate", block);
  void* pointer = std::aligned_alloc(kAlignment, block);
  std::memset(pointer, device_.first_byte, block);
  live_[reinterpret_cast<DevicePtr>(pointer)] = {block};
  return reinterpret_cast<DevicePtr>(pointer);
}

void SimulatedContext::free(DevicePtr pointer) {
  const Inside here(mutex_);
  enter_outside_capture("free");
  while (run_one()) continue;
  const auto found = live_.find(pointer);
  require(found != live_.end() && !mapped_.contains(pointer), ErrorCode::kDevice, "cuda",
          "free: not allocated");
  used_bytes_ -= found->second.bytes;
  UnwrittenBytes::all().remove(pointer, found->second.bytes);
  live_.erase(found);
  std::free(reinterpret_cast<void*>(pointer));
}

DevicePtr SimulatedContext::allocate_async(size_t bytes, Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("allocate_async");
  static_cast<void>(at(stream));
  const size_t block = rounded(std::max<size_t>(bytes, 1), kAlignment);
  const auto grows = [&] { return pool_used_bytes_ + block > pool_reserved_bytes_; };
  while (grows() && run_one()) continue;  // what is to be freed serves again
  if (grows()) {
    const size_t more = rounded(pool_used_bytes_ + block - pool_reserved_bytes_, granularity());
    take("allocate_async", more);
    pool_reserved_bytes_ += more;
  }
  pool_used_bytes_ += block;
  void* pointer = std::aligned_alloc(kAlignment, block);
  std::memset(pointer, device_.first_byte, block);
  live_[reinterpret_cast<DevicePtr>(pointer)] = {block, true};
  return reinterpret_cast<DevicePtr>(pointer);
}

void SimulatedContext::free_async(DevicePtr pointer, Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("free_async");
  const auto found = live_.find(pointer);
  require(found != live_.end() && found->second.pool, ErrorCode::kDevice, "cuda",
          "free_async: not of the pool");
  const auto give = [this, pointer] {
    pool_used_bytes_ -= live_.at(pointer).bytes;
    UnwrittenBytes::all().remove(pointer, live_.at(pointer).bytes);
    live_.erase(pointer);
    std::free(reinterpret_cast<void*>(pointer));
  };
  at(stream).operations.push_back({give, {}, /*frees=*/true});
}

void SimulatedContext::pool_trim() {
  const Inside here(mutex_);
  enter("pool_trim");
  const size_t kept = rounded(pool_used_bytes_, granularity());
  used_bytes_ -= pool_reserved_bytes_ - kept;
  pool_reserved_bytes_ = kept;
}

void* SimulatedContext::allocate_pinned(size_t bytes) {
  const Inside here(mutex_);
  enter("allocate_pinned");
  const size_t block = rounded(std::max<size_t>(bytes, 1), 4096);
  void* pointer = std::aligned_alloc(4096, block);
  std::memset(pointer, device_.first_byte, block);
  pinned_[reinterpret_cast<uintptr_t>(pointer)] = block;
  return pointer;
}

void SimulatedContext::free_pinned(void* pointer) {
  const Inside here(mutex_);
  enter("free_pinned");
  const auto found = pinned_.find(reinterpret_cast<uintptr_t>(pointer));
  require(found != pinned_.end(), ErrorCode::kDevice, "cuda", "free_pinned: not page-locked");
  require(pending() == 0, ErrorCode::kDevice, "cuda", "free_pinned: {} operations are still to come",
          pending());
  pinned_.erase(found);
  std::free(pointer);
}

std::shared_ptr<Context> SimulatedDriver::open(int index) {
  require(index >= 0 && index < device_count(), ErrorCode::kUnsupported, "cuda",
          "device {} of {}, but devices are counted from 0", index, device_count());
  const SimulatedDevice& device = devices_[static_cast<size_t>(index)];
  require_served(version_, device.properties);
  return std::make_shared<SimulatedContext>(device, index);
}

}  // namespace isochron::cuda
