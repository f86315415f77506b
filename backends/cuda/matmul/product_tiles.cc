#include "isochron/backends/cuda/matmul/product_tiles.h"

#include <algorithm>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using element::kPartThreads;
using element::kTensorColumns;
using element::kTensorWords;
using element::kTileDepth;

constexpr int64_t kLargestTile = 64, kTileStep = 16;
constexpr int64_t kThreadsEach = 768;  // threads per multiprocessor that hide most memory latency
constexpr int64_t kMinDepth = 64;      // smallest depth of a part that is worth a block
constexpr int64_t kMaxParts = 128;     // parts per sum
constexpr int64_t kMaxPartBytes = int64_t{16} << 20;
constexpr int64_t kPartsOfOneThread = 4;  // parts added by one thread; more are shared by threads
constexpr int64_t kSlices = 8;

int64_t pieces(int64_t extent, int64_t each) { return (extent + each - 1) / each; }

/// The extent of tiles that cover `extent` with little waste.
int tile_extent(int64_t extent) {
  const int64_t tiles = std::max<int64_t>(pieces(extent, kLargestTile), 1);
  return static_cast<int>(std::max<int64_t>(pieces(pieces(extent, tiles), kTileStep), 1) * kTileStep);
}

}  // namespace

TensorFormat tensor_format(const graph::KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (request.module->device().major < 8 || request.inputs[1].dtype != dtype) return TensorFormat::kNone;
  if (dtype == DType::kF32 && request.module->tf32()) return TensorFormat::kTf32;
  if (dtype == DType::kF16) return TensorFormat::kFloat16;
  return dtype == DType::kBF16 ? TensorFormat::kBfloat16 : TensorFormat::kNone;
}

ProductTiles::ProductTiles(const ProductExtents& e, int multiprocessors, TensorFormat f)
    : extents(e),
      format(f),
      rows(tile_extent(e.m)),
      columns(tile_extent(e.n)),
      each(rows * columns > 1024 ? 4 : 2),
      across(pieces(e.n, columns)),
      tiles(pieces(e.m, rows) * across),
      all(tiles * e.count) {
  const int64_t at_a_time = format == TensorFormat::kNone   ? kTileDepth
                            : format == TensorFormat::kTf32 ? kTensorWords
                                                            : kTensorWords * 2;
  const int64_t wanted = kThreadsEach * multiprocessors / threads() / std::max<int64_t>(all, 1);
  const int64_t most =
      std::min({kMaxParts, e.k / kMinDepth, kMaxPartBytes / std::max<int64_t>(e.m * e.n * e.count * 8, 1)});
  parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(most, 1));
  depth = std::max<int64_t>(pieces(pieces(e.k, parts), at_a_time) * at_a_time, 1);
  parts = std::max<int64_t>(pieces(e.k, depth), 1);
}

unsigned ProductTiles::threads() const {
  const int of_a_thread = each * each;
  const int of_a_warp = (rows % 32 == 0 ? 32 : 16) * static_cast<int>(kTensorColumns);
  return static_cast<unsigned>(format == TensorFormat::kNone ? rows * columns / of_a_thread
                                                             : 32 * (rows * columns / of_a_warp));
}

std::string ProductTiles::name() const {
  if (format == TensorFormat::kNone)
    return fmt::format("tiles of {} x {} by {} in {} parts", rows, columns, each, parts);
  return fmt::format("tensor core tiles of {} x {} in {} parts", rows, columns, parts);
}

std::string ProductTiles::tiling() const {
  switch (format) {
    case TensorFormat::kNone:
      return fmt::format("Tiling<{}, {}, {}>", rows, columns, each);
    case TensorFormat::kTf32:
      return fmt::format("TensorTiling<Tf32, {}, {}>", rows, columns);
    case TensorFormat::kFloat16:
      return fmt::format("TensorTiling<PairOfFloat16, {}, {}>", rows, columns);
    case TensorFormat::kBfloat16:
      break;
  }
  return fmt::format("TensorTiling<PairOfBfloat16, {}, {}>", rows, columns);
}

std::string ProductTiles::tile() const {
  return fmt::format("tile_of(blockIdx.x, {}u, {}u, {}u, {}u, {}u)", across, tiles, all, depth, extents.k);
}

void add_product(LaunchKernel& kernel, const graph::KernelRequest& request, const ProductTiles& tiles,
                 int64_t elems, std::string_view sum_type, std::string_view before, std::string_view product,
                 std::string_view result) {
  if (tiles.empty()) return;
  request.module->add_shared(std::string(backends::texts::kMatmul));
  const std::string_view index = elems < int64_t{1} << 31 ? "unsigned" : "unsigned long long";
  const std::string stored = fmt::format("[&]({} i, {} sum) {{ {} }}", index, sum_type, result);
  const std::string to =
      tiles.parts == 1
          ? stored
          : fmt::format(
                "[&](unsigned long long i, {0} sum) {{ static_cast<{0}*>(workspace)[blockIdx.x / {1}u "
                "* {2}ull + i] = sum; }}",
                sum_type, tiles.all, elems);
  kernel.add(request, fmt::format("// threads meet\n  {}const auto to = {};\n  {}", before, to, product),
             row_of_blocks(request, tiles.parts * tiles.all, tiles.threads()));
  if (tiles.parts == 1) return;
  kernel.need_workspace(static_cast<size_t>(tiles.parts * elems) * (sum_type == "double" ? 8 : 4));
  request.module->add_shared(std::string(backends::texts::kParts));
  const int64_t slices = tiles.parts > kPartsOfOneThread ? kSlices : 1;
  kernel.add(
      request,
      fmt::format("// threads meet\n  add_parts<{}>(static_cast<const {}*>(workspace), {}u, {}ull, {});",
                  slices, sum_type, tiles.parts, elems, stored),
      row_of_blocks(request, pieces(elems, kPartThreads / slices), kPartThreads));
}

}  // namespace isochron::ops
