#include "isochron/ops/cpu/optimizer_updates.h"

#include <cmath>
#include <vector>

#include "isochron/core/threads.h"
#include "isochron/ops/cpu/update_parameters.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/optimizer_updates.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/ops/cpu/tails-inl.h"

#ifndef ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
#define ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
namespace isochron::ops {

enum class UpdateRule {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAmsgrad,
  kRms,
  kRmsMomentum,
  kCentered,
  kCenteredMomentum,
  kAdadelta,
  kAdamax,
  kNadam,
  kLion
};

/// What a step's update needs besides the arrays; the parameter moves by -rate * direction.
struct UpdateNumbers {
  double gradient_factor = 1;
  double rate = 0;
  double fresh_rate = 0;  // of the newest gradient itself
  double momentum = 0;
  double velocity_rate = 0;    // factor of what enters the velocity
  double new_1 = 0;            // weight of the newest gradient in the first moment
  double old_2 = 0;            // weight of the second moment so far
  double new_2 = 0;            // weight of the newest gradient's square in it
  double root_factor = 1;      // of the second moment's root
  double epsilon_inside = 0;   // under the root
  double epsilon_outside = 0;  // beside it
  double kept = 1;             // what weight decay leaves of the parameter
};

/// One run of elements: parameter, up to three states, gradient; outputs may equal inputs.
struct UpdateArrays {
  const std::byte* parameter;
  const std::byte* states[3];
  const std::byte* gradient;
  std::byte* new_parameter;
  std::byte* new_states[3];
};

using UpdateFunction = void (*)(const UpdateNumbers& numbers, const UpdateArrays& arrays, int64_t count);

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Vec = hn::Vec<hn::ScalableTag<T>>;
template <typename T>
HWY_INLINE Vec<T> set(double number) {
  return hn::Set(hn::ScalableTag<T>(), static_cast<T>(number));
}

// Rules: new parameter from parameter p, gradient g and states s, which they replace.

template <typename T>
struct Sgd {
  static constexpr int kStates = 0;
  using V = Vec<T>;
  V rate;
  explicit HWY_INLINE Sgd(const UpdateNumbers& n) : rate(set<T>(n.rate)) {}
  HWY_INLINE V operator()(V p, V g, V*) const { return hn::NegMulAdd(rate, g, p); }
};

template <typename T, bool kNesterov>
struct Momentum {
  static constexpr int kStates = 1;
  using V = Vec<T>;
  V rate, momentum, velocity_rate;
  explicit HWY_INLINE Momentum(const UpdateNumbers& n)
      : rate(set<T>(n.rate)), momentum(set<T>(n.momentum)), velocity_rate(set<T>(n.velocity_rate)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    const V scaled = velocity_rate * g;
    s[0] = hn::MulAdd(momentum, s[0], scaled);
    return hn::NegMulAdd(rate, kNesterov ? hn::MulAdd(momentum, s[0], scaled) : s[0], p);
  }
};

template <typename T, bool kAmsgrad>
struct Adam {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  using V = Vec<T>;
  V rate, new_1, new_2, root_factor, epsilon;
  explicit HWY_INLINE Adam(const UpdateNumbers& n)
      : rate(set<T>(n.rate)),
        new_1(set<T>(n.new_1)),
        new_2(set<T>(n.new_2)),
        root_factor(set<T>(n.root_factor)),
        epsilon(set<T>(n.epsilon_outside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = hn::MulAdd(g - s[0], new_1, s[0]);
    s[1] = hn::MulAdd(hn::MulSub(g, g, s[1]), new_2, s[1]);
    V v = s[1];
    if constexpr (kAmsgrad) v = s[2] = hn::Max(s[2], v);
    return p - (rate * s[0]) / hn::MulAdd(hn::Sqrt(v), root_factor, epsilon);
  }
};

template <typename T, bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kStates = 1 + kCentered + kMomentum;
  using V = Vec<T>;
  V new_2, old_2, epsilon_inside, epsilon_outside, rate;
  Momentum<T, false> descend;
  explicit HWY_INLINE RmsProp(const UpdateNumbers& n)
      : new_2(set<T>(n.new_2)),
        old_2(set<T>(n.old_2)),
        epsilon_inside(set<T>(n.epsilon_inside)),
        epsilon_outside(set<T>(n.epsilon_outside)),
        rate(set<T>(n.rate)),
        descend(n) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = hn::MulAdd(old_2, s[0], new_2 * (g * g));
    V square = s[0];
    if constexpr (kCentered) {
      s[1] = hn::MulAdd(old_2, s[1], new_2 * g);
      square = hn::Max(hn::NegMulAdd(s[1], s[1], square), set<T>(0));
    }
    const V root = hn::Sqrt(square + epsilon_inside) + epsilon_outside;
    if constexpr (kMomentum) {
      return descend(p, g / root, s + 1 + kCentered);
    } else {
      return p - (rate * g) / root;
    }
  }
};

