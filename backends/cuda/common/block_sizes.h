// How many threads and elements a block of the kernels has, for the host that launches them and in their
// text.
#ifndef ISOCHRON_OPS_CUDA_BLOCK_SIZES_H_
#define ISOCHRON_OPS_CUDA_BLOCK_SIZES_H_

namespace isochron {
namespace ops {
namespace element {

constexpr unsigned kRowThreads = 256;        // of a row, rows_text.h
constexpr unsigned kColumnsEach = 8;         // that a block of them joins
constexpr unsigned kTileDepth = 16;          // of a product's sum that a tile takes at a time, matmul_text.h
constexpr unsigned kTensorWords = 16;        // of it that tensor cores are given at a time
constexpr unsigned kTensorColumns = 16;      // of a warp there
constexpr unsigned kPartThreads = 256;       // that add the parts of such sums
constexpr unsigned kAttentionTile = 32;      // queries and keys of a tile, attention_text.h
constexpr unsigned kRecurrentThreads = 512;  // of the rows that a block has, recurrent_text.h
constexpr unsigned kUpdateThreads = 256;     // update_text.h
constexpr unsigned kUpdateBlock = 1024;      // elements that they update, all of one parameter
constexpr unsigned kSortThreads = 256;       // sort_text.h
constexpr unsigned kSortTile = 2048;         // entries that they sort or merge
constexpr unsigned kScanThreads = 256;       // scan_text.h
constexpr unsigned kScanEach = 8;            // places along the axis that each of them has at a time
constexpr unsigned kScanStateBytes = 32;     // of what is so far, at most

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
