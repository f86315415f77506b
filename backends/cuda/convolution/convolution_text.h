// Convolutions as matrix products whose factors are read directly from the images (implicit GEMM). Comes
// after matmul_text.h and window_text.h. One product per group; `result(i, sum)` receives element i of the
// result.
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

/// y: rows are output pixels of all images, columns a group's outputs.
template <typename Sum, typename Tiles, typename X, typename K, typename Y>
ISOCHRON_SCALAR void convolve_tile(const Convolution& s, const X* x, const K* kernel, const Y& result,
                                   const Tile& tile) {
  using Wide = unsigned long long;
  const int first_output = tile.product * s.group_outputs();
  product_tile<Sum, Tiles, false, false>(
      [&](unsigned row, unsigned p) { return image_element<Sum>(s, x, row, p, tile.product); },
      [&](unsigned p, unsigned column) { return widen(kernel[Wide(p) * s.outputs + first_output + column]); },
      [&](unsigned row, unsigned column, Sum sum) {
        result(Wide(row) * s.outputs + first_output + column, sum);
      },
      s.batch * s.window.output_pixels(), s.group_outputs(), tile);
}

/// dx: rows are input pixels of all images, columns a group's channels.
template <typename Sum, typename Tiles, typename G, typename K, typename X>
ISOCHRON_SCALAR void convolve_input_gradient_tile(const Convolution& s, const G* g, const K* kernel,
                                                  const X& result, const Tile& tile) {
  using Wide = unsigned long long;
  const int pixels = s.window.input_pixels(), share = s.group_outputs();
  const int first_channel = tile.product * s.group_channels(), first_output = tile.product * share;
  product_tile<Sum, Tiles, false, true>(
      [&](unsigned row, unsigned p) -> Sum {
        const int to = s.window.target(row % pixels, p / share);
        if (to < 0) return 0;
        const Wide pixel = Wide(row / pixels) * s.window.output_pixels() + to;
        return widen(g[pixel * s.outputs + first_output + p % share]);
      },
      [&](unsigned p, unsigned column) {
        return widen(
            kernel[(Wide(p / share) * s.group_channels() + column) * s.outputs + first_output + p % share]);
      },
      [&](unsigned row, unsigned column, Sum sum) {
        result(Wide(row) * s.channels + first_channel + column, sum);
      },
      s.batch* pixels, s.group_channels(), tile);
}

/// d kernel, summed over the output pixels of all images: rows are window elements and a group's channels,
/// and where kBias one more, whose sums are of g alone; columns are the group's outputs.
template <typename Sum, typename Tiles, bool kBias, typename X, typename G, typename K>
ISOCHRON_SCALAR void convolve_weight_gradient_tile(const Convolution& s, const X* x, const G* g,
                                                   const K& result, const Tile& tile) {
  using Wide = unsigned long long;
  const unsigned rows = s.window.elems() * s.group_channels();
  const int first_output = tile.product * s.group_outputs();
  product_tile<Sum, Tiles, true, false>(
      [&](unsigned row, unsigned p) -> Sum {
        return kBias && row == rows ? Sum(1) : image_element<Sum>(s, x, p, row, tile.product);
      },
      [&](unsigned p, unsigned column) { return widen(g[Wide(p) * s.outputs + first_output + column]); },
      [&](unsigned row, unsigned column, Sum sum) {
        result(Wide(row) * s.outputs + first_output + column, sum);
      },
      rows + (kBias ? 1 : 0), s.group_outputs(), tile);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
