// The independent checker: a sweep over time that keeps the live buffers by offset. It doesn't use the
// planner.
#include <algorithm>
#include <bit>
#include <map>

#include "isochron/core/base/checked.h"
#include "isochron/memory/planner/planner.h"

namespace isochron {
namespace {

struct Moment {
  int64_t time;
  bool start;  // at equal times, ends come before starts
  size_t buffer;
};

[[noreturn]] void report_overlap(std::span<const BufferRequest> requests, const MemoryPlan& plan, size_t a,
                                 size_t b) {
  fail(ErrorCode::kInvalidArgument, "check_plan",
       "buffers {} and {} overlap: [{}, {}) at bytes [{}, {}) and [{}, {}) at bytes [{}, {})", a, b,
       requests[a].lower, requests[a].upper, plan.offsets[a], plan.offsets[a] + requests[a].size_bytes,
       requests[b].lower, requests[b].upper, plan.offsets[b], plan.offsets[b] + requests[b].size_bytes);
}

}  // namespace

void check_plan(std::span<const BufferRequest> requests, const MemoryPlan& plan, size_t alignment) {
  require(plan.offsets.size() == requests.size(), ErrorCode::kInvalidArgument, "check_plan",
          "{} offsets for {} buffers", plan.offsets.size(), requests.size());
  std::vector<Moment> moments;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].size_bytes == 0) continue;
    require(plan.offsets[i] % alignment == 0, ErrorCode::kInvalidArgument, "check_plan",
            "buffer {} lies at byte {}, which is not a multiple of {}", i, plan.offsets[i], alignment);
    require(checked_add(plan.offsets[i], requests[i].size_bytes) <= plan.arena_bytes,
            ErrorCode::kInvalidArgument, "check_plan",
            "buffer {} of {} bytes at byte {} leaves the arena of {} bytes", i, requests[i].size_bytes,
            plan.offsets[i], plan.arena_bytes);
    moments.push_back({requests[i].lower, true, i});
    moments.push_back({requests[i].upper, false, i});
  }
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::tuple(a.time, a.start, a.buffer) < std::tuple(b.time, b.start, b.buffer);
  });
  std::map<size_t, size_t> live;  // buffer by offset
  for (const Moment& moment : moments) {
    const size_t offset = plan.offsets[moment.buffer];
    if (!moment.start) {
      live.erase(offset);
      continue;
    }
    const auto [position, inserted] = live.emplace(offset, moment.buffer);
    if (!inserted) report_overlap(requests, plan, position->second, moment.buffer);
    if (const auto next = std::next(position);
        next != live.end() && offset + requests[moment.buffer].size_bytes > next->first) {
      report_overlap(requests, plan, moment.buffer, next->second);
    }
    if (position != live.begin()) {
      const size_t before = std::prev(position)->second;
      if (plan.offsets[before] + requests[before].size_bytes > offset) {
        report_overlap(requests, plan, before, moment.buffer);
      }
    }
  }
}

}  // namespace isochron
