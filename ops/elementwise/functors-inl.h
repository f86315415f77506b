// The element functions of float dtypes, written once over a small vocabulary `M`: for Highway vectors per
// instruction set (backends/cpu/elementwise/tile_functions.cc), and for plain scalars (tests, device code).
// `M` gives a value type `V` with arithmetic operators, a mask type `Mask`, and the functions used below.
// Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_FUNCTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_FUNCTORS_INL_H_
#undef ISOCHRON_OPS_FUNCTORS_INL_H_
#else
#define ISOCHRON_OPS_FUNCTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

template <class M>
struct Functors {
  using V = typename M::V;

  static HWY_INLINE V copy(V x) { return x; }
  static HWY_INLINE V neg(V x) { return M::neg(x); }
  static HWY_INLINE V abs(V x) { return M::abs(x); }
  static HWY_INLINE V sign(V x) {
    const V zero = M::set(0);
    const V magnitude = M::select(M::less(x, zero), M::set(-1), M::select(M::less(zero, x), M::set(1), zero));
    return M::select(M::is_nan(x), x, magnitude);
  }
  static HWY_INLINE V square(V x) { return x * x; }
  static HWY_INLINE V sqrt(V x) { return M::sqrt(x); }
  static HWY_INLINE V rsqrt(V x) { return M::set(1) / M::sqrt(x); }
  static HWY_INLINE V reciprocal(V x) { return M::set(1) / x; }
  static HWY_INLINE V exp(V x) { return M::exp(x); }
  static HWY_INLINE V expm1(V x) { return M::expm1(x); }
  static HWY_INLINE V log(V x) { return M::log(x); }
  static HWY_INLINE V log1p(V x) { return M::log1p(x); }
  static HWY_INLINE V sin(V x) { return M::sin(x); }
  static HWY_INLINE V cos(V x) { return M::cos(x); }
  static HWY_INLINE V tanh(V x) { return M::tanh(x); }
  static HWY_INLINE V sigmoid(V x) { return M::sigmoid(x); }
  static HWY_INLINE V erf(V x) { return M::erf(x); }
  static HWY_INLINE V relu(V x) { return M::select(M::less(x, M::set(0)), M::set(0), x); }
  static HWY_INLINE V relu6(V x) { return M::select(M::less(M::set(6), x), M::set(6), relu(x)); }
  /// log(1 + e^x) = max(x, 0) + log1p(e^-|x|).
  static HWY_INLINE V softplus(V x) { return relu(x) + M::log1p_unit(M::exp(neg(M::abs(x)))); }
  static HWY_INLINE V silu(V x) { return x * sigmoid(x); }
  /// x Phi(x) (Hendrycks and Gimpel 2016, exact form). Phi is next to 0 where x is clamped.
  static HWY_INLINE V gelu(V x) { return M::at_least(x, -M::kNormalRange) * M::normal(x).cumulative; }
  /// Phi(x) + x phi(x), times the incoming gradient; phi is next to 0 where x is clamped.
  static HWY_INLINE V gelu_grad(V gradient, V x) {
    const auto normal = M::normal(x);
    return gradient * (normal.cumulative + M::clamp(x, M::kNormalRange) * normal.density);
  }
  /// The tanh approximation of the same paper, x (1 + tanh(u)) / 2 written as x sigmoid(2u): nothing cancels
  /// in the negative tail.
  static HWY_INLINE V gelu_tanh(V x) {
    const V twice = M::set(1.5957691216057307118) * (x + M::set(0.044715) * x * x * x);
    return x * M::sigmoid(twice);
  }
  static HWY_INLINE V floor(V x) { return M::floor(x); }
  static HWY_INLINE V ceil(V x) { return M::ceil(x); }
  static HWY_INLINE V round(V x) { return M::round(x); }
  static HWY_INLINE V trunc(V x) { return M::trunc(x); }
  static HWY_INLINE V add(V a, V b) { return a + b; }
  static HWY_INLINE V sub(V a, V b) { return a - b; }
  static HWY_INLINE V mul(V a, V b) { return a * b; }
  static HWY_INLINE V div(V a, V b) { return a / b; }
  /// NaN in either operand gives NaN.
  static HWY_INLINE V maximum(V a, V b) {
    return M::select(M::is_nan(a), a, M::select(M::is_nan(b), b, M::select(M::less(a, b), b, a)));
  }
  static HWY_INLINE V minimum(V a, V b) {
    return M::select(M::is_nan(a), a, M::select(M::is_nan(b), b, M::select(M::less(b, a), b, a)));
  }
  /// gradient where x > 0, else 0.
  static HWY_INLINE V relu_grad(V gradient, V x) {
    return M::select(M::less(M::set(0), x), gradient, M::set(0));
  }
  static HWY_INLINE V clip(V x, V low, V high) { return minimum(maximum(x, low), high); }
  static HWY_INLINE V mul_add(V a, V b, V c) { return M::mul_add(a, b, c); }
};

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
