// Adam's moments, and its update. Part of update_functors-inl.h.

/// The two moments of Adam and its kin, as s[0] and s[1].
template <class M>
struct Moments {
  using V = typename M::V;
  V new_1, new_2, root_factor, epsilon;
  explicit HWY_INLINE Moments(const UpdateNumbers& n)
      : new_1(M::set(n.new_1)),
        new_2(M::set(n.new_2)),
        root_factor(M::set(n.root_factor)),
        epsilon(M::set(n.epsilon_outside)) {}
  HWY_INLINE void take(V g, V* s) const {
    s[0] = M::mul_add(g - s[0], new_1, s[0]);
    s[1] = M::mul_add(M::mul_sub(g, g, s[1]), new_2, s[1]);
  }
  /// What the first moment is divided by; `second`: the second moment.
  HWY_INLINE V divisor(V second) const { return M::mul_add(M::sqrt(second), root_factor, epsilon); }
};

template <class M, bool kAmsgrad>
struct AdamRule {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  using V = typename M::V;
  V rate;
  Moments<M> moments;
  explicit HWY_INLINE AdamRule(const UpdateNumbers& n) : rate(M::set(n.rate)), moments(n) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    moments.take(g, s);
    V v = s[1];
    if constexpr (kAmsgrad) v = s[2] = M::max(s[2], v);
    return p - (rate * s[0]) / moments.divisor(v);
  }
};
template <class M>
using Adam = AdamRule<M, false>;
template <class M>
using Amsgrad = AdamRule<M, true>;
