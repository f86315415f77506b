// Batches that are copied while steps run, on a simulated device that runs its streams in any allowed order.
#include "isochron/memory/cuda/transfer_ring.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "isochron/core/base/error.h"
#include "support/expect_error.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

class NoCompiler final : public Compiler {
 public:
  int version() override { return 13000; }
  std::vector<char> compile(const std::string&, const std::string&, int, int, bool) override { return {}; }
};

struct RingDevice {
  explicit RingDevice(const SimulatedDevice& device = {})
      : context(std::make_shared<SimulatedContext>(device)), gpu(Gpu::create(context, {&compiler})) {
    // What a step does: adds the batch's two parts to its sums.
    context->add_kernel("add", {sizeof(void*), sizeof(void*), sizeof(void*), sizeof(int)},
                        [](const LaunchSize&, std::span<void* const> arguments) {
                          const auto* a = *static_cast<const int32_t**>(arguments[0]);
                          const auto* b = *static_cast<const int64_t**>(arguments[1]);
                          auto* sums = *static_cast<int64_t**>(arguments[2]);
                          sums[*static_cast<int*>(arguments[3])] += 1000 * a[0] + a[2] + b[0];
                        });
    const std::string image = "add";
    add = context->function(context->load({image.data(), image.size()}), "add");
  }
  void step(std::byte* a, std::byte* b, std::byte* sums, int index) {
    void* arguments[] = {&a, &b, &sums, &index};
    context->launch(add, {}, arguments, gpu->stream());
  }

  NoCompiler compiler;
  std::shared_ptr<SimulatedContext> context;
  std::shared_ptr<Gpu> gpu;
  Function add{};
};

constexpr size_t kParts[] = {3 * sizeof(int32_t), sizeof(int64_t)};
constexpr int kBatches = 40;

TEST(TransferRing, EachStepFindsItsBatch) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDevice properties;
    properties.seed = seed;
    RingDevice device(properties);
    TransferRing ring(device.gpu, kParts);
    const Ref<Storage> sums = device.gpu->allocate(kBatches * sizeof(int64_t), "sums");
    device.context->fill(reinterpret_cast<uintptr_t>(sums->data()), 0, sums->size_bytes(),
                         device.gpu->stream());
    int32_t a[3];  // overwritten as soon as a batch has been taken
    int64_t b;
    for (int i = 0; i < kBatches; ++i) {
      a[0] = a[1] = a[2] = i;
      b = 1'000'000 * i;
      const std::byte* parts[] = {reinterpret_cast<const std::byte*>(a),
                                  reinterpret_cast<const std::byte*>(&b)};
      const auto there = ring.begin(parts);
      device.step(there[0], there[1], sums->data(), i);
      ring.end();
    }
    std::vector<int64_t> got(kBatches);
    sums->read(0, reinterpret_cast<std::byte*>(got.data()), sums->size_bytes());
    for (int i = 0; i < kBatches; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 1'001'001 * i) << seed;
    EXPECT_EQ(device.context->calls("copy_to_device"), kBatches) << "one copy for both parts";
    EXPECT_EQ(ring.stats().transfers, kBatches - 2);
    EXPECT_LE(ring.stats().exposed_ns, ring.stats().copy_ns);
    EXPECT_GT(ring.stats().bytes, 0);
  }
}

TEST(TransferRing, TheHostRunsAheadByItsSlotsAlone) {
  RingDevice device;
  TransferRing ring(device.gpu, kParts);
  const Ref<Storage> sums = device.gpu->allocate(kBatches * sizeof(int64_t), "sums");
  const std::byte nothing[16] = {};
  const std::byte* parts[] = {nothing, nothing};
  size_t most = 0;
  for (int i = 0; i < kBatches; ++i) {
    const auto there = ring.begin(parts);
    device.step(there[0], there[1], sums->data(), i);
    ring.end();
    most = std::max(most, device.context->pending());
  }
  // Of each batch: two records and a copy, a wait, a step and its record.
  EXPECT_LE(most, 6 * (TransferRing::kSlots + 1));
}

