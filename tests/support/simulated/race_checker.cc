#include "support/simulated/race_checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace isochron {

void RaceChecker::begin(std::pair<uintptr_t, uintptr_t> shared) {
  shared_ = shared;
  ++launch_;
  if (pages_.size() > kMaxPages) {
    pages_.clear();
    newest_ = UINTPTR_MAX;
  }
  arrivals_.clear();
  found_.clear();
}

void RaceChecker::access(uintptr_t at, unsigned bytes, unsigned kind, unsigned block, unsigned thread,
                         unsigned phase) {
  if (kind == kArrival) {
    arrivals_[block] = phase;
    return;
  }
  if (kind == kShared) {
    for (uintptr_t byte = at; byte < at + bytes && !cell_of(byte).is_shared; ++byte)
      cell_of(byte).is_shared = true;
    return;
  }
  bool is_written = true;
  for (uintptr_t byte = at; byte < at + bytes; ++byte) {
    Cell& cell = cell_of(byte);
    is_written &= cell.is_written;
    cell.is_written = true;
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
    if (shared) {
      if (kind == kWrite) cell.blocks.writer = block;
      if (cell.is_shared && cell.blocks.writer != block) report_unwritten(thread, block, at);
      continue;
    }
    if (kind == kWrite && all_arrived(cell, block)) cell.blocks.reader = kNone;
    note(cell.blocks, block, kind == kWrite, "blocks", byte);
    if (kind == kWrite) continue;
    if (cell.readers.empty() || cell.readers.back().first != block) cell.readers.emplace_back(block, phase);
    cell.readers.back().second = phase;
  }
  if (is_written) return;
  if (kind == kWrite) {
    UnwrittenBytes::all().remove(at, bytes);
  } else if (UnwrittenBytes::all().any(at, bytes)) {
    report_unwritten(thread, block, at);
  }
}

void RaceChecker::report_unwritten(unsigned thread, unsigned block, uintptr_t at) {
  if (!found_.empty()) return;
  found_ = fmt::format("thread {} of block {} reads {:#x}, which nothing has written", thread, block, at);
}

RaceChecker::Cell& RaceChecker::cell_of(uintptr_t byte) {
  if (byte / kPageBytes != newest_) {
    newest_ = byte / kPageBytes;
    std::unique_ptr<Page>& page = pages_[newest_];
    if (page == nullptr) page = std::make_unique<Page>();
    newest_page_ = page.get();
  }
  Cell& cell = (*newest_page_)[byte % kPageBytes];
  if (cell.launch != launch_) {
    std::vector<std::pair<unsigned, unsigned>> readers = std::move(cell.readers);
    readers.clear();
    cell = {.launch = launch_, .readers = std::move(readers)};
  }
  return cell;
}

bool RaceChecker::all_arrived(const Cell& cell, unsigned block) const {
  return arrivals_.contains(block) && std::ranges::all_of(cell.readers, [&](const auto& reader) {
           const auto arrival = arrivals_.find(reader.first);
           return reader.first == block || (arrival != arrivals_.end() && arrival->second > reader.second);
         });
}

void RaceChecker::note(Users& users, int64_t who, bool write, const char* what, uintptr_t at) {
  const auto other = [&](int64_t user) { return user != kNone && user != who; };
  if (other(users.writer) || (write && other(users.reader)))
    report(what, other(users.writer) ? users.writer : users.reader, who, write, at);
  if (write) {
    users.writer = who;
  } else if (users.reader != who) {
    users.reader = users.reader == kNone ? who : kMany;
  }
}

void RaceChecker::report(const char* what, int64_t before, int64_t who, bool write, uintptr_t at) {
  if (!found_.empty()) return;
  found_ = fmt::format("{} {} and {} {} {:#x} with nothing between that puts them in order", what, before,
                       who, write ? "write to" : "read from", at);
}

}  // namespace isochron
