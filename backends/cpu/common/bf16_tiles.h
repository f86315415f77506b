// Products of bf16 in the tile registers of AMX (Intel's Advanced Matrix Extensions, AMX-BF16): 16 rows and
// 16 columns of f32 sums at once, 32 products deep. Like AVX512_BF16 they take subnormals for 0.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

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

/// c = init + a b. Strides are in elements. Rows are computed in whole tiles: up to kTileRows - 1 rows beyond
/// `rows` are read of a and init, and written of c, with any contents.
struct TileProduct {
  int64_t rows;
  int64_t columns;  // a multiple of kTileColumns
  /// (row, k) with k = (outer, inner): numbers of one row and one `outer` lie side by side.
  const bfloat16* a;
  int64_t a_row;
  int64_t a_outer;
  int64_t outer_count;
  int64_t inner_count;  // a multiple of kTileDepth
  /// In pairs: numbers (2 k, column) and (2 k + 1, column) side by side, then the next column.
  const bfloat16* b;
  int64_t b_pair_row;
  const float* init;
  int64_t init_row;  // 0: every row begins with the same
  float* c;
  int64_t c_row;
};
void multiply_tiles(const TileProduct& product);

}  // namespace isochron::ops
