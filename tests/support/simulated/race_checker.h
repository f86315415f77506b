// Finds accesses of memory by threads of a kernel that nothing puts in an order, as a barrier is missing, and
// reads of what nothing has written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isochron/core/base/error.h"

namespace isochron {

/// Bytes of simulated devices that nothing has written since they were filled with 0xFF, as checks of kernels
/// do with what lies beside tensors, and with results and workspaces (backends/device_checks.h).
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
  };
  /// A launch begins. What lies in [shared.first, shared.second) each block has for itself.
  void begin(std::pair<uintptr_t, uintptr_t> shared) {
    shared_ = shared;
    cells_.clear();
    arrivals_.clear();
    found_.clear();
  }
  /// `phase`: of one block, from a barrier to the next; they grow.
  void access(uintptr_t at, unsigned bytes, unsigned kind, unsigned block, unsigned thread, unsigned phase) {
    if (kind == kArrival) arrivals_[block] = phase;
    if (kind == kWrite) UnwrittenBytes::all().remove(at, bytes);
    if ((kind == kRead || kind == kVolatileRead) && found_.empty() && UnwrittenBytes::all().any(at, bytes))
      found_ = fmt::format("thread {} of block {} reads {:#x}, which nothing has written", thread, block, at);
    for (uintptr_t byte = at; kind != kArrival && byte < at + bytes; ++byte) {
      Cell& cell = cells_[byte];
      const bool shared = byte >= shared_.first && byte < shared_.second;
      if (kind == kVolatileRead && !shared && cell.blocks.writer != block) {
        const auto arrival = arrivals_.find(static_cast<unsigned>(cell.blocks.writer));
        if (arrival == arrivals_.end() || arrival->second <= cell.written)
          report("blocks", cell.blocks.writer, block, false, byte);
        continue;
      }
      if (cell.phase != phase) cell.threads = {};
      cell.phase = phase;
      if (kind == kWrite) cell.written = phase;
      note(cell.threads, thread, kind == kWrite, "threads", byte);
      if (shared) continue;
      if (kind == kWrite && all_arrived(cell, block)) cell.blocks.reader = kNone;
      note(cell.blocks, block, kind == kWrite, "blocks", byte);
      if (kind == kWrite) continue;
      if (cell.readers.empty() || cell.readers.back().first != block) cell.readers.emplace_back(block, phase);
      cell.readers.back().second = phase;
    }
  }
  /// The first race of the launch; empty: there is none.
  const std::string& found() const { return found_; }

 private:
  static constexpr int64_t kNone = -1, kMany = -2;
  struct Users {
    int64_t writer = kNone, reader = kNone;
  };
  struct Cell {
    unsigned phase = 0, written = 0;  // the last of all, and of writes
    Users threads, blocks;
    std::vector<std::pair<unsigned, unsigned>> readers;  // blocks, with the last phase in which each read
  };

  /// Whether every other block that has read a cell had arrived when `block` did.
  bool all_arrived(const Cell& cell, unsigned block) const {
    return arrivals_.contains(block) && std::ranges::all_of(cell.readers, [&](const auto& reader) {
             const auto arrival = arrivals_.find(reader.first);
             return reader.first == block || (arrival != arrivals_.end() && arrival->second > reader.second);
           });
  }

  void note(Users& users, int64_t who, bool write, const char* what, uintptr_t at) {
    const auto other = [&](int64_t user) { return user != kNone && user != who; };
    if (other(users.writer) || (write && other(users.reader)))
      report(what, other(users.writer) ? users.writer : users.reader, who, write, at);
    if (write) {
      users.writer = who;
    } else if (users.reader != who) {
      users.reader = users.reader == kNone ? who : kMany;
    }
  }

  void report(const char* what, int64_t before, int64_t who, bool write, uintptr_t at) {
    if (!found_.empty()) return;
    found_ = fmt::format("{} {} and {} {} {:#x} with nothing between that puts them in order", what, before,
                         who, write ? "write to" : "read from", at);
  }

  std::pair<uintptr_t, uintptr_t> shared_;
  std::unordered_map<unsigned, unsigned> arrivals_;  // phases by block
  std::unordered_map<uintptr_t, Cell> cells_;
  std::string found_;
};

}  // namespace isochron
