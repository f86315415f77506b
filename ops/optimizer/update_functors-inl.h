// The rules of the optimizers, an element at a time: the new parameter from parameter p, gradient g and
// states s, which they replace. Written over the vocabulary of functors-inl.h, and included as that is: for
// vectors per instruction set, and for plain scalars in device code.

#if defined(ISOCHRON_OPS_UPDATE_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_UPDATE_RULES_INL_H_
#undef ISOCHRON_OPS_UPDATE_RULES_INL_H_
#else
#define ISOCHRON_OPS_UPDATE_RULES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

using element::UpdateNumbers;

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

template <class M>
struct Nadam {
  static constexpr int kStates = 2;
  using V = typename M::V;
  V rate, fresh_rate;
  Moments<M> moments;
  explicit HWY_INLINE Nadam(const UpdateNumbers& n)
      : rate(M::set(n.rate)), fresh_rate(M::set(n.fresh_rate)), moments(n) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    moments.take(g, s);
    return p - M::mul_add(rate, s[0], fresh_rate * g) / moments.divisor(s[1]);
  }
};

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

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
