// Adaptors: allocators that add one thing to another allocator. They may be stacked in any order; each keeps
// a reference to the one below (its upstream), which must outlive it. Statistics are the upstream's.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <ostream>
#include <unordered_map>

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

/// The common base of all adaptors: passes everything through.
class AllocatorAdaptor : public Allocator {
 public:
  explicit AllocatorAdaptor(Allocator& upstream) : upstream_(upstream) {}
  size_t trim() override { return upstream_.trim(); }
  AllocatorStats stats() const override { return upstream_.stats(); }
  std::vector<TagUsage> usage_by_tag() const override { return upstream_.usage_by_tag(); }

 protected:
  Allocator& upstream_;
};

/// Keeps bytes and counts by full tag, over any upstream, and adds them to out-of-memory errors that lack
/// them.
class TrackingAllocator final : public AllocatorAdaptor {
 public:
  using AllocatorAdaptor::AllocatorAdaptor;
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  std::vector<TagUsage> usage_by_tag() const override;

 private:
  using Tags = std::map<std::string, TagUsage, std::less<>>;
  mutable std::mutex mutex_;
  Tags tags_;
  std::unordered_map<void*, Tags::iterator> live_;
};

/// Allows at most `limit_bytes` requested bytes to be live at once.
class LimitingAllocator : public AllocatorAdaptor {
 public:
  LimitingAllocator(Allocator& upstream, size_t limit_bytes)
      : AllocatorAdaptor(upstream), limit_bytes_(limit_bytes) {}
  /// Throws kOutOfMemory beyond the limit; otherwise throws like the upstream.
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// Counts bytes that were allocated elsewhere. Throws like `allocate`; then nothing has changed.
  void claim(size_t bytes, std::string_view tag);
  /// Like `claim`, but returns false beyond the limit.
  bool try_claim(size_t bytes) noexcept;
  void release(size_t bytes) noexcept { live_bytes_ -= bytes; }
  size_t limit_bytes() const { return limit_bytes_; }
  /// Applies to later allocations; live allocations stay.
  void set_limit_bytes(size_t bytes) { limit_bytes_ = bytes; }
  size_t live_bytes() const { return live_bytes_; }

 protected:
  /// Throws the kOutOfMemory of a request beyond the limit.
  [[noreturn]] virtual void refuse(size_t bytes, std::string_view tag) const;

 private:
  std::atomic<size_t> limit_bytes_;
  std::atomic<size_t> live_bytes_{0};
};

/// Fails only the N-th allocation, counted from 1. For tests that are run for every N.
class FailingAllocator final : public AllocatorAdaptor {
 public:
  FailingAllocator(Allocator& upstream, int64_t failing) : AllocatorAdaptor(upstream), failing_(failing) {}
  /// Throws kOutOfMemory at the N-th call; otherwise throws like the upstream.
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override { upstream_.deallocate(pointer, bytes); }
  /// Whether the N-th allocation has been requested.
  bool failed() const { return calls_ >= failing_; }

 private:
  const int64_t failing_;
  std::atomic<int64_t> calls_{0};
};

/// Writes one CSV row for each call: sequence,op,bytes,tag,address_id. `op` is allocate, deallocate or fail.
/// An address keeps its id until it is given back, so that logs of equal runs are equal. After `max_rows`
/// rows, rows are counted as dropped instead. `out` must outlive the adaptor.
class LoggingAllocator final : public AllocatorAdaptor {
 public:
  static constexpr int64_t kDefaultMaxRows = 1'000'000;
  LoggingAllocator(Allocator& upstream, std::ostream& out, int64_t max_rows = kDefaultMaxRows);
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;

 private:
  struct Live {
    int64_t id;
    std::string tag;
  };
  void write_row(std::string_view op, size_t bytes, std::string_view tag, int64_t id);

  std::ostream& out_;
  const int64_t max_rows_;
  std::mutex mutex_;
  int64_t rows_ = 0;
  int64_t ids_ = 0;
  std::unordered_map<void*, Live> live_;
};

}  // namespace isochron
