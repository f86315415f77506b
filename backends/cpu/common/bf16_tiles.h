// Products of bf16 in the tile registers of AMX (Intel's Advanced Matrix Extensions, AMX-BF16): 16 rows and
// 16 columns of f32 sums at once, 32 products deep. Like AVX512_BF16 they take subnormals for 0.
#pragma once

#include <cstdint>

#include "isochron/backends/cpu/common/block_product.h"

namespace isochron::ops {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileColumns = 16;  // of f32
inline constexpr int64_t kTileDepth = 32;    // of bf16

/// Whether this process may use them: the processor has them, `ISOCHRON_VECTOR_TARGET` and
/// `DNNL_MAX_CPU_ISA` allow them, and the kernel gives leave. Throws as limit_vector_target.
bool multiplies_tiles();

/// The tile registers of this thread while it lives; multiply_tiles needs one. Not to be held while another
/// library computes. With `use` false it does nothing.
class TileRegisters {
 public:
  explicit TileRegisters(bool use = true);
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  bool used_;
};

/// `product` of operands whose rows of elements are a multiple of kTileDepth / 2 deep. Rows are computed in
/// whole tiles: up to kTileRows - 1 rows beyond product.rows are read of a and init, and written of c, with
/// any contents.
void multiply_tiles(const BlockProduct<bfloat16>& product);

}  // namespace isochron::ops