template <typename T>
struct Adadelta {
  static constexpr int kStates = 2;
  using V = Vec<T>;
  V rate, new_2, old_2, epsilon;
  explicit HWY_INLINE Adadelta(const UpdateNumbers& n)
      : rate(set<T>(n.rate)),
        new_2(set<T>(n.new_2)),
        old_2(set<T>(n.old_2)),
        epsilon(set<T>(n.epsilon_inside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = hn::MulAdd(old_2, s[0], new_2 * (g * g));
    const V move = g * (hn::Sqrt(s[1] + epsilon) / hn::Sqrt(s[0] + epsilon));
    s[1] = hn::MulAdd(old_2, s[1], new_2 * (move * move));
    return hn::NegMulAdd(rate, move, p);
  }
};

template <typename T>
struct Adamax {
  static constexpr int kStates = 2;
  using V = Vec<T>;
  V rate, new_1, old_2, epsilon_inside, epsilon_outside;
  explicit HWY_INLINE Adamax(const UpdateNumbers& n)
      : rate(set<T>(n.rate)),
        new_1(set<T>(n.new_1)),
        old_2(set<T>(n.old_2)),
        epsilon_inside(set<T>(n.epsilon_inside)),
        epsilon_outside(set<T>(n.epsilon_outside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = hn::MulAdd(g - s[0], new_1, s[0]);
    s[1] = hn::Max(old_2 * s[1], hn::Abs(g) + epsilon_inside);
    return p - (rate * s[0]) / (s[1] + epsilon_outside);
  }
};

template <typename T>
struct Nadam {
  static constexpr int kStates = 2;
  using V = Vec<T>;
  V rate, fresh_rate, new_1, new_2, root_factor, epsilon;
  explicit HWY_INLINE Nadam(const UpdateNumbers& n)
      : rate(set<T>(n.rate)),
        fresh_rate(set<T>(n.fresh_rate)),
        new_1(set<T>(n.new_1)),
        new_2(set<T>(n.new_2)),
        root_factor(set<T>(n.root_factor)),
        epsilon(set<T>(n.epsilon_outside)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    s[0] = hn::MulAdd(g - s[0], new_1, s[0]);
    s[1] = hn::MulAdd(hn::MulSub(g, g, s[1]), new_2, s[1]);
    return p - hn::MulAdd(rate, s[0], fresh_rate * g) / hn::MulAdd(hn::Sqrt(s[1]), root_factor, epsilon);
  }
};

template <typename T>
struct Lion {
  static constexpr int kStates = 1;
  using V = Vec<T>;
  V rate, new_1, new_2;
  explicit HWY_INLINE Lion(const UpdateNumbers& n)
      : rate(set<T>(n.rate)), new_1(set<T>(n.new_1)), new_2(set<T>(n.new_2)) {}
  HWY_INLINE V operator()(V p, V g, V* s) const {
    const V difference = g - s[0];
    const V direction = hn::MulAdd(difference, new_1, s[0]);
    s[0] = hn::MulAdd(difference, new_2, s[0]);
    const V sign = hn::CopySign(set<T>(1), direction);
    // Zero and NaN stay what they are.
    const V step = hn::IfThenElse(hn::Gt(hn::Abs(direction), set<T>(0)), sign, direction);
    return hn::NegMulAdd(rate, step, p);
  }
};

template <typename T, typename Rule>
void update(const UpdateNumbers& numbers, const UpdateArrays& arrays, int64_t count) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = static_cast<size_t>(count);
  const auto at = [](const std::byte* bytes, size_t i) { return reinterpret_cast<const T*>(bytes) + i; };
  const auto to = [](std::byte* bytes, size_t i) { return reinterpret_cast<T*>(bytes) + i; };
  const Rule rule(numbers);
  const Vec<T> kept = set<T>(numbers.kept);
  const Vec<T> factor = set<T>(numbers.gradient_factor);
  Vec<T> s[3];
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < Rule::kStates; ++k) s[k] = hn::LoadU(d, at(arrays.states[k], i));
    const auto p =
        rule(hn::LoadU(d, at(arrays.parameter, i)) * kept, hn::LoadU(d, at(arrays.gradient, i)) * factor, s);
    hn::StoreU(p, d, to(arrays.new_parameter, i));
    for (int k = 0; k < Rule::kStates; ++k) hn::StoreU(s[k], d, to(arrays.new_states[k], i));
  }
  if (i == n) return;
  const auto mask = hn::FirstN(d, n - i);
  for (int k = 0; k < Rule::kStates; ++k) s[k] = masked_load(mask, d, at(arrays.states[k], i));
  const auto p = rule(masked_load(mask, d, at(arrays.parameter, i)) * kept,
                      masked_load(mask, d, at(arrays.gradient, i)) * factor, s);
  masked_store(p, mask, d, to(arrays.new_parameter, i));
  for (int k = 0; k < Rule::kStates; ++k) masked_store(s[k], mask, d, to(arrays.new_states[k], i));
}

