#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "causes/models.h"
#include "causes/planted.h"
#include "causes/played_machine.h"
#include "isochron/core/base/error.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kHeapFragments = "host heap fragmentation";
constexpr std::string_view kDeviceFragments = "device fragmentation";
constexpr std::string_view kRetries = "retries near the memory limit";
constexpr std::string_view kPinned = "pinned pool growth";
constexpr std::string_view kFaults = "page faults";
constexpr std::string_view kSwapping = "swapping";
constexpr std::string_view kAllocations = "system allocations in each step";

/// Keeps a small table in each step, aligned to 64 KiB: the gap that malloc leaves before each is too small
/// for the next.
RunReport heap_in_holes() {
  Regression problem(1024, 32, 64);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<void*> tables;
  RunReport report = run_loop(
      [&](Recorder& recorder, int64_t) {
        {
          const PhaseScope compute(recorder, Phase::kCompute);
          step(problem.x, problem.y);
        }
        tables.push_back(std::aligned_alloc(size_t{64} << 10, 256));
      },
      {.warmup = 20, .least = 1500, .seconds = 0.25, .most = 4000});
  for (void* table : tables) std::free(table);
  return report;
}

/// Tensors of growing length from a pool; a small tensor is kept after each. Reserved memory grows, but used
/// memory hardly does.
RunReport pool_in_holes() {
  PoolAllocator pool({.initial_bytes = size_t{1} << 16, .max_chunk_bytes = size_t{1} << 18});
  std::vector<void*> stay;
  RunReport report = run_loop(
      [&](Recorder& recorder, int64_t i) {
        const PhaseScope compute(recorder, Phase::kCompute);
        const size_t bytes = static_cast<size_t>(20'000 + 64 * i);
        std::array<void*, 4> activations{};
        for (void*& activation : activations) {
          activation = pool.allocate(bytes, "activation");
          std::memset(activation, 0, bytes);
          stay.push_back(pool.allocate(64, "label"));
        }
        for (void* activation : activations) pool.deallocate(activation, bytes);
      },
      {.warmup = 20, .least = 600, .seconds = 0.1, .most = 3000});
  for (void* block : stay) pool.deallocate(block, 64);
  return report;
}

RunReport device_in_holes() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.device_in_use_bytes = int64_t{2} << 30;
    reading.device_reserved_bytes = static_cast<int64_t>((2.5 + 4 * part) * 0x1p30);
  });
  return machine.run();
}
RunReport device_crumbs() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.device_in_use_bytes = int64_t{4} << 30;
    reading.device_reserved_bytes = int64_t{8} << 30;
    reading.device_retries = static_cast<int64_t>(2000 * part);
  });
  return machine.run();
}
RunReport device_full() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.device_in_use_bytes = int64_t{78} << 30;
    reading.device_reserved_bytes = int64_t{80} << 30;
    reading.device_retries = static_cast<int64_t>(800 * part);
  });
  return machine.run();
}
RunReport pinned_grows() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.pinned_bytes = static_cast<int64_t>((0.1 + part) * 0x1p30);
  });
  return machine.run();
}

/// A pool with a limit that every other batch exceeds: it is given free memory back, and takes two halves.
RunReport pool_near_its_limit() {
  PoolAllocator pool({.initial_bytes = size_t{1} << 16, .max_bytes = 1'000'000});
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        const PhaseScope compute(recorder, Phase::kCompute);
        size_t bytes = i % 2 == 0 ? 700'000 : 1'100'000;
        void* batch = nullptr;
        try {
          batch = pool.allocate(bytes, "batch");
        } catch (const Error&) {
          pool.trim();
          bytes /= 2;
          batch = pool.allocate(bytes, "batch");
        }
        std::memset(batch, 1, bytes);
        pool.deallocate(batch, bytes);
      },
      {.seconds = 0.2});
}

/// Batches are halved until they fit.
RunReport batches_halved() {
  NaiveAllocator system;
  LimitingAllocator limited(system, 100'000);
  Regression problem(2048);
  problem.train_eager(problem.x, problem.y);
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        for (int64_t rows = 2048;; rows /= 2) {
          try {
            const AllocatorScope scope(limited);
            static_cast<void>(problem.loss(narrow(problem.x, 0, 0, rows), narrow(problem.y, 0, 0, rows)));
            return;
          } catch (const Error& error) {
            if (error.code() != ErrorCode::kOutOfMemory || rows < 8) throw;
          }
        }
      },
      {.seconds = 0.2});
}

/// Maps and unmaps a buffer in every step.
RunReport mapped_each_step() {
  constexpr size_t kBytes = size_t{8} << 20;
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        void* const buffer =
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(buffer != MAP_FAILED, ErrorCode::kOutOfMemory, "mmap", "no {} bytes", kBytes);
        madvise(buffer, kBytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < kBytes; at += 4096) static_cast<char*>(buffer)[at] = 1;
        munmap(buffer, kBytes);
      },
      {.seconds = 0.3});
}

/// Allocates tensors of a few hundred KB from the system every time.
RunReport tensors_from_the_system() {
  const Tensor x = normal({300, 1000}, 7);
  NaiveAllocator naive;
  const AllocatorScope scope(naive);
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        std::array<Tensor, 6> kept;
        for (Tensor& tensor : kept) tensor = x * 2.0;
        static_cast<void>(sum(kept[5]).item<float>());
      },
      {.seconds = 0.3});
}

/// Small tensors, each allocated from the system.
RunReport small_tensors_from_the_system() {
  Regression problem(64);
  problem.train_eager(problem.x, problem.y);
  NaiveAllocator naive;
  const AllocatorScope scope(naive);
  return run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    problem.train_eager(problem.x, problem.y);
  });
}

RunReport pages_come_from_swap() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.swap_bytes = int64_t{500} << 20;
    reading.major_faults += static_cast<int64_t>(part * 20'000);
    reading.minor_faults += static_cast<int64_t>(part * 2'000'000);
  });
  return machine.run();
}
RunReport pages_go_to_swap() {
  PlayedMachine machine([](observe::SensorReading& reading, double part) {
    reading.swap_bytes = static_cast<int64_t>(part * 0x1p30);
    reading.rss_bytes = static_cast<int64_t>((2 - part) * 0x1p30);
  });
  return machine.run();
}

}  // namespace

std::vector<Planted> planted_memory() {
  return {{kHeapFragments, "small tables kept on boundaries of 64 KiB", heap_in_holes},
          {kHeapFragments, "what stays between tensors that grow, in a pool", pool_in_holes},
          {kDeviceFragments, "a device's reserved memory grows, not what is used", device_in_holes, true},
          {kDeviceFragments, "retries on a device that is half free", device_crumbs, true},
          {kRetries, "a pool near its limit", pool_near_its_limit},
          {kRetries, "batches halved until they fit", batches_halved},
          {kRetries, "retries on a device that is full", device_full, true},
          {kPinned, "page-locked memory grows", pinned_grows, true},
          {kFaults, "a buffer mapped for each step", mapped_each_step},
          {kFaults, "large tensors from the system in each step", tensors_from_the_system},
          {kAllocations, "small tensors from the system in each step", small_tensors_from_the_system},
          {kSwapping, "pages come from swap", pages_come_from_swap, true},
          {kSwapping, "pages go to swap", pages_go_to_swap, true}};
}

}  // namespace isochron::causes
