// Each tile of 4x4 results, and the patch of 6x6 input elements under it, is transformed into 36 numbers per
// channel. The sums over channels then become 36 small matrix products. Tiles are processed in blocks, so
// that all of these steps run in cache.
//
//   forward          Y = A^T [ (G w G^T) . (B^T d B) ] A
//   input gradient   the same with the kernel turned around and its channels exchanged
//   weight gradient  dw = G^T [ sum over tiles (B^T d B) . (A dY A^T) ] G
#include "isochron/backends/cpu/convolution/winograd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/convolution/winograd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/backends/cpu/common/half-inl.h"
#include "isochron/backends/cpu/matmul/small_matmul-inl.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"

#ifndef ISOCHRON_OPS_CPU_WINOGRAD_ONCE_
#define ISOCHRON_OPS_CPU_WINOGRAD_ONCE_
namespace isochron::ops {

constexpr int kTile = 4;     // extent of a tile of results
constexpr int kPatch = 6;    // extent of the patch under a tile
constexpr int kPoints = 36;  // numbers of a transformed patch
constexpr int kWindow = 3;
constexpr int kSumPoint = 7;  // the point that is the plain sum of a tile of gradients

/// An image cut into tiles; `before`: padding above and to the left.
struct TileGrid {
  int64_t batch, height, width, channels;  // the image of the patches or tiles
  int64_t rows, columns;                   // tiles per image
  int64_t before_h, before_w;
  int64_t tiles() const { return batch * rows * columns; }
};

/// The location of the elements, of type E, of a patch or tile.
template <int kExtent, typename E>
struct Positions {
  E* corner;  // first element, channel 0; may lie outside the image
  int64_t row_elems, column_elems;
  int64_t h, w;
  bool whole;  // completely inside the image
  Positions(const TileGrid& g, E* image, int64_t tile)
      : row_elems(g.width * g.channels),
        column_elems(g.channels),
        h(tile / g.columns % g.rows * kTile - g.before_h),
        w(tile % g.columns * kTile - g.before_w),
        whole(h >= 0 && w >= 0 && h + kExtent <= g.height && w + kExtent <= g.width) {
    const int64_t row = tile / (g.columns * g.rows) * g.height + h;
    corner = image + (row * g.width + w) * g.channels;
  }
  bool inside(const TileGrid& g, int i, int j) const {
    return static_cast<uint64_t>(h + i) < static_cast<uint64_t>(g.height) &&
           static_cast<uint64_t>(w + j) < static_cast<uint64_t>(g.width);
  }
  E* at(int i, int j) const { return corner + i * row_elems + j * column_elems; }
};

/// The transforms for tensors of one dtype.
struct TransformsOf {
  void (*patches)(const TileGrid&, const std::byte* image, int64_t first, int64_t count, int64_t pitch,
                  float* v);
  void (*gradient_tiles)(const TileGrid&, const std::byte* image, int64_t first, int64_t count, int64_t pitch,
                         float* v);
  void (*results)(const TileGrid&, const float* m, int64_t first, int64_t count, int64_t pitch,
                  const float* bias, std::byte* image);
  void (*kernel)(const std::byte* kernel, int64_t channels, int64_t outputs, bool turned, int64_t begin,
                 int64_t end, int64_t pitch, float* u);
};

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V times(float factor, V x, V plus) { return hn::MulAdd(hn::Set(D(), factor), x, plus); }

/// B^T d.
HWY_INLINE void transform_patch(const V (&d)[kPatch], V (&t)[kPatch]) {
  t[0] = times(4, d[0], times(-5, d[2], d[4]));
  const V a = times(-4, d[2], d[4]);
  const V b = times(-4, d[1], d[3]);
  t[1] = a + b;
  t[2] = a - b;
  const V c = d[4] - d[2];
  const V e = d[3] - d[1];
  t[3] = times(2, e, c);
  t[4] = times(-2, e, c);
  t[5] = times(4, d[1], times(-5, d[3], d[5]));
}

/// A^T m.
HWY_INLINE void gather_results(const V (&m)[kPatch], V (&y)[kTile]) {
  const V s1 = m[1] + m[2];
  const V d1 = m[1] - m[2];
  const V s2 = m[3] + m[4];
  const V d2 = m[3] - m[4];
  y[0] = m[0] + s1 + s2;
  y[1] = times(2, d2, d1);
  y[2] = times(4, s2, s1);
  y[3] = times(8, d2, d1) + m[5];
}

/// A y.
HWY_INLINE void spread_results(const V (&y)[kTile], V (&m)[kPatch]) {
  m[0] = y[0];
  const V even = y[0] + y[2];
  const V odd = y[1] + y[3];
  m[1] = even + odd;
  m[2] = even - odd;
  const V u = times(4, y[2], y[0]);
  const V v = times(2, y[1], hn::Set(D(), 8.0f) * y[3]);
  m[3] = u + v;
  m[4] = u - v;
  m[5] = y[3];
}

/// G w.
HWY_INLINE void transform_window(const V (&w)[kWindow], V (&u)[kPatch]) {
  u[0] = hn::Set(D(), 0.25f) * w[0];
  const V outer = w[0] + w[2];
  u[1] = hn::Set(D(), -1.0f / 6) * (outer + w[1]);
  u[2] = hn::Set(D(), -1.0f / 6) * (outer - w[1]);
  const V ends = times(1.0f / 6, w[2], hn::Set(D(), 1.0f / 24) * w[0]);
  u[3] = times(1.0f / 12, w[1], ends);
  u[4] = times(-1.0f / 12, w[1], ends);
  u[5] = w[2];
}

/// G^T u.
HWY_INLINE void gather_window(const V (&u)[kPatch], V (&w)[kWindow]) {
  const V s1 = u[1] + u[2];
  const V s2 = u[3] + u[4];
  w[0] = times(0.25f, u[0], times(-1.0f / 6, s1, hn::Set(D(), 1.0f / 24) * s2));
  w[1] = times(1.0f / 6, u[2] - u[1], hn::Set(D(), 1.0f / 12) * (u[3] - u[4]));
  w[2] = times(1.0f / 6, s2 - s1, u[5]);
}

/// Two one-dimensional transforms, first over rows, then over columns. `load(i, j)` returns the kIn x kIn
/// elements; `store(i, j, v)` stores the kOut x kOut results.
template <int kIn, int kOut, class Load, class Transform, class Store>
HWY_INLINE void transform_square(Load load, Transform transform, Store store) {
  V half[kOut][kIn];
  for (int j = 0; j < kIn; ++j) {
    V from[kIn];
    V to[kOut];
    for (int i = 0; i < kIn; ++i) from[i] = load(i, j);
    transform(from, to);
    for (int i = 0; i < kOut; ++i) half[i][j] = to[i];
  }
  for (int i = 0; i < kOut; ++i) {
    V to[kOut];
    transform(half[i], to);
    for (int j = 0; j < kOut; ++j) store(i, j, to[j]);
  }
}

/// Writes the transformed patches of tiles [first, first + count) to v[point][i][pitch].
template <int kExtent, typename E, class Transform>
HWY_INLINE void transform_tiles(const TileGrid& g, const E* image, int64_t first, int64_t count,
                                int64_t pitch, float* v, Transform transform) {
  const int64_t plane = count * pitch;
  for (int64_t i = 0; i < count; ++i) {
    const Positions<kExtent, const E> positions(g, image, first + i);
    each_vector(D(), g.channels, [&](int64_t c, size_t lanes) HWY_ATTR {
      const auto store = [&](int row, int column, V x) HWY_ATTR {
        hn::StoreU(x, D(), v + (row * kPatch + column) * plane + i * pitch + c);
      };
      if (positions.whole) {
        transform_square<kExtent, kPatch>(
            [&](int row, int column)
                HWY_ATTR { return load_numbers(D(), positions.at(row, column) + c, lanes); },
            transform, store);
      } else {
        transform_square<kExtent, kPatch>(
            [&](int row, int column) HWY_ATTR {
              return positions.inside(g, row, column)
                         ? load_numbers(D(), positions.at(row, column) + c, lanes)
                         : hn::Zero(D());
            },
            transform, store);
      }
    });
  }
}

template <typename E>
void winograd_patches(const TileGrid& g, const std::byte* image, int64_t first, int64_t count, int64_t pitch,
                      float* v) {
  transform_tiles<kPatch>(g, reinterpret_cast<const E*>(image), first, count, pitch, v,
                          [](const V(&d)[kPatch], V(&t)[kPatch]) HWY_ATTR { transform_patch(d, t); });
}
template <typename E>
void winograd_gradient_tiles(const TileGrid& g, const std::byte* image, int64_t first, int64_t count,
                             int64_t pitch, float* v) {
  transform_tiles<kTile>(g, reinterpret_cast<const E*>(image), first, count, pitch, v,
                         [](const V(&y)[kTile], V(&m)[kPatch]) HWY_ATTR { spread_results(y, m); });
}

/// Computes the results of tiles [first, first + count) from m[point][i][pitch], and adds `bias` unless it is
/// null.
template <typename E>
void winograd_results(const TileGrid& g, const float* m, int64_t first, int64_t count, int64_t pitch,
                      const float* bias, std::byte* image) {
  const int64_t plane = count * pitch;
  for (int64_t i = 0; i < count; ++i) {
    const Positions<kTile, E> positions(g, reinterpret_cast<E*>(image), first + i);
    each_vector(D(), g.channels, [&](int64_t c, size_t lanes) HWY_ATTR {
      const V shift = bias ? load_lanes(D(), bias + c, lanes) : hn::Zero(D());
      const float* from = m + i * pitch + c;
      V half[kTile][kPatch];
      for (int j = 0; j < kPatch; ++j) {
        V column[kPatch];
        V to[kTile];
        for (int row = 0; row < kPatch; ++row)
          column[row] = hn::LoadU(D(), from + (row * kPatch + j) * plane);
        gather_results(column, to);
        for (int row = 0; row < kTile; ++row) half[row][j] = to[row];
      }
      for (int row = 0; row < kTile; ++row) {
        V to[kTile];
        gather_results(half[row], to);
        for (int j = 0; j < kTile; ++j) {
          if (!positions.whole && !positions.inside(g, row, j)) continue;
          store_numbers(D(), to[j] + shift, positions.at(row, j) + c, lanes);
        }
      }
    });
  }
}

/// Transforms channels [begin, end) of a kernel [tap][channels][outputs] to u[point][channels][pitch].
/// `turned` rotates the kernel by 180 degrees.
template <typename E>
void winograd_kernel(const std::byte* bytes, int64_t channels, int64_t outputs, bool turned, int64_t begin,
                     int64_t end, int64_t pitch, float* u) {
  const E* kernel = reinterpret_cast<const E*>(bytes);
  const int64_t tap = channels * outputs;
  for (int64_t c = begin; c < end; ++c) {
    each_vector(D(), outputs, [&](int64_t o, size_t lanes) HWY_ATTR {
      V half[kPatch][kWindow];
      for (int j = 0; j < kWindow; ++j) {
        V window[kWindow];
        V to[kPatch];
        for (int i = 0; i < kWindow; ++i) {
          const int at = i * kWindow + j;
          window[i] = load_numbers(D(), kernel + (turned ? 8 - at : at) * tap + c * outputs + o, lanes);
        }
        transform_window(window, to);
        for (int i = 0; i < kPatch; ++i) half[i][j] = to[i];
      }
      for (int i = 0; i < kPatch; ++i) {
        V to[kPatch];
        transform_window(half[i], to);
        for (int j = 0; j < kPatch; ++j) {
          hn::StoreU(to[j], D(), u + ((i * kPatch + j) * channels + c) * pitch + o);
        }
      }
    });
  }
}

/// Computes dkernel[tap][channels][outputs] for channels [begin, end) from `parts` partial sums
/// u[point][channels][pitch], `stride` apart.
void winograd_kernel_gradient(const float* u, int64_t parts, int64_t stride, int64_t channels,
                              int64_t outputs, int64_t begin, int64_t end, int64_t pitch, float* dkernel) {
  for (int64_t c = begin; c < end; ++c) {
    each_vector(D(), outputs, [&](int64_t o, size_t lanes) HWY_ATTR {
      V half[kWindow][kPatch];
      for (int j = 0; j < kPatch; ++j) {
        V column[kPatch];
        V to[kWindow];
        for (int i = 0; i < kPatch; ++i) {
          const float* from = u + ((i * kPatch + j) * channels + c) * pitch + o;
          column[i] = hn::LoadU(D(), from);
          for (int64_t part = 1; part < parts; ++part)
            column[i] = column[i] + hn::LoadU(D(), from + part * stride);
        }
        gather_window(column, to);
        for (int i = 0; i < kWindow; ++i) half[i][j] = to[i];
      }
      for (int i = 0; i < kWindow; ++i) {
        V to[kWindow];
        gather_window(half[i], to);
        for (int j = 0; j < kWindow; ++j) {
          store_lanes(D(), to[j], dkernel + ((i * kWindow + j) * channels + c) * outputs + o, lanes);
        }
      }
    });
  }
}

/// m[point] (count x outputs) = v[point] (count x channels) u[point] (channels x outputs).
void winograd_products(int64_t count, int64_t channels, int64_t outputs, const float* v, int64_t v_pitch,
                       const float* u, int64_t u_pitch, float* m) {
  for (int64_t p = 0; p < kPoints; ++p) {
    multiply<false>(Product<float>{count, outputs, channels, v + p * count * v_pitch, v_pitch, 1,
                                   u + p * channels * u_pitch, u_pitch, m + p * count * u_pitch, u_pitch});
  }
}

/// u[point] (channels x outputs) += v[point]^T (channels x count) m[point] (count x outputs); without `add`,
/// u is overwritten.
void winograd_gradient_products(int64_t count, int64_t channels, int64_t outputs, const float* v,
                                int64_t v_pitch, const float* m, int64_t m_pitch, bool add, float* u) {
  for (int64_t p = 0; p < kPoints; ++p) {
    const Product<float> product{channels,
                                 outputs,
                                 count,
                                 v + p * count * v_pitch,
                                 1,
                                 v_pitch,
                                 m + p * count * m_pitch,
                                 m_pitch,
                                 u + p * channels * m_pitch,
                                 m_pitch};
    if (add) {
      multiply<true>(product);
    } else {
      multiply<false>(product);
    }
  }
}

template <typename E>
constexpr TransformsOf kTransforms{winograd_patches<E>, winograd_gradient_tiles<E>, winograd_results<E>,
                                   winograd_kernel<E>};

const TransformsOf* winograd_transforms(DType dtype) {
  if (dtype == DType::kBF16) return &kTransforms<bfloat16>;
  return dtype == DType::kF16 ? &kTransforms<float16> : &kTransforms<float>;
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {
namespace {

HWY_EXPORT(winograd_transforms);
HWY_EXPORT(winograd_kernel_gradient);
HWY_EXPORT(winograd_products);
HWY_EXPORT(winograd_gradient_products);

using graph::KernelArgs;

constexpr int64_t kBlockBytes = 384 * 1024;  // a block of transformed tiles, which must stay in L2
constexpr int64_t kPitch = 16;               // rows of channels are padded to whole vectors of any target

TileGrid grid_of(int64_t batch, int64_t height, int64_t width, int64_t channels, int64_t result_height,
                 int64_t result_width, int64_t before_h, int64_t before_w) {
  return {batch,
          height,
          width,
          channels,
          (result_height + kTile - 1) / kTile,
          (result_width + kTile - 1) / kTile,
          before_h,
          before_w};
}

/// The number of tiles per block, a multiple of the rows that the product computes at once.
int64_t block_tiles(int64_t pitches, int64_t tiles) {
  const int64_t fit = kBlockBytes / (kPoints * pitches * static_cast<int64_t>(sizeof(float)));
  const int64_t even = std::max<int64_t>(fit / 16, 1) * 16;
  return std::min(even, tiles);
}

/// Forward and input gradient: both compute an image from an image and a kernel.
class WinogradCorrelation final : public graph::Kernel {
 public:
  /// `turned`: the kernel is [tap][outputs][channels] and rotated by 180 degrees, as for the input gradient.
  WinogradCorrelation(const TileGrid& image, const TileGrid& result, bool turned, bool bias,
                      const WinogradDtypes& dtypes, int threads)
      : image_(image),
        result_(result),
        turned_(turned),
        bias_(bias),
        operand_dtype_(dtypes.operands),
        of_operands_(*HWY_DYNAMIC_DISPATCH(winograd_transforms)(dtypes.operands)),
        of_result_(*HWY_DYNAMIC_DISPATCH(winograd_transforms)(dtypes.result)),
        of_turned_(*HWY_DYNAMIC_DISPATCH(winograd_transforms)(DType::kF32)),
        threads_(threads),
        v_pitch_(align_up<int64_t>(image.channels, kPitch)),
        u_pitch_(align_up<int64_t>(result.channels, kPitch)),
        block_(block_tiles(v_pitch_ + u_pitch_, (image.tiles() + threads - 1) / threads)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(kernel_elems() + turned_elems() + threads_ * thread_elems()) * sizeof(float);
  }

  void run(const KernelArgs& args) override {
    const float* bias = bias_ ? reinterpret_cast<const float*>(args.inputs[2]) : nullptr;
    float* u = reinterpret_cast<float*>(args.workspace);
    float* turned = u + kernel_elems();
    float* blocks = turned + turned_elems();
    const int64_t channels = image_.channels;
    const int64_t outputs = result_.channels;
    parallel_for(threads_, channels, [&](int64_t begin, int64_t end) {
      if (!turned_) {
        of_operands_.kernel(args.inputs[1], channels, outputs, false, begin, end, u_pitch_, u);
        return;
      }
      dispatch_dtype(operand_dtype_, [&]<typename E>(E) {
        exchange_channels(reinterpret_cast<const E*>(args.inputs[1]), begin, end, turned);
      });
      of_turned_.kernel(reinterpret_cast<const std::byte*>(turned), channels, outputs, true, begin, end,
                        u_pitch_, u);
    });
    each_thread(threads_, [&](int64_t t) {
      float* v = blocks + t * thread_elems();
      float* m = v + kPoints * block_ * v_pitch_;
      const int64_t end = image_.tiles() * (t + 1) / threads_;
      for (int64_t first = image_.tiles() * t / threads_; first < end; first += block_) {
        const int64_t count = std::min(block_, end - first);
        of_operands_.patches(image_, args.inputs[0], first, count, v_pitch_, v);
        HWY_DYNAMIC_DISPATCH(winograd_products)(count, channels, outputs, v, v_pitch_, u, u_pitch_, m);
        of_result_.results(result_, m, first, count, u_pitch_, bias, args.outputs[0]);
      }
    });
  }

 private:
  int64_t kernel_elems() const { return kPoints * image_.channels * u_pitch_; }
  int64_t turned_elems() const { return turned_ ? 9 * image_.channels * result_.channels : 0; }
  int64_t thread_elems() const { return kPoints * block_ * (v_pitch_ + u_pitch_); }

  /// to[tap][channel][output] = kernel[tap][output][channel] for channels [begin, end).
  template <typename E>
  void exchange_channels(const E* kernel, int64_t begin, int64_t end, float* to) const {
    const int64_t channels = image_.channels;
    const int64_t outputs = result_.channels;
    for (int64_t tap = 0; tap < 9; ++tap) {
      for (int64_t c = begin; c < end; ++c) {
        const E* from = kernel + tap * channels * outputs + c;
        float* row = to + (tap * channels + c) * outputs;
        for (int64_t o = 0; o < outputs; ++o) row[o] = static_cast<float>(from[o * channels]);
      }
    }
  }

  TileGrid image_, result_;
  bool turned_, bias_;
  DType operand_dtype_;
  const TransformsOf& of_operands_;
  const TransformsOf& of_result_;
  const TransformsOf& of_turned_;
  int threads_;
  int64_t v_pitch_, u_pitch_, block_;
};

class WinogradWeightGradient final : public graph::Kernel {
 public:
  WinogradWeightGradient(const TileGrid& image, const TileGrid& result, bool bias, DType operands,
                         int threads)
      : image_(image),
        result_(result),
        bias_(bias),
        of_operands_(*HWY_DYNAMIC_DISPATCH(winograd_transforms)(operands)),
        threads_(threads),
        v_pitch_(align_up<int64_t>(image.channels, kPitch)),
        m_pitch_(align_up<int64_t>(result.channels, kPitch)),
        block_(block_tiles(v_pitch_ + m_pitch_, (image.tiles() + threads - 1) / threads)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(threads_ * thread_elems()) * sizeof(float);
  }

  void run(const KernelArgs& args) override {
    float* dkernel = reinterpret_cast<float*>(args.outputs[0]);
    float* workspace = reinterpret_cast<float*>(args.workspace);
    const int64_t channels = image_.channels;
    const int64_t outputs = result_.channels;
    each_thread(threads_, [&](int64_t t) {
      float* u = workspace + t * thread_elems();
      float* sums = u + kPoints * channels * m_pitch_;
      float* v = sums + m_pitch_;
      float* m = v + kPoints * block_ * v_pitch_;
      std::fill_n(sums, m_pitch_, 0.0f);
      const int64_t begin = image_.tiles() * t / threads_;
      const int64_t end = image_.tiles() * (t + 1) / threads_;
      for (int64_t first = begin; first < end; first += block_) {
        const int64_t count = std::min(block_, end - first);
        of_operands_.patches(image_, args.inputs[0], first, count, v_pitch_, v);
        of_operands_.gradient_tiles(result_, args.inputs[1], first, count, m_pitch_, m);
        if (bias_) add_sums(m + kSumPoint * count * m_pitch_, count, sums);
        HWY_DYNAMIC_DISPATCH(winograd_gradient_products)
        (count, channels, outputs, v, v_pitch_, m, m_pitch_, first > begin, u);
      }
      if (begin == end) std::fill_n(u, kPoints * channels * m_pitch_, 0.0f);
    });
    parallel_for(threads_, channels, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(winograd_kernel_gradient)
      (workspace, threads_, thread_elems(), channels, outputs, begin, end, m_pitch_, dkernel);
    });
    if (bias_)
      store_bias(workspace + kPoints * channels * m_pitch_, reinterpret_cast<float*>(args.outputs[1]));
  }

 private:
  int64_t thread_elems() const {
    return kPoints * image_.channels * m_pitch_ + m_pitch_ + kPoints * block_ * (v_pitch_ + m_pitch_);
  }
  void add_sums(const float* rows, int64_t count, float* sums) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t o = 0; o < result_.channels; ++o) sums[o] += rows[i * m_pitch_ + o];
    }
  }
  void store_bias(const float* sums, float* dbias) const {
    for (int64_t o = 0; o < result_.channels; ++o) {
      dbias[o] = 0;
      for (int t = 0; t < threads_; ++t) dbias[o] += sums[t * thread_elems() + o];
    }
  }