/// Sums of kBatches batches whose large part lies in one of two blocks in turn, each of which is waited for
/// before it is written again, or not.
std::vector<int64_t> sums_from_blocks(uint64_t seed, bool waits) {
  SimulatedDevice properties;
  properties.seed = seed;
  RingDevice device(properties);
  const size_t bytes[] = {64 << 10, sizeof(int64_t)};
  TransferRing ring(device.gpu, bytes);
  const int64_t before = device.gpu->pinned_bytes();
  PinnedBlock blocks[] = {{device.gpu, 80 << 10}, {device.gpu, 80 << 10}};
  EXPECT_EQ(device.gpu->pinned_bytes(), before + (160 << 10));
  const Ref<Storage> sums = device.gpu->allocate(kBatches * sizeof(int64_t), "sums");
  device.context->forget_calls();
  for (int i = 0; i < kBatches; ++i) {
    PinnedBlock& block = blocks[i % 2];
    if (waits) block.wait();
    auto* a = reinterpret_cast<int32_t*>(block.data() + (16 << 10));
    a[0] = a[1] = a[2] = i;
    int64_t b = 1'000'000 * i;
    const std::byte* parts[] = {reinterpret_cast<const std::byte*>(a),
                                reinterpret_cast<const std::byte*>(&b)};
    device.context->fill(reinterpret_cast<uintptr_t>(sums->data()) + i * sizeof(int64_t), 0, sizeof(int64_t),
                         device.gpu->stream());
    const auto there = ring.begin(parts);
    b = -1;
    device.step(there[0], there[1], sums->data(), i);
    ring.end();
  }
  EXPECT_EQ(device.context->calls("copy_to_device"), 2 * kBatches);
  std::vector<int64_t> got(kBatches);
  sums->read(0, reinterpret_cast<std::byte*>(got.data()), sums->size_bytes());
  return got;
}

TEST(TransferRing, CopiesLargePartsFromBlocksThatAreWaitedFor) {
  std::vector<int64_t> expected;
  for (int i = 0; i < kBatches; ++i) expected.push_back(1'001'001 * i);
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(sums_from_blocks(seed, true), expected) << seed;
    wrong += sums_from_blocks(seed, false) != expected;
  }
  EXPECT_GT(wrong, 0) << "copies that nobody waits for are seen to be late";
}

TEST(PinnedBlock, IsFoundByItsBytes) {
  const RingDevice device, other;
  const PinnedBlock block(device.gpu, 100);
  EXPECT_EQ(PinnedBlock::holding(block.data(), 100, *device.gpu), &block);
  EXPECT_EQ(PinnedBlock::holding(block.data() + 99, 1, *device.gpu), &block);
  EXPECT_EQ(PinnedBlock::holding(block.data() + 99, 2, *device.gpu), nullptr);
  EXPECT_EQ(PinnedBlock::holding(block.data() - 1, 1, *device.gpu), nullptr);
  EXPECT_EQ(PinnedBlock::holding(block.data(), 100, *other.gpu), nullptr);
}

TEST(PinnedBlock, WaitsForTheCopiesOfAllStreams) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDevice properties;
    properties.seed = seed;
    const RingDevice device(properties);
    PinnedBlock block(device.gpu, sizeof(int32_t));
    const Stream streams[] = {device.context->create_stream(false), device.context->create_stream(false)};
    const Ref<Storage> to[] = {device.gpu->allocate(sizeof(int32_t), "a"),
                               device.gpu->allocate(sizeof(int32_t), "b")};
    device.gpu->synchronize();
    auto* number = reinterpret_cast<int32_t*>(block.data());
    *number = 7;
    for (int i = 0; i < 2; ++i) {
      device.context->copy_to_device(reinterpret_cast<uintptr_t>(to[i]->data()), number, sizeof(int32_t),
                                     streams[i]);
      block.note_copies(streams[i]);
    }
    block.wait();
    *number = 8;
    for (int i = 0; i < 2; ++i) {
      device.context->synchronize(streams[i]);
      int32_t got = 0;
      to[i]->read(0, reinterpret_cast<std::byte*>(&got), sizeof got);
      EXPECT_EQ(got, 7) << i << " " << seed;
      device.context->destroy(streams[i]);
    }
  }
}

TEST(PinnedBlock, WhatFailsGivesAllBack) {
  const RingDevice device;
  device.context->fail("allocate_pinned", 1, ErrorCode::kOutOfMemory);
  EXPECT_ERROR(PinnedBlock(device.gpu, 64), ErrorCode::kOutOfMemory, "");
  EXPECT_EQ(device.gpu->pinned_bytes(), 0);
}

