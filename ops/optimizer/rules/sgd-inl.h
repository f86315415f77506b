// SGD. Part of update_functors-inl.h.

template <class M>
struct Sgd {
  static constexpr int kStates = 0;
  using V = typename M::V;
  V rate;
  explicit HWY_INLINE Sgd(const UpdateNumbers& n) : rate(M::set(n.rate)) {}
  HWY_INLINE V operator()(V p, V g, V*) const { return M::neg_mul_add(rate, g, p); }
};

template <class M, bool kNesterov>
struct MomentumRule {
  static constexpr int kStates = 1;
  using V = typename M::V;
  V rate, momentum, velocity_rate;
  explicit HWY_INLINE MomentumRule(const UpdateNumbers& n)
      : rate(M::set(n.rate)), momentum(M::set(n.momentum)), velocity_rate(M::set(n.velocity_rate)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    const V scaled = velocity_rate * g;
    s[0] = M::mul_add(momentum, s[0], scaled);
    return M::neg_mul_add(rate, kNesterov ? M::mul_add(momentum, s[0], scaled) : s[0], p);
  }
};
template <class M>
using Momentum = MomentumRule<M, false>;
template <class M>
using Nesterov = MomentumRule<M, true>;
