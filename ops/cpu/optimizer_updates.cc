#include "isochron/ops/cpu/optimizer_updates.h"

#include <vector>

#include "isochron/core/threads.h"
#include "isochron/ops/update_parameters.h"
#include "isochron/ops/update_settings.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/optimizer_updates.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/ops/cpu/tails-inl.h"
#include "isochron/ops/cpu/vector_math-inl.h"
#include "isochron/ops/update_rules-inl.h"

#ifndef ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
#define ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
namespace isochron::ops {

/// One run of elements: parameter, up to three states, gradient; outputs may equal inputs.
struct UpdateArrays {
  const std::byte* parameter;
  const std::byte* states[3];
  const std::byte* gradient;
  std::byte* new_parameter;
  std::byte* new_states[3];
};

using UpdateFunction = void (*)(const element::UpdateNumbers& numbers, const UpdateArrays& arrays,
                                int64_t count);

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T, template <class> class RuleOf>
void update(const UpdateNumbers& numbers, const UpdateArrays& arrays, int64_t count) {
  using M = VectorMath<T>;
  using Rule = RuleOf<M>;
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = static_cast<size_t>(count);
  const auto at = [](const std::byte* bytes, size_t i) { return reinterpret_cast<const T*>(bytes) + i; };
  const auto to = [](std::byte* bytes, size_t i) { return reinterpret_cast<T*>(bytes) + i; };
  const Rule rule(numbers);
  const auto kept = M::set(numbers.kept);
  const auto factor = M::set(numbers.gradient_factor);
  typename M::V s[3];
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
#define X(name) update<T, name>,
  constexpr UpdateFunction kFunctions[] = {ISOCHRON_UPDATE_RULES(X)};
#undef X
  return kFunctions[static_cast<size_t>(rule)];
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

class UpdateKernel final : public graph::Kernel {
 public:
  explicit UpdateKernel(const graph::KernelRequest& request)
      : parameters_(request),
        elem_bytes_(dtype_size(request.inputs.back().dtype)),
        definition_(update_definition(request.op, request.attributes)) {
    starts_.push_back(0);
    for (size_t i = 0; i < parameters_.layout.parameters; ++i) {
      starts_.push_back(starts_.back() + request.inputs[parameters_.layout.parameter(i)].shape.elems());
    }
    threads_ = starts_.back() >= kParallelUpdateElems ? request.threads : 1;
    function_ = HWY_DYNAMIC_DISPATCH(update_function)(definition_.rule, request.inputs.back().dtype);
  }

  void run(const graph::KernelArgs& args) override {
    const UpdateParameters::Numbers call = parameters_.begin(args);
    rate_ = call.rate;
    numbers_ = element::update_numbers(definition_.settings, call.gradient_factor, call.rate, call.step);
    parallel_for(threads_, starts_.back(),
                 [&](int64_t begin, int64_t end) { update_range(args, begin, end); });
  }

 private:
  element::UpdateNumbers numbers_for(size_t parameter) const {
    return element::numbers_of(definition_.settings, numbers_, rate_, parameters_.rate_factor(parameter),
                               parameters_.weight_decay(parameter));
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
  UpdateDefinition definition_;
  double rate_ = 0;
  std::vector<int64_t> starts_;  // of each parameter's elements, and their total
  int threads_ = 1;
  UpdateFunction function_ = nullptr;
  element::UpdateNumbers numbers_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_optimizer_update(const graph::KernelRequest& request) {
  return std::make_unique<UpdateKernel>(request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