TEST(TransferRing, PartsThatAreThereAreLeftOut) {
  RingDevice device;
  TransferRing ring(device.gpu, kParts);
  const int64_t b = 7;
  const std::byte* parts[] = {nullptr, reinterpret_cast<const std::byte*>(&b)};
  const auto there = ring.begin(parts);
  ring.end();
  int64_t got = 0;
  device.context->copy_to_host(&got, reinterpret_cast<uintptr_t>(there[1]), sizeof got, device.gpu->stream());
  device.gpu->synchronize();
  EXPECT_EQ(got, 7);
  const std::byte* none[] = {nullptr, nullptr};
  ring.begin(none);
  ring.end();
  EXPECT_EQ(device.context->calls("copy_to_device"), 1);
  EXPECT_ERROR(ring.begin({parts, 1}), ErrorCode::kInvalidArgument, "a batch of 1 parts, expected 2");
}

/// A page that records, on its first read, how often a context was asked to record an event until then.
class WatchedPage {
 public:
  explicit WatchedPage(SimulatedContext& context) {
    watched_ = &context;
    records_ = -1;
    page_ = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* fault, void*) {
      records_ = watched_->calls("record");
      const uintptr_t address = reinterpret_cast<uintptr_t>(fault->si_addr) & ~(kBytes - 1);
      if (::mprotect(reinterpret_cast<void*>(address), kBytes, PROT_READ) != 0) std::abort();
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~WatchedPage() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(page_, kBytes);
  }
  const std::byte* data() const { return static_cast<const std::byte*>(page_); }
  /// The count before the first read; -1 until then.
  static int64_t records() { return records_; }

 private:
  static constexpr uintptr_t kBytes = 4096;
  static inline SimulatedContext* watched_ = nullptr;
  static inline int64_t records_ = -1;
  void* page_;
  struct sigaction before_ = {};
};

TEST(TransferRing, ACopysTimeBeginsBehindTheHostsOwn) {
  RingDevice device;
  TransferRing ring(device.gpu, kParts);
  device.context->forget_calls();
  const WatchedPage page(*device.context);
  const int32_t a[3] = {};
  const std::byte* parts[] = {reinterpret_cast<const std::byte*>(a), page.data()};
  ring.begin(parts);
  ring.end();
  EXPECT_EQ(WatchedPage::records(), 0) << "the mark at which a copy begins was set before";
}

TEST(TransferRing, NothingIsTakenOnceItIsMade) {
  RingDevice device;
  TransferRing ring(device.gpu, kParts);
  device.context->forget_calls();
  const std::byte nothing[16] = {};
  const std::byte* parts[] = {nothing, nothing};
  for (int i = 0; i < 10; ++i) {
    ring.begin(parts);
    ring.end();
  }
  for (const char* call : {"allocate", "allocate_pinned", "create", "map", "create_event", "create_stream"})
    EXPECT_EQ(device.context->calls(call), 0) << call;
}

TEST(TransferRing, WhatFailsGivesAllBack) {
  for (const char* call : {"allocate_pinned", "create_event"}) {
    for (int number = 1; number <= 2; ++number) {
      RingDevice device;
      const size_t used = device.gpu->pool().stats().in_use_bytes;
      device.context->fail(call, number, ErrorCode::kOutOfMemory);
      EXPECT_ERROR(TransferRing(device.gpu, kParts), ErrorCode::kOutOfMemory, "");
      EXPECT_EQ(device.gpu->pool().stats().in_use_bytes, used);
      const TransferRing again(device.gpu, kParts);
    }
  }
}

TEST(TransferRing, AFailedCopyLeavesTheRingUsable) {
  RingDevice device;
  TransferRing ring(device.gpu, kParts);
  const std::byte nothing[16] = {};
  const std::byte* parts[] = {nothing, nothing};
  device.context->fail("copy_to_device", 1, ErrorCode::kDevice);
  EXPECT_ERROR(ring.begin(parts), ErrorCode::kDevice, "");
  for (int i = 0; i < 5; ++i) {
    ring.begin(parts);
    ring.end();
  }
  EXPECT_EQ(ring.stats().transfers, 3);
}

}  // namespace
}  // namespace isochron::cuda
