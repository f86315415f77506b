#include "isochron/backends/cpu/optimizer/norm_functions.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/optimizer/norm_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
const T* as(const void* pointer) {
  return static_cast<const T*>(pointer);
}
template <typename T>
T* as(void* pointer) {
  return static_cast<T*>(pointer);
}

template <typename T>
struct LambMove {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  D d;
  V mean_factor, root_factor, epsilon;
  explicit LambMove(const LambNumbers& n)
      : mean_factor(hn::Set(d, static_cast<T>(n.mean_factor))),
        root_factor(hn::Set(d, static_cast<T>(n.root_factor))),
        epsilon(hn::Set(d, static_cast<T>(n.epsilon))) {}
  HWY_INLINE V operator()(V mean, V square, size_t lanes) const {
    const V move = mean * mean_factor / hn::MulAdd(hn::Sqrt(square), root_factor, epsilon);
    return hn::IfThenElseZero(hn::FirstN(d, lanes), move);
  }
};

template <typename T>
SquareSums lamb_moments(const LambNumbers& n, const LambRun& run) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, static_cast<T>(n.gradient_factor));
  const auto parameter_factor = hn::Set(d, static_cast<T>(n.parameter_factor));
  const auto new_1 = hn::Set(d, static_cast<T>(n.new_1));
  const auto new_2 = hn::Set(d, static_cast<T>(n.new_2));
  const LambMove<T> move_of(n);
  SquareSums sums;
  for (int64_t begin = 0; begin < run.count; begin += kSumTile) {
    auto parameters = hn::Zero(d);
    auto moves = hn::Zero(d);
    each_vector(d, std::min(kSumTile, run.count - begin), [&](int64_t at, size_t lanes) {
      const int64_t i = begin + at;
      const auto p = load_lanes(d, as<T>(run.parameter) + i, lanes) * parameter_factor;
      const auto g = load_lanes(d, as<T>(run.gradient) + i, lanes) * factor;
      auto m = load_lanes(d, as<T>(run.states[0]) + i, lanes);
      auto v = load_lanes(d, as<T>(run.states[1]) + i, lanes);
      m = hn::MulAdd(g - m, new_1, m);
      v = hn::MulAdd(hn::MulSub(g, g, v), new_2, v);
      store_lanes(d, m, as<T>(run.new_states[0]) + i, lanes);
      store_lanes(d, v, as<T>(run.new_states[1]) + i, lanes);
      const auto move = move_of(m, v, lanes);
      parameters = hn::MulAdd(p, p, parameters);
      moves = hn::MulAdd(move, move, moves);
    });
    sums.parameter += sum_of_lanes(d, parameters);
    sums.other += sum_of_lanes(d, moves);
  }
  return sums;
}

template <typename T>
void lamb_move(const LambNumbers& n, const LambRun& run, double rate) {
  const hn::ScalableTag<T> d;
  const auto parameter_factor = hn::Set(d, static_cast<T>(n.parameter_factor));
  const auto factor = hn::Set(d, static_cast<T>(rate));
  const LambMove<T> move_of(n);
  each_vector(d, run.count, [&](int64_t i, size_t lanes) {
    const auto m = load_lanes(d, as<T>(run.new_states[0]) + i, lanes);
    const auto v = load_lanes(d, as<T>(run.new_states[1]) + i, lanes);
    const auto p = load_lanes(d, as<T>(run.parameter) + i, lanes) * parameter_factor;
    store_lanes(d, hn::NegMulAdd(factor, move_of(m, v, lanes), p), as<T>(run.new_parameter) + i, lanes);
  });
}

template <typename T>
SquareSums square_sums(const void* parameter, double parameter_factor, const void* gradient, double factor,
                       int64_t count) {
  const hn::ScalableTag<T> d;
  const auto squares = [&](const void* array, double number) {
    const auto by = hn::Set(d, static_cast<T>(number));
    return sum_of<T>(count, [&](int64_t i, size_t lanes) {
      const auto x = load_lanes(d, as<T>(array) + i, lanes) * by;
      return x * x;
    });
  };
  return {squares(parameter, parameter_factor), squares(gradient, factor)};
}