  TileGrid image_, result_;
  bool bias_;
  const TransformsOf& of_operands_;
  int threads_;
  int64_t v_pitch_, m_pitch_, block_;
};

bool serves(const ConvolutionShape& s) {
  constexpr int64_t kFewChannels = 8;
  const auto fits = [](const WindowAxis& axis) {
    return axis.window == kWindow && axis.stride == 1 && axis.dilation == 1 && axis.before < kWindow;
  };
  return s.groups == 1 && s.planar() && fits(s.height) && fits(s.width) &&
         std::min(s.channels, s.outputs) >= kFewChannels && s.batch > 0;
}

}  // namespace

std::unique_ptr<graph::Kernel> make_winograd(ConvolutionPass pass, const ConvolutionShape& s, bool bias,
                                             int threads, const WinogradDtypes& dtypes) {
  if (!serves(s)) return nullptr;
  if (pass == ConvolutionPass::kWeightGradient && dtypes.result != DType::kF32) return nullptr;
  const WindowAxis& h = s.height;
  const WindowAxis& w = s.width;
  if (pass == ConvolutionPass::kInputGradient) {
    const TileGrid image = grid_of(s.batch, h.output, w.output, s.outputs, h.input, w.input,
                                   kWindow - 1 - h.before, kWindow - 1 - w.before);
    const TileGrid result = grid_of(s.batch, h.input, w.input, s.channels, h.input, w.input, 0, 0);
    return std::make_unique<WinogradCorrelation>(image, result, true, false, dtypes, threads);
  }
  const TileGrid image =
      grid_of(s.batch, h.input, w.input, s.channels, h.output, w.output, h.before, w.before);
  const TileGrid result = grid_of(s.batch, h.output, w.output, s.outputs, h.output, w.output, 0, 0);
  if (pass == ConvolutionPass::kForward) {
    return std::make_unique<WinogradCorrelation>(image, result, false, bias, dtypes, threads);
  }
  return std::make_unique<WinogradWeightGradient>(image, result, bias, dtypes.operands, threads);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
