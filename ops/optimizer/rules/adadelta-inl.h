// Adadelta. Part of update_functors-inl.h.

template <class M>
struct Adadelta {
  static constexpr int kStates = 2;
  using V = typename M::V;
  V rate, new_2, old_2, epsilon;
  explicit HWY_INLINE Adadelta(const UpdateNumbers& n)
      : rate(M::set(n.rate)),
        new_2(M::set(n.new_2)),
        old_2(M::set(n.old_2)),
        epsilon(M::set(n.epsilon_inside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = M::mul_add(old_2, s[0], new_2 * (g * g));
    const V move = g * (M::sqrt(s[1] + epsilon) / M::sqrt(s[0] + epsilon));
    s[1] = M::mul_add(old_2, s[1], new_2 * (move * move));
    return M::neg_mul_add(rate, move, p);
  }
};
