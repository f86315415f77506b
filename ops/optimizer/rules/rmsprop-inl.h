// RMSprop and Adagrad. Part of update_functors-inl.h.

template <class M, bool kCentered, bool kMomentum>
struct RmsRule {
  static constexpr int kStates = 1 + kCentered + kMomentum;
  using V = typename M::V;
  V new_2, old_2, epsilon_inside, epsilon_outside, rate;
  Momentum<M> descend;
  explicit HWY_INLINE RmsRule(const UpdateNumbers& n)
      : new_2(M::set(n.new_2)),
        old_2(M::set(n.old_2)),
        epsilon_inside(M::set(n.epsilon_inside)),
        epsilon_outside(M::set(n.epsilon_outside)),
        rate(M::set(n.rate)),
        descend(n) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = M::mul_add(old_2, s[0], new_2 * (g * g));
    V square = s[0];
    if constexpr (kCentered) {
      s[1] = M::mul_add(old_2, s[1], new_2 * g);
      square = M::max(M::neg_mul_add(s[1], s[1], square), M::set(0));
    }
    const V root = M::sqrt(square + epsilon_inside) + epsilon_outside;
    if constexpr (kMomentum) {
      return descend(p, g / root, s + 1 + kCentered);
    } else {
      return p - (rate * g) / root;
    }
  }
};
template <class M>
using Rms = RmsRule<M, false, false>;
template <class M>
using RmsMomentum = RmsRule<M, false, true>;
template <class M>
using Centered = RmsRule<M, true, false>;
template <class M>
using CenteredMomentum = RmsRule<M, true, true>;