template <typename T>
UpdateFunction function_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kSgd:
      return update<T, Sgd<T>>;
    case UpdateRule::kMomentum:
      return update<T, Momentum<T, false>>;
    case UpdateRule::kNesterov:
      return update<T, Momentum<T, true>>;
    case UpdateRule::kAdam:
      return update<T, Adam<T, false>>;
    case UpdateRule::kAmsgrad:
      return update<T, Adam<T, true>>;
    case UpdateRule::kRms:
      return update<T, RmsProp<T, false, false>>;
    case UpdateRule::kRmsMomentum:
      return update<T, RmsProp<T, false, true>>;
    case UpdateRule::kCentered:
      return update<T, RmsProp<T, true, false>>;
    case UpdateRule::kCenteredMomentum:
      return update<T, RmsProp<T, true, true>>;
    case UpdateRule::kAdadelta:
      return update<T, Adadelta<T>>;
    case UpdateRule::kAdamax:
      return update<T, Adamax<T>>;
    case UpdateRule::kNadam:
      return update<T, Nadam<T>>;
    case UpdateRule::kLion:
      return update<T, Lion<T>>;
  }
  return nullptr;
}

UpdateFunction update_function(UpdateRule rule, DType dtype) {
  return dtype == DType::kF32 ? function_of<float>(rule) : function_of<double>(rule);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {
namespace {

HWY_EXPORT(update_function);

enum class Family { kDescent, kRms, kAdagrad, kAdadelta, kAdam, kAdamax, kNadam, kLion };

Family family_of(const graph::OpDef& op) {
  if (op.name == "sgd_update") return Family::kDescent;
  if (op.name == "rmsprop_update") return Family::kRms;
  if (op.name == "adagrad_update") return Family::kAdagrad;
  if (op.name == "adadelta_update") return Family::kAdadelta;
  if (op.name == "adam_update") return Family::kAdam;
  if (op.name == "adamax_update") return Family::kAdamax;
  return op.name == "nadam_update" ? Family::kNadam : Family::kLion;
}

UpdateRule rule_of(Family family, const graph::Attributes& attributes) {
  const bool momentum = attributes.get_or<double>("momentum", 0.0) > 0;
  switch (family) {
    case Family::kDescent:
      if (!momentum) return UpdateRule::kSgd;
      return attributes.get<bool>("nesterov") ? UpdateRule::kNesterov : UpdateRule::kMomentum;
    case Family::kRms:
      if (attributes.get<bool>("centered")) {
        return momentum ? UpdateRule::kCenteredMomentum : UpdateRule::kCentered;
      }
      return momentum ? UpdateRule::kRmsMomentum : UpdateRule::kRms;
    case Family::kAdagrad:  // RMSprop with a second moment that forgets nothing
      return UpdateRule::kRms;
    case Family::kAdadelta:
      return UpdateRule::kAdadelta;
    case Family::kAdam:
      return attributes.get<bool>("amsgrad") ? UpdateRule::kAmsgrad : UpdateRule::kAdam;
    case Family::kAdamax:
      return UpdateRule::kAdamax;
    case Family::kNadam:
      return UpdateRule::kNadam;
    case Family::kLion:
      return UpdateRule::kLion;
  }
  return UpdateRule::kSgd;
}

/// Nadam's momenta c_t = beta_1 (1 - 0.96^(t decay) / 2) and their product from 1 to t. What is multiplied up
/// is the product without beta_1: it ends to change once 0.96^(t decay) vanishes beside 1, so starting in the
/// middle of a run costs little.
class NadamMomenta {
 public:
  NadamMomenta(double beta_1, double decay) : beta_1_(beta_1), decay_(decay), powers_(beta_1) {}
  double momentum(int64_t t) const { return beta_1_ * share(t); }
  double product(int64_t t) {
    if (t < t_) {
      t_ = 0;
      shares_ = 1;
    }
    while (t_ < t) {
      const double factor = share(++t_);
      shares_ *= factor;
      if (factor == 1) t_ = t;
    }
    return powers_(static_cast<uint64_t>(t)) * shares_;
  }

 private:
  double share(int64_t t) const { return 1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay_); }

  double beta_1_;
  double decay_;
  Powers powers_;
  int64_t t_ = 0;
  double shares_ = 1;
};

class UpdateKernel final : public graph::Kernel {
 public:
  explicit UpdateKernel(const graph::KernelRequest& request)
      : parameters_(request),
        elem_bytes_(dtype_size(request.inputs.back().dtype)),
        family_(family_of(request.op)),
        epsilon_after_correction_(request.attributes.get_or("epsilon_after_correction", false)),
        rate_in_velocity_(request.attributes.get_or<double>("momentum", 0.0) > 0 &&
                          !request.attributes.get_or("learning_rate_outside_velocity", false)),
        beta_1_(request.attributes.get_or<double>("beta_1", 0.0)),
        beta_2_(request.attributes.get_or<double>("beta_2", 0.0)),
        momenta_(request.attributes.get_or<double>("beta_1", 0.0),
                 request.attributes.get_or<double>("momentum_decay", 1.0)) {
    const graph::Attributes& attributes = request.attributes;
    starts_.push_back(0);
    for (size_t i = 0; i < parameters_.layout.parameters; ++i) {
      starts_.push_back(starts_.back() + request.inputs[parameters_.layout.parameter(i)].shape.elems());
    }
    threads_ = starts_.back() >= kParallelUpdateElems ? request.threads : 1;
    function_ =
        HWY_DYNAMIC_DISPATCH(update_function)(rule_of(family_, attributes), request.inputs.back().dtype);
    const double epsilon = attributes.get_or<double>("epsilon", 0.0);
    (epsilon_outside(attributes) ? numbers_.epsilon_outside : numbers_.epsilon_inside) = epsilon;
    numbers_.momentum = attributes.get_or<double>("momentum", 0.0);
    numbers_.new_1 = 1 - attributes.get_or<double>("beta_1", 0.0);
    numbers_.old_2 = attributes.get_or<double>(attributes.has("rho") ? "rho" : "beta_2", 0.0);
    numbers_.new_2 = 1 - numbers_.old_2;
    if (family_ == Family::kAdagrad) numbers_.old_2 = numbers_.new_2 = 1;
  }

  void run(const graph::KernelArgs& args) override {
    const UpdateParameters::Numbers numbers = parameters_.begin(args);
    numbers_.gradient_factor = numbers.gradient_factor;
    rate_ = numbers.rate;
    set_rates(numbers.rate, numbers.step);
    parallel_for(threads_, starts_.back(),
                 [&](int64_t begin, int64_t end) { update_range(args, begin, end); });
  }

 private:
  bool epsilon_outside(const graph::Attributes& attributes) const {
    switch (family_) {
      case Family::kAdam:
      case Family::kNadam:
        return true;
      case Family::kAdamax:
        return !attributes.get<bool>("epsilon_within_norm");
      default:
        return attributes.get_or("epsilon_outside_root", false);
    }
  }

  /// `step` counts from 1.
  void set_rates(double rate, int64_t step) {
    const auto t = static_cast<uint64_t>(step);
    numbers_.rate = rate_in_velocity_ ? 1 : rate;
    numbers_.velocity_rate = rate_in_velocity_ ? rate : 1;
    if (family_ == Family::kAdam) {
      const double correction_2 = std::sqrt(1 - beta_2_(t));
      numbers_.rate = rate / (1 - beta_1_(t));
      if (epsilon_after_correction_) {
        numbers_.root_factor = 1 / correction_2;
      } else {
        numbers_.rate *= correction_2;
      }
    } else if (family_ == Family::kAdamax) {
      numbers_.rate = rate / (1 - beta_1_(t));
    } else if (family_ == Family::kNadam) {
      const double product = momenta_.product(step);
      const double next = momenta_.momentum(step + 1);
      numbers_.rate = rate * next / (1 - product * next);
      numbers_.fresh_rate = rate * (1 - momenta_.momentum(step)) / (1 - product);
      numbers_.root_factor = 1 / std::sqrt(1 - beta_2_(t));
    }
  }

  UpdateNumbers numbers_for(size_t parameter) const {
    UpdateNumbers numbers = numbers_;
    const double factor = parameters_.rate_factor(parameter);
    (rate_in_velocity_ ? numbers.velocity_rate : numbers.rate) *= factor;
    numbers.fresh_rate *= factor;
    numbers.kept = parameters_.kept(parameter, rate_);
    return numbers;
  }

  /// Elements [begin, end) of all parameters laid end to end.
  void update_range(const graph::KernelArgs& args, int64_t begin, int64_t end) const {
    const UpdateLayout& layout = parameters_.layout;
    for (size_t i = 0; i < layout.parameters; ++i) {
      const int64_t from = std::max(begin, starts_[i]);
      const int64_t count = std::min(end, starts_[i + 1]) - from;
      if (count <= 0) continue;
      const size_t offset = static_cast<size_t>(from - starts_[i]) * elem_bytes_;
      UpdateArrays arrays{};
      arrays.parameter = args.inputs[layout.parameter(i)] + offset;
      arrays.new_parameter = args.outputs[layout.parameter(i) - UpdateLayout::kFirstAliased] + offset;
      arrays.gradient = args.inputs[layout.gradient(i)] + offset;
      for (size_t k = 0; k < layout.states; ++k) {
        arrays.states[k] = args.inputs[layout.state(k, i)] + offset;
        arrays.new_states[k] = args.outputs[layout.state(k, i) - UpdateLayout::kFirstAliased] + offset;
      }
      function_(numbers_for(i), arrays, count);
    }
  }

  UpdateParameters parameters_;
  size_t elem_bytes_;
  Family family_;
  bool epsilon_after_correction_;
  bool rate_in_velocity_;
  Powers beta_1_;
  Powers beta_2_;
  NadamMomenta momenta_;
  double rate_ = 0;
  std::vector<int64_t> starts_;  // of each parameter's elements, and their total
  int threads_ = 1;
  UpdateFunction function_ = nullptr;
  UpdateNumbers numbers_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_optimizer_update(const graph::KernelRequest& request) {
  return std::make_unique<UpdateKernel>(request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
