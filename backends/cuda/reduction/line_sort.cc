#include "isochron/backends/cuda/reduction/line_sort.h"

#include <algorithm>
#include <bit>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/core/base/checked.h"

namespace isochron::ops {
namespace {

using element::kSortThreads;
using element::kSortTile;

/// Text of lambdas for a kernel's body.
std::string store_text(const LineSort& sort, std::string_view statement) {
  return fmt::format("[&](unsigned long long line, unsigned long long place, {} entry) {{ {} }}",
                     sort.entry(), statement);
}
std::string load_text(const LineSort& sort) {
  return fmt::format("[&](unsigned long long line, unsigned long long place) -> {} {{ return {}; }}",
                     sort.entry(), sort.load);
}

}  // namespace

void add_line_sort(LaunchKernel& kernel, const graph::KernelRequest& request, const LineSort& sort,
                   size_t workspace_from) {
  constexpr int64_t kMinElems = 2 * kSortThreads;  // of a block
  if (sort.lines == 0 || sort.kept == 0) return;
  const std::string lines = fmt::format("constexpr SortedLines s = {{{}ull, {}u, {}u}};", sort.lines,
                                        counted(request, sort.count), counted(request, sort.kept));
  const int64_t size =
      std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sort.count))), kSortTile);
  const int64_t elems = std::max(size, kMinElems), tiles = (sort.count + size - 1) / size;
  const size_t bytes = checked_mul(static_cast<size_t>(sort.lines),
                                   checked_mul(static_cast<size_t>(sort.count), sort.entry_bytes()));
  const auto buffer = [&](bool other) {
    return fmt::format("reinterpret_cast<{}*>(static_cast<char*>(workspace) + {}ull)", sort.entry(),
                       workspace_from + (other ? bytes : 0));
  };
  const auto keep_in = [&](bool other) {
    return fmt::format("{}[line * s.count + place] = entry;", buffer(other));
  };
  request.module->add_shared(std::string(backends::texts::kSort));
  kernel.add(
      request,
      fmt::format("// threads meet\n  {}\n  sort_tiles<{}, {}, {}>(s, {}, {});", lines, size, elems,
                  sort.entry(), load_text(sort), store_text(sort, tiles == 1 ? sort.store : keep_in(false))),
      row_of_blocks(request, (sort.lines * tiles + elems / size - 1) / (elems / size), kSortThreads));
  bool turn = false;  // which buffer holds the runs
  for (int64_t run = kSortTile; run < sort.count; run *= 2) {
    const int64_t pairs = (sort.count + 2 * run - 1) / (2 * run);
    const int64_t tiles_each = (std::min(sort.kept, 2 * run) + kSortTile - 1) / kSortTile;
    kernel.add(request,
               fmt::format("// threads meet\n  {}\n  merge_runs<{}>(s, {}ull, {}, {});", lines, sort.entry(),
                           run, buffer(turn), store_text(sort, pairs == 1 ? sort.store : keep_in(!turn))),
               row_of_blocks(request, sort.lines * pairs * tiles_each, kSortThreads));
    if (pairs > 1) turn = !turn;
    kernel.need_workspace(workspace_from + bytes * (sort.count > 2 * kSortTile ? 2 : 1));
  }
}

}  // namespace isochron::ops