template <typename T>
void square_moment(const void* gradient, double factor, double old_share, double epsilon, const void* moment,
                   void* new_moment, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto by = hn::Set(d, static_cast<T>(factor));
  const auto old_weight = hn::Set(d, static_cast<T>(old_share));
  const auto new_weight = hn::Set(d, static_cast<T>(1 - old_share));
  const auto offset = hn::Set(d, static_cast<T>(epsilon));
  each_vector(d, count, [&](int64_t i, size_t lanes) {
    const auto g = load_lanes(d, as<T>(gradient) + i, lanes) * by;
    const auto v = load_lanes(d, as<T>(moment) + i, lanes);
    store_lanes(d, hn::MulAdd(old_weight, v, new_weight * hn::MulAdd(g, g, offset)), as<T>(new_moment) + i,
                lanes);
  });
}

/// Converts as many elements as `wide` has lanes to f64.
template <class D>
HWY_INLINE hn::Vec<D> widened(D, hn::Vec<D> v) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> widened(D wide, hn::Vec<hn::Rebind<float, D>> v) {
  return hn::PromoteTo(wide, v);
}

template <typename T>
void column_squares(const void* gradient, double factor, int64_t rows, int64_t stride, int64_t columns,
                    double* sums) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, hn::ScalableTag<double>> narrow;  // as many elements of T
  const auto by = hn::Set(wide, factor);
  std::fill(sums, sums + columns, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = as<T>(gradient) + r * stride;
    each_vector(wide, columns, [&](int64_t j, size_t lanes) {
      const auto g = widened(wide, load_lanes(narrow, row + j, lanes)) * by;
      store_lanes(wide, hn::MulAdd(g, g, load_lanes(wide, sums + j, lanes)), sums + j, lanes);
    });
  }
}

template <typename T>
struct FactoredMove {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  D d;
  const T* gradient;
  const T* column;
  V factor, root_scale;
  explicit FactoredMove(const FactoredRow& row)
      : gradient(as<T>(row.gradient)),
        column(as<T>(row.column)),
        factor(hn::Set(d, static_cast<T>(row.gradient_factor))),
        root_scale(hn::Set(d, static_cast<T>(std::sqrt(row.scale)))) {}
  HWY_INLINE V operator()(int64_t i, size_t lanes) const {
    // The roots are multiplied instead of the moments, whose product could underflow: if a whole row and a
    // whole column of the gradient are zero, both moments are about epsilon_1, 1e-30.
    const V root = hn::Sqrt(load_lanes(d, column + i, lanes)) * root_scale;
    const V least = hn::Set(d, std::numeric_limits<T>::min());
    const V divisor = hn::IfThenElse(hn::Lt(root, least), least, root);  // NaN stays
    const V move = load_lanes(d, gradient + i, lanes) * factor / divisor;
    return hn::IfThenElseZero(hn::FirstN(d, lanes), move);
  }
};

template <typename T>
double move_squares(const FactoredRow& row) {
  const FactoredMove<T> move_of(row);
  return sum_of<T>(row.count, [&](int64_t i, size_t lanes) {
    const auto move = move_of(i, lanes);
    return move * move;
  });
}

template <typename T>
void move(const FactoredRow& row, const void* parameter, double parameter_factor, double rate,
          void* new_parameter) {
  const hn::ScalableTag<T> d;
  const FactoredMove<T> move_of(row);
  const auto by = hn::Set(d, static_cast<T>(parameter_factor));
  const auto step = hn::Set(d, static_cast<T>(rate));
  each_vector(d, row.count, [&](int64_t i, size_t lanes) {
    const auto p = load_lanes(d, as<T>(parameter) + i, lanes) * by;
    store_lanes(d, hn::NegMulAdd(step, move_of(i, lanes), p), as<T>(new_parameter) + i, lanes);
  });
}

template <typename T>
NormFunctions functions_of() {
  return {lamb_moments<T>,   lamb_move<T>,    square_sums<T>, square_moment<T>,
          column_squares<T>, move_squares<T>, move<T>};
}

NormFunctions functions(DType dtype) {
  return dtype == DType::kF32 ? functions_of<float>() : functions_of<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(functions);

NormFunctions norm_functions(DType dtype) { return HWY_DYNAMIC_DISPATCH(functions)(dtype); }

}  // namespace isochron::ops
#endif  // HWY_ONCE
