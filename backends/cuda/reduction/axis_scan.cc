#include "isochron/backends/cuda/reduction/axis_scan.h"

#include <algorithm>
#include <bit>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/texts.h"

namespace isochron::ops {

using element::kScanEach;
using element::kScanStateBytes;
using element::kScanThreads;

void add_axis_scan(LaunchKernel& kernel, const graph::KernelRequest& request, const AxisScan& scan,
                   size_t workspace_from) {
  constexpr int64_t kMaxAcross = 32;                  // columns of a block
  constexpr int64_t kBlocksEach = 4, kMinChunks = 2;  // of a multiprocessor; of a part
  const int64_t outer = scan.view.outer, extent = scan.view.extent, inner = scan.view.inner;
  if (outer * extent * inner == 0) return;
  const auto parts_of = [](int64_t all, int64_t part) { return (all + part - 1) / part; };
  const int64_t columns =
      std::min(kMaxAcross, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(inner))));
  const int64_t across = parts_of(inner, columns), chunk = kScanThreads / columns * kScanEach;
  const int64_t wanted = kBlocksEach * std::max(1, request.module->device().multiprocessors);
  const int64_t most =
      std::clamp<int64_t>(wanted / (outer * across), 1, parts_of(extent, kMinChunks * chunk));
  const int64_t part = parts_of(parts_of(extent, most), chunk) * chunk, parts = parts_of(extent, part);
  counted(request, extent);
  request.module->add_shared(std::string(backends::texts::kScans));
  const auto add = [&](bool totals) {
    kernel.add(request,
               fmt::format("// threads meet\n"
                           "  constexpr ScannedAxis s = {{{0}ull, {1}ull, {2}ull, {3}u, {4}u, {5}}};\n"
                           "  using Scan = {6};\n"
                           "  using State = Scan::State;\n"
                           "  scan_part<Scan, {7}, {8}>(s, reinterpret_cast<State*>(static_cast<char*>("
                           "workspace) + {9}ull),\n"
                           "      [&](unsigned long long at, unsigned long long place) -> State {{ return "
                           "{10}; }},\n"
                           "      [&](unsigned long long at, const State& before, const State& after) {{ "
                           "{11} }});",
                           extent, inner, part, parts, across, scan.reverse, scan.scan, columns, totals,
                           workspace_from, scan.load, scan.store),
               row_of_blocks(request, outer * across * parts, kScanThreads));
  };
  if (parts > 1) {
    kernel.need_workspace(workspace_from +
                          static_cast<size_t>(outer * across * parts * columns) * kScanStateBytes);
    add(true);
  }
  add(false);
}

}  // namespace isochron::ops
