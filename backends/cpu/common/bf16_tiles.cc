// The tile instructions are inline assembly, so that the rest of the file is compiled for any processor.
// Callers must first check that the processor has tiles.
#include "isochron/backends/cpu/common/bf16_tiles.h"

#include <algorithm>

#if defined(__x86_64__) && defined(__linux__)
#include <dnnl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isochron/backends/common/vector_target.h"
#endif

namespace isochron::ops {
#if defined(__x86_64__) && defined(__linux__)
namespace {

using Product = BlockProduct<bfloat16>;

constexpr int kTiles = 8;
constexpr int64_t kTileBytes = 64;  // bytes per row

/// The layout that LDTILECFG reads.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

TileConfiguration whole_tiles() {
  TileConfiguration configuration;
  std::fill_n(configuration.row_bytes, kTiles, static_cast<uint16_t>(kTileBytes));
  std::fill_n(configuration.rows, kTiles, static_cast<uint8_t>(kTileRows));
  return configuration;
}

/// Requests tile registers from Linux, which grants them only on request.
bool kernel_permits() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

template <int kTile, typename T>
void load_tile(const T* from, int64_t row) {
  const int64_t stride = row * static_cast<int64_t>(sizeof(T));
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
void store_tile(float* to, int64_t row) {
  const int64_t stride = row * static_cast<int64_t>(sizeof(float));
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}

/// Sums += a b.
template <int kSums, int kA, int kB>
void multiply_tile() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}

// The assignment of tile registers.
constexpr int kSums = 0;  // 0 to 3: two rows x two columns of tiles
constexpr int kA = 4;     // and 5
constexpr int kB = 6;     // and 7

/// Computes kRows x kColumns tiles of c, from (row, column) on.
template <int kRows, int kColumns>
void product_block(const Product& p, int64_t row, int64_t column) {
  const float* init = p.init + row * p.init_row + column;
  float* c = p.c + row * p.c_row + column;
  load_tile<kSums>(init, p.init_row);
  if constexpr (kColumns > 1) load_tile<kSums + 1>(init + kTileColumns, p.init_row);
  if constexpr (kRows > 1) {
    init += kTileRows * p.init_row;
    load_tile<kSums + 2>(init, p.init_row);
    if constexpr (kColumns > 1) load_tile<kSums + 3>(init + kTileColumns, p.init_row);
  }
  const bfloat16* b = p.b + kTogether<bfloat16> * column;
  const int64_t depth = p.a.inner_count * kTogether<bfloat16>;
  for (int64_t o = 0; o < p.a.outer_count; ++o) {
    const bfloat16* a = p.a.data + row * p.a.row + o * p.a.outer;
    for (int64_t k = 0; k < depth; k += kTileDepth) {
      load_tile<kA>(a + k, p.a.row);
      load_tile<kB>(b, p.b_row);
      multiply_tile<kSums, kA, kB>();
      if constexpr (kColumns > 1) {
        load_tile<kB + 1>(b + kTogether<bfloat16> * kTileColumns, p.b_row);
        multiply_tile<kSums + 1, kA, kB + 1>();
      }
      if constexpr (kRows > 1) {
        load_tile<kA + 1>(a + kTileRows * p.a.row + k, p.a.row);
        multiply_tile<kSums + 2, kA + 1, kB>();
        if constexpr (kColumns > 1) multiply_tile<kSums + 3, kA + 1, kB + 1>();
      }
      b += kTileDepth / kTogether<bfloat16> * p.b_row;
    }
  }
  store_tile<kSums>(c, p.c_row);
  if constexpr (kColumns > 1) store_tile<kSums + 1>(c + kTileColumns, p.c_row);
  if constexpr (kRows > 1) {
    c += kTileRows * p.c_row;
    store_tile<kSums + 2>(c, p.c_row);
    if constexpr (kColumns > 1) store_tile<kSums + 3>(c + kTileColumns, p.c_row);
  }
}

/// Computes kColumns tiles of columns, for all rows. Their part of b stays in L1.
template <int kColumns>
void product_columns(const Product& p, int64_t column) {
  int64_t row = 0;
  for (; row + kTileRows < p.rows; row += 2 * kTileRows) product_block<2, kColumns>(p, row, column);
  if (row < p.rows) product_block<1, kColumns>(p, row, column);
}

}  // namespace

bool multiplies_tiles() {
  static const bool allowed = [] {
    limit_vector_target();
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx &&
           kernel_permits();
  }();
  return allowed;
}

TileRegisters::TileRegisters(bool use) : used_(use) {
  if (!use) return;
  static const TileConfiguration configuration = whole_tiles();
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}
TileRegisters::~TileRegisters() {
  if (used_) asm volatile("tilerelease");
}

void multiply_tiles(const Product& p) {
  int64_t column = 0;
  for (; column + kTileColumns < p.columns; column += 2 * kTileColumns) product_columns<2>(p, column);
  if (column < p.columns) product_columns<1>(p, column);
}

#else

bool multiplies_tiles() { return false; }
TileRegisters::TileRegisters(bool) : used_(false) {}
TileRegisters::~TileRegisters() = default;
void multiply_tiles(const Product&) {}

#endif
}  // namespace isochron::ops
