// Row-wise normalization and its gradient, in one pass each.
#include "isochron/backends/cpu/normalization/normalization.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "isochron/backends/cpu/common/rows_kernel.h"
#include "isochron/core/base/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/normalization/normalization.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of up to kSumTile elements need neither a loop over tiles nor f64 sums, which would cost 10% of their
// time.

template <bool kTiles, typename T>
using RowSum = std::conditional_t<kTiles, double, T>;

template <bool kTiles, typename T, class Term>
HWY_INLINE RowSum<kTiles, T> sum_of_row(int64_t columns, Term term) {
  if constexpr (kTiles) return sum_of<T>(columns, term);
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  each_vector(d, columns, [&](int64_t i, size_t lanes) HWY_ATTR { sum = sum + term(i, lanes); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <bool kTiles, typename E, typename T>
void layer_norm(const LayerNormRows<E, T>& of) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < of.rows; ++r) {
    const E* x = of.x + r * of.columns;
    T mean = 0;
    if (of.centered) {
      const auto sum = sum_of_row<kTiles, T>(
          of.columns, [&](int64_t i, size_t lanes) HWY_ATTR { return load_numbers(d, x + i, lanes); });
      mean = static_cast<T>(sum / static_cast<RowSum<kTiles, T>>(of.columns));
    }
    const auto center = hn::Set(d, mean);
    const auto squares = sum_of_row<kTiles, T>(of.columns, [&](int64_t i, size_t lanes) HWY_ATTR {
      const auto e = load_numbers(d, x + i, lanes) - center;
      const auto square = e * e;
      return lanes == hn::Lanes(d) ? square : hn::IfThenElseZero(hn::FirstN(d, lanes), square);
    });
    const T rstd = static_cast<T>(
        1.0 / std::sqrt(static_cast<double>(squares) / static_cast<double>(of.columns) + of.epsilon));
    const auto factor = hn::Set(d, rstd);
    if (of.mean) of.mean[r] = mean;
    if (of.rstd) of.rstd[r] = rstd;
    if (!of.y) continue;
    E* y = of.y + r * of.columns;
    const T *gamma = of.gamma, *beta = of.beta;
    each_vector(d, of.columns, [&](int64_t i, size_t lanes) HWY_ATTR {
      auto value = (load_numbers(d, x + i, lanes) - center) * factor;
      if (gamma) value = value * load_lanes(d, gamma + i, lanes);
      if (beta) value = value + load_lanes(d, beta + i, lanes);
      store_numbers(d, value, y + i, lanes);
    });
  }
}

template <bool kTiles, typename E, typename T>
void layer_norm_gradient(const LayerNormGradientRows<E, T>& of) {
  const hn::ScalableTag<T> d;
  const T *gamma = of.gamma, one_over_columns = T(1) / static_cast<T>(of.columns);
  T *dgamma = of.dgamma, *dbeta = of.dbeta;
  const auto weighted = [&](const E* from, int64_t i, size_t lanes) HWY_ATTR {
    const auto g = load_numbers(d, from + i, lanes);
    return gamma ? g * load_lanes(d, gamma + i, lanes) : g;
  };
  for (int64_t r = 0; r < of.rows; ++r) {
    const int64_t at = r * of.columns;
    const E *x = of.x + at, *dy = of.dy + at, *added = of.added ? of.added + at : nullptr;
    const auto center = hn::Set(d, of.centered ? of.mean[r] : T(0));
    const auto scale = hn::Set(d, of.rstd[r]);
    RowSum<kTiles, T> total = 0, total_dot = 0;
    for (int64_t begin = 0; begin < (kTiles ? of.columns : 1); begin += kSumTile) {
      const int64_t count = kTiles ? std::min(kSumTile, of.columns - begin) : of.columns;
      auto sum = hn::Zero(d);
      auto dot = hn::Zero(d);
      each_vector(d, count, [&](int64_t at_tile, size_t lanes) HWY_ATTR {
        const int64_t i = begin + at_tile;
        const auto normal = (load_numbers(d, x + i, lanes) - center) * scale;
        const auto g = load_numbers(d, dy + i, lanes);  // 0 in lanes beyond the end
        const auto w = gamma ? g * load_lanes(d, gamma + i, lanes) : g;
        sum = sum + w;
        dot = hn::MulAdd(w, normal, dot);
        if (dgamma)
          store_lanes(d, hn::MulAdd(g, normal, load_lanes(d, dgamma + i, lanes)), dgamma + i, lanes);
        if (dbeta) store_lanes(d, load_lanes(d, dbeta + i, lanes) + g, dbeta + i, lanes);
      });
      total += hn::GetLane(hn::SumOfLanes(d, sum));
      total_dot += hn::GetLane(hn::SumOfLanes(d, dot));
    }
    if (!of.dx) continue;
    E* dx = of.dx + at;
    const auto mean_sum = hn::Set(d, of.centered ? static_cast<T>(total) * one_over_columns : T(0));
    const auto mean_dot = hn::Set(d, static_cast<T>(total_dot) * one_over_columns);
    each_vector(d, of.columns, [&](int64_t i, size_t lanes) HWY_ATTR {
      const auto normal = (load_numbers(d, x + i, lanes) - center) * scale;
      const auto value = weighted(dy, i, lanes) - hn::MulAdd(normal, mean_dot, mean_sum);
      store_numbers(d, added ? hn::MulAdd(value, scale, load_numbers(d, added + i, lanes)) : value * scale,
                    dx + i, lanes);
    });
  }
}

#define ISOCHRON_LAYER_NORM(E, T, suffix)                                                   \
  void layer_norm_##suffix(const LayerNormRows<E, T>& of) {                                 \
    of.columns > kSumTile ? layer_norm<true>(of) : layer_norm<false>(of);                   \
  }                                                                                         \
  void layer_norm_gradient_##suffix(const LayerNormGradientRows<E, T>& of) {                \
    of.columns > kSumTile ? layer_norm_gradient<true>(of) : layer_norm_gradient<false>(of); \
  }
