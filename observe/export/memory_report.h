// Memory at named moments of a run: the memory of Isochron's allocators by tag, the numbers of live objects,
// and the resident set by owner. Computes the growth between two moments, and shows all of this as text, as
// JSON and as a section of a page. train/callbacks/memory_watch.h takes the moments.
//
// JSON: {moments: [{name, step, tags: [{tag, bytes, blocks}], live: {name: count}, resident: {total, planned,
// tensors, pool_slack, heap, heap_slack, program, generated_code, mapped_files, stacks, device,
// unexplained}}], growth: {from, to, largest: [{what, unit, before, after}]}}; all sizes in bytes. `growth`,
// from the first to the last moment, is there for readers only; it is computed from the moments.
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

/// The number of live objects of one kind: tensors, graph nodes, plans, tape entries, threads, file handles.
struct LiveCount {
  std::string name;
  int64_t count = 0;
  bool operator==(const LiveCount&) const = default;
};

struct MemoryMoment {
  static constexpr size_t kMaxTags = 32;  // smaller tags beyond these are summed as "others"

  std::string name;  // "after warm-up"
  int64_t step = 0;
  std::vector<TaggedMemory> tags = {};  // largest first
  std::vector<LiveCount> live = {};
  ResidentSet resident = {};
  bool operator==(const MemoryMoment&) const = default;
};

/// The first `most` of `tags`, which are sorted by size, and the sum of the others.
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

/// All tags, parts of the resident set and counts that differ. They are sorted by unit, bytes first, and then
/// by growth, largest first.
std::vector<MemoryChange> difference(const MemoryMoment& before, const MemoryMoment& after);

/// One line for each thing that has grown from the first to the last moment, or a line saying that nothing
/// has. Parts of the resident set are listed from 128 KiB on, because taking a moment changes the heap too.
/// Empty for fewer than two moments.
std::string memory_growth_text(std::span<const MemoryMoment> moments);
/// A table with one column per moment and one line per tag, part and count (those that are always 0 are left
/// out), and then the growth. Empty without moments.
std::string memory_text(std::span<const MemoryMoment> moments);
/// One JSON object; `indent` < 0 gives a single line.
std::string memory_json(std::span<const MemoryMoment> moments, int indent = 2);
/// Parses the text of memory_json. Throws kBadFormat, naming `where`, for any other text.
std::vector<MemoryMoment> memory_from_json(std::string_view text, std::string_view where);
/// A section of a page, with the CSS classes of page.h: a bar that shows the last moment's resident set, and
/// tables. Empty without moments.
std::string memory_section(std::span<const MemoryMoment> moments);

}  // namespace isochron::observe
