#include "isochron/ops/cpu/optimizer_updates.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "isochron/core/threads.h"
#include "isochron/ops/optimizer_updates.h"

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
  kCenteredMomentum
};

/// What a step's update needs besides the arrays; the parameter moves by -rate * direction.
struct UpdateNumbers {
  double rate = 0;
  double momentum = 0;
  double velocity_rate = 0;    // factor of what enters the velocity
  double new_1 = 0;            // weight of the newest gradient in the first moment
  double new_2 = 0;            // weight of its square in the second
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
        old_2(set<T>(1 - n.new_2)),
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

template <typename T, typename Rule>
void update(const UpdateNumbers& numbers, const UpdateArrays& arrays, int64_t count) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = static_cast<size_t>(count);
  const auto at = [](const std::byte* bytes, size_t i) { return reinterpret_cast<const T*>(bytes) + i; };
  const auto to = [](std::byte* bytes, size_t i) { return reinterpret_cast<T*>(bytes) + i; };
  const Rule rule(numbers);
  const Vec<T> kept = set<T>(numbers.kept);
  Vec<T> s[3];
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < Rule::kStates; ++k) s[k] = hn::LoadU(d, at(arrays.states[k], i));
    const auto p =
        rule(hn::LoadU(d, at(arrays.parameter, i)) * kept, hn::LoadU(d, at(arrays.gradient, i)), s);
    hn::StoreU(p, d, to(arrays.new_parameter, i));
    for (int k = 0; k < Rule::kStates; ++k) hn::StoreU(s[k], d, to(arrays.new_states[k], i));
  }
  if (i == n) return;
  const auto mask = hn::FirstN(d, n - i);
  for (int k = 0; k < Rule::kStates; ++k) s[k] = masked_load(mask, d, at(arrays.states[k], i));
  const auto p = rule(masked_load(mask, d, at(arrays.parameter, i)) * kept,
                      masked_load(mask, d, at(arrays.gradient, i)), s);
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

/// Below this many elements a parallel region costs more than it saves.
constexpr int64_t kParallelElems = int64_t{1} << 16;

/// base^n for n >= 1 by its binary digits: exact to a few roundings, and quicker than std::pow.
class Powers {
 public:
  explicit Powers(double base) {
    for (double& square : squares_) {
      square = base;
      base *= base;
    }
  }
  double operator()(uint64_t n) const {
    double result = 1;
    for (size_t i = 0; n != 0; ++i, n >>= 1) {
      if (n & 1) result *= squares_[i];
    }
    return result;
  }

 private:
  double squares_[64];
};

UpdateRule rule_of(const graph::OpDef& op, const graph::Attributes& attributes) {
  const bool momentum = attributes.get_or<double>("momentum", 0.0) > 0;
  if (op.name == "adam_update") {
    return attributes.get<bool>("amsgrad") ? UpdateRule::kAmsgrad : UpdateRule::kAdam;
  }
  if (op.name == "sgd_update") {
    if (!momentum) return UpdateRule::kSgd;
    return attributes.get<bool>("nesterov") ? UpdateRule::kNesterov : UpdateRule::kMomentum;
  }
  if (attributes.get<bool>("centered")) {
    return momentum ? UpdateRule::kCenteredMomentum : UpdateRule::kCentered;
  }
  return momentum ? UpdateRule::kRmsMomentum : UpdateRule::kRms;
}

