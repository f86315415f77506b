// Finds accesses of memory by threads of a kernel that nothing puts in an order: a barrier is missing.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron {

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
      if (!shared) note(cell.blocks, block, kind == kWrite, "blocks", byte);
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
  };

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
