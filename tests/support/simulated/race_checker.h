// Finds data races: memory accesses by threads of a kernel whose order isn't defined, for example because a
// barrier is missing. Also finds reads of uninitialized memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace isochron {

/// Bytes of simulated devices that nothing has written since they were filled with 0xFF. Checks of kernels
/// fill memory around tensors, results and workspaces this way (backends/device_checks.h).
class UnwrittenBytes {
 public:
  static UnwrittenBytes& all() {
    static UnwrittenBytes bytes;
    return bytes;
  }
  void add(uintptr_t at, size_t bytes) {
    std::lock_guard lock(mutex_);
    cut(at, at + bytes);
    if (bytes > 0) ends_[at] = at + bytes;
  }
  void remove(uintptr_t at, size_t bytes) {
    std::lock_guard lock(mutex_);
    cut(at, at + bytes);
  }
  bool any(uintptr_t at, size_t bytes) const {
    std::lock_guard lock(mutex_);
    const auto behind = ends_.lower_bound(at + bytes);
    return behind != ends_.begin() && std::prev(behind)->second > at;
  }

 private:
  void cut(uintptr_t begin, uintptr_t end) {
    auto range = ends_.lower_bound(begin);
    if (range != ends_.begin() && std::prev(range)->second > begin) --range;
    while (range != ends_.end() && range->first < end) {
      const auto [first, last] = *range;
      range = ends_.erase(range);
      if (first < begin) ends_[first] = begin;
      if (last > end) range = ends_.emplace(end, last).first;
    }
  }

  mutable std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;  // by where they begin
};

class RaceChecker {
 public:
  enum Kind : unsigned {
    kRead,
    kWrite,
    kVolatileRead,  // of what blocks leave for the last of them
    kArrival,       // the block says that what it leaves is there
    kShared,        // a block begins with this memory of its own, which nothing has written
  };
  /// Begins a launch. Each block has its own copy of the memory in [shared.first, shared.second).
  void begin(std::pair<uintptr_t, uintptr_t> shared);
  /// `phase`: of one block, from a barrier to the next; they grow.
  void access(uintptr_t at, unsigned bytes, unsigned kind, unsigned block, unsigned thread, unsigned phase);
  /// The first race of the launch; empty: there is none.
  const std::string& found() const { return found_; }

 private:
  static constexpr int64_t kNone = -1, kMany = -2;
  struct Users {
    int64_t writer = kNone, reader = kNone;
  };
  struct Cell {                       // of a byte
    unsigned launch = 0;              // what it tells of
    unsigned phase = 0, written = 0;  // the last of all, and of writes
    bool is_written = false;          // for sure, by this launch or what came before
    bool is_shared = false;           // of each block; `blocks` has the last that has written then
    Users threads{}, blocks{};
    std::vector<std::pair<unsigned, unsigned>> readers{};  // blocks, with the last phase in which each read
  };
  static constexpr size_t kPageBytes = 256, kMaxPages = 4096;
  using Page = std::array<Cell, kPageBytes>;

  /// The cell of a byte, reset if this launch hasn't used it yet.
  Cell& cell_of(uintptr_t byte);
  /// Whether every other block that has read a cell had arrived when `block` did.
  bool all_arrived(const Cell& cell, unsigned block) const;
  void note(Users& users, int64_t who, bool write, const char* what, uintptr_t at);
  void report_unwritten(unsigned thread, unsigned block, uintptr_t at);
  void report(const char* what, int64_t before, int64_t who, bool write, uintptr_t at);

  std::pair<uintptr_t, uintptr_t> shared_;
  unsigned launch_ = 0;
  std::unordered_map<unsigned, unsigned> arrivals_;  // phases by block
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t newest_ = UINTPTR_MAX;  // the page that was asked for last
  Page* newest_page_ = nullptr;
  std::string found_;
};

}  // namespace isochron
