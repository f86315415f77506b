// Products of bf16 in the tile registers of AMX (Intel's Advanced Matrix Extensions, AMX-BF16): 16 rows and
// 16 columns of f32 sums at once, with a depth of 32 products. Like AVX512_BF16, they treat subnormals as 0.
#pragma once

#include <cstdint>

#include "isochron/backends/cpu/common/block_product.h"

namespace isochron::ops {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileColumns = 16;  // of f32
inline constexpr int64_t kTileDepth = 32;    // of bf16

/// Whether this process may use tile registers: the processor has them, `ISOCHRON_VECTOR_TARGET` and
/// `DNNL_MAX_CPU_ISA` allow them, and the operating system permits them. Throws as limit_vector_target.
bool multiplies_tiles();

/// Holds the tile registers of this thread for the lifetime of the object; multiply_tiles requires this. Must
/// not be held while another library computes. Does nothing if `use` is false.
class TileRegisters {
 public:
  explicit TileRegisters(bool use = true);
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  bool used_;
};

/// Computes `product`, whose depth in elements must be a multiple of kTileDepth / 2. Rows are computed in
/// whole tiles: up to kTileRows - 1 rows beyond product.rows are read from a and init and written to c. Their
/// contents don't matter.
void multiply_tiles(const BlockProduct<bfloat16>& product);

}  // namespace isochron::ops
