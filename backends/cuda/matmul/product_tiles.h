// Matrix products by kernels of the project's own, in tiles (texts/matmul_text.h): how a product is cut, and
// its launches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "isochron/backends/cuda/common/launches.h"

namespace isochron::ops {

/// `count` products of m x k and k x n matrices.
struct ProductExtents {
  int64_t m, n, k, count;
};

/// What tensor cores take as a product's factors, both of them.
enum class TensorFormat : uint8_t { kNone, kTf32, kFloat16, kBfloat16 };
/// That of a call whose factors are its first two inputs; kNone: it is computed without tensor cores.
TensorFormat tensor_format(const graph::KernelRequest& request);

/// How their results are cut into tiles, a block each, and where these are too few for the device, their sums
/// into parts (split-K), which are added in their order. It depends on the extents and the number of
/// multiprocessors.
struct ProductTiles {
  ProductTiles(const ProductExtents& of, int multiprocessors, TensorFormat format = TensorFormat::kNone);
  /// On the request's device.
  ProductTiles(const ProductExtents& of, const graph::KernelRequest& request)
      : ProductTiles(of, request.module->device().multiprocessors, tensor_format(request)) {}

  bool empty() const { return all == 0; }
  unsigned threads() const;
  /// Tells it from other ways to compute the same.
  std::string name() const;
  /// The type Tiling or TensorTiling of the text.
  std::string tiling() const;
  /// A Tile of the text, the block's.
  std::string tile() const;

  ProductExtents extents;
  TensorFormat format;
  int rows, columns, each;     // of a tile; of the square that a thread has where tensor cores do nothing
  int64_t across, tiles, all;  // tiles in a row of a product, in a product, in all of them
  int64_t parts, depth;        // of a sum; elements of it in a part
};

/// Adds launches that make `elems` elements of a result: `product`, the text of a call whose argument `to` is
/// what the products' elements go to, after the text `before`; then the text `result` makes of `sum`, element
/// `i`, what is stored. `sum_type`: "float" or "double".
void add_product(LaunchKernel& kernel, const graph::KernelRequest& request, const ProductTiles& tiles,
                 int64_t elems, std::string_view sum_type, std::string_view before, std::string_view product,
                 std::string_view result);

}  // namespace isochron::ops
