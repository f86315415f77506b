// Memory at named moments of a run: what our allocators hold by tag, how many objects are alive, and the
// resident set by owner; what has grown between two moments; and all of it as text, JSON and a section of a
// page. The moments are taken by whoever knows the allocators (train/callbacks/memory_watch.h).
//
// JSON: {moments: [{name, step, tags: [{tag, bytes, blocks}], live: {name: count}, resident: {total, planned,
// tensors, pool_slack, heap, heap_slack, program, generated_code, mapped_files, stacks, device,
// unexplained}}], growth: {from, to, largest: [{what, unit, before, after}]}}; all sizes in bytes. `growth`
// is between the first and the last moment, and is there for readers: it follows from the moments.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/host/resident_set.h"

namespace isochron::observe {

/// Live blocks under one tag.
struct TaggedMemory {
  std::string tag;
  int64_t bytes = 0;
  int64_t blocks = 0;
  bool operator==(const TaggedMemory&) const = default;
};

/// How many objects of one kind are alive: tensors, graph nodes, plans, tape entries, threads, file handles.
struct LiveCount {
  std::string name;
  int64_t count = 0;
  bool operator==(const LiveCount&) const = default;
};

struct MemoryMoment {
  static constexpr size_t kMaxTags = 32;  // the smallest beyond are summed as "others"

  std::string name;  // "after warm-up"
  int64_t step = 0;
  std::vector<TaggedMemory> tags = {};  // largest first
  std::vector<LiveCount> live = {};
  ResidentSet resident = {};
  bool operator==(const MemoryMoment&) const = default;
};

/// The largest `most` of `tags`, which are in order, and the sum of the others.
std::vector<TaggedMemory> largest_tags(std::vector<TaggedMemory> tags, size_t most = MemoryMoment::kMaxTags);

/// What has changed between two moments.
struct MemoryChange {
  enum class Unit { kBytes, kBlocks, kObjects };
  std::string what = {};  // "tag weights", "resident", "heap in use", "live tensors"
  Unit unit = Unit::kBytes;
  int64_t before = 0;
  int64_t after = 0;
  int64_t grown() const { return after - before; }
};

/// Every tag, part of the resident set and count that differs: bytes first, and of each unit the largest
/// growth first.
std::vector<MemoryChange> difference(const MemoryMoment& before, const MemoryMoment& after);

/// What has grown from the first to the last moment, a line each, or that nothing has (parts of the resident
/// set from 128 KiB on, for taking a moment moves the heap as well). Empty below two moments.
std::string memory_growth_text(std::span<const MemoryMoment> moments);
/// One line a tag, part and count that anything was in, one column a moment; then the growth. Empty without
/// moments.
std::string memory_text(std::span<const MemoryMoment> moments);
/// One JSON object; `indent` < 0 gives a single line.
std::string memory_json(std::span<const MemoryMoment> moments, int indent = 2);
/// The inverse. Throws kBadFormat, naming `where`, for anything else.
std::vector<MemoryMoment> memory_from_json(std::string_view text, std::string_view where);
/// The same for a page (page.h), in its classes: a bar of the last moment's resident set, and tables. Empty
/// without moments.
std::string memory_section(std::span<const MemoryMoment> moments);

}  // namespace isochron::observe
