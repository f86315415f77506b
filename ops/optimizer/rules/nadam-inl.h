// Nadam. Part of update_functors-inl.h.

template <class M>
struct Nadam {
  static constexpr int kStates = 2;
  using V = typename M::V;
  V rate, gradient_rate;
  Moments<M> moments;
  explicit HWY_INLINE Nadam(const UpdateNumbers& n)
      : rate(M::set(n.rate)), gradient_rate(M::set(n.gradient_rate)), moments(n) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    moments.take(g, s);
    return p - M::mul_add(rate, s[0], gradient_rate * g) / moments.divisor(s[1]);
  }
};