ISOCHRON_LAYER_NORM(float, float, f32)
ISOCHRON_LAYER_NORM(double, double, f64)
ISOCHRON_LAYER_NORM(float16, float, f16)
ISOCHRON_LAYER_NORM(bfloat16, float, bf16)
#undef ISOCHRON_LAYER_NORM

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(layer_norm_f32);
HWY_EXPORT(layer_norm_f64);
HWY_EXPORT(layer_norm_f16);
HWY_EXPORT(layer_norm_bf16);
HWY_EXPORT(layer_norm_gradient_f32);
HWY_EXPORT(layer_norm_gradient_f64);
HWY_EXPORT(layer_norm_gradient_f16);
HWY_EXPORT(layer_norm_gradient_bf16);

namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr int64_t kGradientRows = 64;  // rows per sum of parameter gradients in T; f64 beyond

template <typename E>
class LayerNormKernel final : public RowsKernel<E> {
 public:
  explicit LayerNormKernel(const KernelRequest& request)
      : RowsKernel<E>(request),
        epsilon_(request.attributes.get<double>("epsilon")),
        centered_(request.attributes.get<bool>("centered")),
        inputs_(request.inputs.size()) {}
  void run(const KernelArgs& args) override {
    const auto* gamma = inputs_ > 1 ? this->number_input(args, 1) : nullptr;
    const auto* beta = inputs_ > 2 ? this->number_input(args, 2) : nullptr;
    E* y = this->output(args, 0);
    auto* mean = this->number_output(args, 1);
    auto* rstd = this->number_output(args, 2);
    this->each_part([&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = begin * this->columns_;
      ISOCHRON_CALL_STORED(layer_norm, {.rows = end - begin,
                                        .columns = this->columns_,
                                        .centered = centered_,
                                        .epsilon = epsilon_,
                                        .x = this->input(args, 0) + at,
                                        .gamma = gamma,
                                        .beta = beta,
                                        .y = y ? y + at : nullptr,
                                        .mean = mean ? mean + begin : nullptr,
                                        .rstd = rstd ? rstd + begin : nullptr});
    });
  }

 private:
  double epsilon_;
  bool centered_;
  size_t inputs_;
};

