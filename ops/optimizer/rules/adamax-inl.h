// Adamax. Part of update_functors-inl.h.

template <class M>
struct Adamax {
  static constexpr int kStates = 2;
  using V = typename M::V;
  V rate, new_1, old_2, epsilon_inside, epsilon_outside;
  explicit HWY_INLINE Adamax(const UpdateNumbers& n)
      : rate(M::set(n.rate)),
        new_1(M::set(n.new_1)),
        old_2(M::set(n.old_2)),
        epsilon_inside(M::set(n.epsilon_inside)),
        epsilon_outside(M::set(n.epsilon_outside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = M::mul_add(g - s[0], new_1, s[0]);
    s[1] = M::max(old_2 * s[1], M::abs(g) + epsilon_inside);
    return p - (rate * s[0]) / (s[1] + epsilon_outside);
  }
};
