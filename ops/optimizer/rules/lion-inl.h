// Lion. Part of update_functors-inl.h.

template <class M>
struct Lion {
  static constexpr int kStates = 1;
  using V = typename M::V;
  V rate, new_1, new_2;
  explicit HWY_INLINE Lion(const UpdateNumbers& n)
      : rate(M::set(n.rate)), new_1(M::set(n.new_1)), new_2(M::set(n.new_2)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    const V difference = g - s[0];
    const V direction = M::mul_add(difference, new_1, s[0]);
    s[0] = M::mul_add(difference, new_2, s[0]);
    // Zero and NaN stay what they are.
    const V step = M::select(M::less(M::set(0), direction), M::set(1),
                             M::select(M::less(direction, M::set(0)), M::set(-1), direction));
    return M::neg_mul_add(rate, step, p);
  }
};