template <typename E>
class LayerNormGradientKernel final : public RowsKernel<E> {
 public:
  using T = ComputeType<E>;
  explicit LayerNormGradientKernel(const KernelRequest& request)
      : RowsKernel<E>(request),
        centered_(request.attributes.get<bool>("centered")),
        scaled_(request.inputs.size() > 4),
        added_(request.inputs.size() > 5),
        block_bytes_(align_up<size_t>(static_cast<size_t>(2 * this->columns_) * sizeof(T), 64)) {}
  size_t workspace_bytes() const override {
    return scaled_ ? static_cast<size_t>(this->threads_) * thread_bytes() : 0;
  }
  void run(const KernelArgs& args) override {
    const T* gamma = scaled_ ? this->number_input(args, 4) : nullptr;
    this->each_part([&](int64_t t, int64_t begin, int64_t end) {
      if (scaled_) std::fill_n(totals(args, t), 2 * this->columns_, 0.0);
      for (int64_t first = begin; first < end; first += kGradientRows) {
        add_rows(args, t, first, std::min(kGradientRows, end - first), gamma);
      }
    });
    if (scaled_) store_totals(args);
  }

 private:
  size_t thread_bytes() const {
    return block_bytes_ + align_up<size_t>(static_cast<size_t>(2 * this->columns_) * sizeof(double), 64);
  }
  T* block(const KernelArgs& args, int64_t t) const {
    return reinterpret_cast<T*>(args.workspace + static_cast<size_t>(t) * thread_bytes());
  }
  double* totals(const KernelArgs& args, int64_t t) const {
    return reinterpret_cast<double*>(args.workspace + static_cast<size_t>(t) * thread_bytes() + block_bytes_);
  }

  void add_rows(const KernelArgs& args, int64_t t, int64_t first, int64_t count, const T* gamma) const {
    const int64_t columns = this->columns_;
    const int64_t at = first * columns;
    T* dgamma = scaled_ && args.outputs[1] ? block(args, t) : nullptr;
    T* dbeta = scaled_ && args.outputs[2] ? block(args, t) + columns : nullptr;
    if (scaled_) std::fill_n(block(args, t), 2 * columns, T(0));
    const E* added = added_ ? this->input(args, 5) : nullptr;
    E* dx = this->output(args, 0);
    ISOCHRON_CALL_STORED(layer_norm_gradient, {.rows = count,
                                               .columns = columns,
                                               .centered = centered_,
                                               .x = this->input(args, 0) + at,
                                               .mean = this->number_input(args, 1) + first,
                                               .rstd = this->number_input(args, 2) + first,
                                               .dy = this->input(args, 3) + at,
                                               .gamma = gamma,
                                               .added = added ? added + at : nullptr,
                                               .dx = dx ? dx + at : nullptr,
                                               .dgamma = dgamma,
                                               .dbeta = dbeta});
    if (!scaled_) return;
    double* into = totals(args, t);
    for (int64_t i = 0; i < 2 * columns; ++i) into[i] += static_cast<double>(block(args, t)[i]);
  }

  void store_totals(const KernelArgs& args) const {
    for (int part = 0; part < 2; ++part) {
      T* to = this->number_output(args, 1 + part);
      if (!to) continue;
      for (int64_t i = 0; i < this->columns_; ++i) {
        double total = 0;
        for (int t = 0; t < this->threads_; ++t) total += totals(args, t)[part * this->columns_ + i];
        to[i] = static_cast<T>(total);
      }
    }
  }

  bool centered_;
  bool scaled_;
  bool added_;
  size_t block_bytes_;
};
}  // namespace

std::unique_ptr<graph::Kernel> prepare_layer_norm(const KernelRequest& request) {
  if (request.outputs[0].dtype != request.inputs[0].dtype) return nullptr;
  return by_stored_dtype<LayerNormKernel>(request.inputs[0].dtype, request);
}
std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (request.inputs[3].dtype != dtype || request.outputs[0].dtype != dtype) return nullptr;
  if (request.inputs.size() > 5 && request.inputs[5].dtype != dtype) return nullptr;
  return by_stored_dtype<LayerNormGradientKernel>(dtype, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
