// Matrix products by Isochron's own tiled kernels (backends/cuda/matmul/matmul_text.h): how a product is
// divided into tiles, and how its kernels are launched.
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

/// The format of both operands of a product on tensor cores.
enum class TensorFormat : uint8_t { kNone, kTf32, kFloat16, kBfloat16 };
/// The format for a call whose operands are its first two inputs. kNone means that it is computed without
/// tensor cores.
TensorFormat tensor_format(const graph::KernelRequest& request);

/// How the results are divided into tiles, one block per tile. If there are too few tiles for the device,
/// each sum is also divided into parts (split-K), which are added in a fixed order. The division depends on
/// the extents and the number of multiprocessors.
struct ProductTiles {
  ProductTiles(const ProductExtents& of, int multiprocessors, TensorFormat format = TensorFormat::kNone);
  /// For the request's device.
  ProductTiles(const ProductExtents& of, const graph::KernelRequest& request)
      : ProductTiles(of, request.module->device().multiprocessors, tensor_format(request)) {}

  bool empty() const { return all == 0; }
  unsigned threads() const;
  /// A name that distinguishes this division from other algorithms for the same product.
  std::string name() const;
  /// The kernel text's type Tiling or TensorTiling.
  std::string tiling() const;
  /// Kernel text for the block's Tile.
  std::string tile() const;

  ProductExtents extents;
  TensorFormat format;
  int rows, columns, each;     // rows and columns of a tile; side of a thread's square
  int64_t across, tiles, all;  // tiles in a row of a product, per product, in total
  int64_t parts, depth;        // parts per sum, elements per part
};

/// Adds launches that compute `elems` elements of a result. The kernel text is `before`, then `product`: a
/// call whose argument `to` receives the product's elements. `result` is the text that stores the value `sum`
/// as element `i`. `sum_type`: "float" or "double".
void add_product(LaunchKernel& kernel, const graph::KernelRequest& request, const ProductTiles& tiles,
                 int64_t elems, std::string_view sum_type, std::string_view before, std::string_view product,
                 std::string_view result);

}  // namespace isochron::ops