class UpdateKernel final : public graph::Kernel {
 public:
  explicit UpdateKernel(const graph::KernelRequest& request)
      : elem_bytes_(dtype_size(request.inputs.back().dtype)),
        adam_(request.op.name == "adam_update"),
        epsilon_after_correction_(request.attributes.get_or("epsilon_after_correction", false)),
        rate_outside_velocity_(request.attributes.get_or("learning_rate_outside_velocity", false)),
        beta_1_(request.attributes.get_or<double>("beta_1", 0.0)),
        beta_2_(request.attributes.get_or<double>("beta_2", 0.0)),
        weight_decay_(request.attributes.get_or<double>("weight_decay", 0.0)),
        undecayed_(request.attributes.get_or<std::string>("undecayed", "")) {
    const graph::Attributes& attributes = request.attributes;
    layout_.states = update_state_count(request.op, attributes);
    layout_.parameters = (request.inputs.size() - 2) / (2 + layout_.states);
    starts_.push_back(0);
    for (size_t i = 0; i < layout_.parameters; ++i) {
      starts_.push_back(starts_.back() + request.inputs[layout_.parameter(i)].shape.elems());
    }
    threads_ = starts_.back() >= kParallelElems ? request.threads : 1;
    function_ =
        HWY_DYNAMIC_DISPATCH(update_function)(rule_of(request.op, attributes), request.inputs.back().dtype);
    const double epsilon = attributes.get_or<double>("epsilon", 0.0);
    const bool outside = adam_ || attributes.get_or("epsilon_outside_root", false);
    (outside ? numbers_.epsilon_outside : numbers_.epsilon_inside) = epsilon;
    numbers_.momentum = attributes.get_or<double>("momentum", 0.0);
    numbers_.new_1 = 1 - attributes.get_or<double>("beta_1", 0.0);
    numbers_.new_2 = 1 - attributes.get_or<double>(adam_ ? "beta_2" : "rho", 0.0);
  }

  void run(const graph::KernelArgs& args) override {
    double rate;
    int64_t step;
    std::memcpy(&rate, args.inputs[UpdateLayout::kLearningRate], sizeof rate);
    std::memcpy(&step, args.inputs[UpdateLayout::kStep], sizeof step);
    ++step;
    std::memcpy(args.outputs[0], &step, sizeof step);
    set_rates(rate, static_cast<uint64_t>(step));
    decayed_ = 1 - rate * weight_decay_;
    parallel_for(threads_, starts_.back(),
                 [&](int64_t begin, int64_t end) { update_range(args, begin, end); });
  }

 private:
  void set_rates(double rate, uint64_t step) {
    if (adam_) {
      const double correction_2 = std::sqrt(1 - beta_2_(step));
      numbers_.rate = rate / (1 - beta_1_(step));
      if (epsilon_after_correction_) {
        numbers_.root_factor = 1 / correction_2;
      } else {
        numbers_.rate *= correction_2;
      }
    } else {
      const bool inside = numbers_.momentum > 0 && !rate_outside_velocity_;
      numbers_.rate = inside ? 1 : rate;
      numbers_.velocity_rate = inside ? rate : 1;
    }
  }

  /// Elements [begin, end) of all parameters laid end to end.
  void update_range(const graph::KernelArgs& args, int64_t begin, int64_t end) const {
    for (size_t i = 0; i < layout_.parameters; ++i) {
      const int64_t from = std::max(begin, starts_[i]);
      const int64_t count = std::min(end, starts_[i + 1]) - from;
      if (count <= 0) continue;
      const size_t offset = static_cast<size_t>(from - starts_[i]) * elem_bytes_;
      UpdateArrays arrays{};
      arrays.parameter = args.inputs[layout_.parameter(i)] + offset;
      arrays.new_parameter = args.outputs[layout_.parameter(i) - 1] + offset;
      arrays.gradient = args.inputs[layout_.gradient(i)] + offset;
      for (size_t k = 0; k < layout_.states; ++k) {
        arrays.states[k] = args.inputs[layout_.state(k, i)] + offset;
        arrays.new_states[k] = args.outputs[layout_.state(k, i) - 1] + offset;
      }
      UpdateNumbers numbers = numbers_;
      if (i >= undecayed_.size() || undecayed_[i] != '1') numbers.kept = decayed_;
      function_(numbers, arrays, count);
    }
  }

  UpdateLayout layout_;
  size_t elem_bytes_;
  bool adam_;
  bool epsilon_after_correction_;
  bool rate_outside_velocity_;
  Powers beta_1_;
  Powers beta_2_;
  double weight_decay_;
  std::string undecayed_;
  double decayed_ = 1;
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
