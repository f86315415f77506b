// Rprop. Part of update_functors-inl.h.

template <class M>
struct Rprop {
  static constexpr int kStates = 2;
  using V = typename M::V;
  V rate, eta_minus, eta_plus, min_step, max_step;
  explicit HWY_INLINE Rprop(const UpdateNumbers& n)
      : rate(M::set(n.rate)),
        eta_minus(M::set(n.eta_minus)),
        eta_plus(M::set(n.eta_plus)),
        min_step(M::set(n.min_step)),
        max_step(M::set(n.max_step)) {}
  /// Zero and NaN stay what they are.
  static HWY_INLINE V sign(V x) {
    return M::select(M::less(M::set(0), x), M::set(1), M::select(M::less(x, M::set(0)), M::set(-1), x));
  }
  HWY_INLINE V operator()(V p, V g, V* s) const {
    const V zero = M::set(0);
    const V agreement = sign(g) * sign(s[0]);  // of g and s[0] the product could be too small for a float
    const V begun = M::select(M::less(zero, s[1]), s[1], rate);
    const V step = M::select(M::less(zero, agreement), begun * eta_plus,
                             M::select(M::less(agreement, zero), begun * eta_minus, begun));
    const V gradient = M::select(M::less(agreement, zero), zero, g);
    const V bounded =
        M::select(M::less(step, min_step), min_step, M::select(M::less(max_step, step), max_step, step));
    const auto learns = M::less(zero, rate);
    s[0] = M::select(learns, gradient, s[0]);
    s[1] = M::select(learns, bounded, s[1]);
    return M::select(learns, M::neg_mul_add(bounded, sign(gradient), p), p);
  }
};
