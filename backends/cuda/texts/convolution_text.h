// Convolutions as matrix products whose factors are read where they lie (implicit products); behind
// matmul_text.h and window_text.h. A product a group: tile `tile` of `tiles_across` in a row, of group
// `group`.
#ifndef ISOCHRON_OPS_CUDA_CONVOLUTION_TEXT_H_
#define ISOCHRON_OPS_CUDA_CONVOLUTION_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

struct Convolution {
  Window window;
  int batch, channels, outputs, groups;

  ISOCHRON_INLINE int group_channels() const { return channels / groups; }
  ISOCHRON_INLINE int group_outputs() const { return outputs / groups; }
};

struct Tile {
  unsigned row, column, group;
};
ISOCHRON_SCALAR Tile tile_of(unsigned block, unsigned tiles, unsigned tiles_across) {
  const unsigned tile = block % tiles;
  return {tile / tiles_across, tile % tiles_across, block / tiles};
}

/// Of the images, what group `group` multiplies with row (window element, channel) `kernel_row` of its
/// kernel for output pixel `pixel` of all images; 0 in the padding.
template <typename Sum, typename X>
ISOCHRON_SCALAR Sum image_element(const Convolution& s, const X* x, unsigned pixel, unsigned kernel_row,
                                  unsigned group) {
  const int pixels = s.window.output_pixels(), depth = s.group_channels();
  const int from = s.window.source(pixel % pixels, kernel_row / depth);
  if (from < 0) return 0;
  const unsigned long long at =
      static_cast<unsigned long long>(pixel / pixels) * s.window.input_pixels() + from;
  return widen(x[at * s.channels + group * depth + kernel_row % depth]);
}

/// y: rows are output pixels of all images, columns a group's outputs; `bias` may be null.
template <typename Sum, typename X, typename K, typename B, typename Y>
ISOCHRON_SCALAR void convolve_tile(const Convolution& s, const X* x, const K* kernel, const B* bias, Y* y,
                                   const Tile& tile) {
  using Wide = unsigned long long;
  const int first_output = tile.group * s.group_outputs();
  product_tile<Sum, false, false>(
      [&](unsigned row, unsigned p) -> Sum { return image_element<Sum>(s, x, row, p, tile.group); },
      [&](unsigned p, unsigned column) -> Sum {
        return widen(kernel[Wide(p) * s.outputs + first_output + column]);
      },
      [&](unsigned row, unsigned column, Sum sum) {
        if (bias) sum += widen(bias[first_output + column]);
        put(y + Wide(row) * s.outputs + first_output + column, sum);
      },
      s.batch* s.window.output_pixels(), s.group_outputs(), 0, s.window.elems() * s.group_channels(),
      tile.row, tile.column);
}

/// dx: rows are input pixels of all images, columns a group's channels.
template <typename Sum, typename G, typename K, typename X>
ISOCHRON_SCALAR void convolve_input_gradient_tile(const Convolution& s, const G* g, const K* kernel, X* dx,
                                                  const Tile& tile) {
  using Wide = unsigned long long;
  const int pixels = s.window.input_pixels(), share = s.group_outputs();
  const int first_channel = tile.group * s.group_channels(), first_output = tile.group * share;
  product_tile<Sum, false, true>(
      [&](unsigned row, unsigned p) -> Sum {
        const int to = s.window.target(row % pixels, p / share);
        if (to < 0) return 0;
        const Wide pixel = Wide(row / pixels) * s.window.output_pixels() + to;
        return widen(g[pixel * s.outputs + first_output + p % share]);
      },
      [&](unsigned p, unsigned column) -> Sum {
        return widen(
            kernel[(Wide(p / share) * s.group_channels() + column) * s.outputs + first_output + p % share]);
      },
      [&](unsigned row, unsigned column, Sum sum) {
        put(dx + Wide(row) * s.channels + first_channel + column, sum);
      },
      s.batch* pixels, s.group_channels(), 0, s.window.elems() * share, tile.row, tile.column);
}

/// d kernel, summed over the output pixels of all images from `begin` to `end`: rows are window elements and
/// a group's channels, and where `bias` one more, whose sums are of g alone; columns are the group's outputs.
template <typename Sum, typename X, typename G>
ISOCHRON_SCALAR void convolve_weight_gradient_tile(const Convolution& s, const X* x, const G* g, bool bias,
                                                   Sum* sums, unsigned begin, unsigned end,
                                                   const Tile& tile) {
  using Wide = unsigned long long;
  const unsigned rows = s.window.elems() * s.group_channels();
  const int first_output = tile.group * s.group_outputs();
  product_tile<Sum, true, false>(
      [&](unsigned row, unsigned p) -> Sum {
        return row == rows ? Sum(1) : image_element<Sum>(s, x, p, row, tile.group);
      },
      [&](unsigned p, unsigned column) -> Sum {
        return widen(g[Wide(p) * s.outputs + first_output + column]);
      },
      [&](unsigned row, unsigned column, Sum sum) {
        sums[Wide(row) * s.outputs + first_output + column] = sum;
      },
      rows + (bias ? 1 : 0), s.group_outputs(), begin, end, tile.row, tile.column);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
