#include "isochron/backends/cpu/optimizer/optimizer_updates.h"

#include <vector>

#include "isochron/backends/cpu/indexing/row_updates.h"
#include "isochron/core/process/threads.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/optimizer/update_parameters.h"
#include "isochron/ops/optimizer/update_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/optimizer/optimizer_updates.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/backends/cpu/common/vector_math-inl.h"
#include "isochron/ops/optimizer/update_functors-inl.h"

#ifndef ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
#define ISOCHRON_OPS_CPU_OPTIMIZER_UPDATES_ONCE
namespace isochron::ops {

/// The arrays of one run of elements: parameter, up to three states, gradient. Outputs may be the same arrays
/// as inputs.
struct UpdateArrays {
  const std::byte* parameter;
  const std::byte* states[3];
  const std::byte* gradient;
  std::byte* new_parameter;
  std::byte* new_states[3];
};

using UpdateFunction = void (*)(const element::UpdateNumbers& numbers, const UpdateArrays& arrays,
                                int64_t count);

/// The arrays of a table, which are changed in place. values[i] is the gradient of row rows[i].
struct RowArrays {
  std::byte* parameter;
  std::byte* states[3];
  const std::byte* values;
  const int64_t* rows;
  int64_t row_elems;
};

/// Updates the rows rows[begin..end).
using RowUpdateFunction = void (*)(const element::UpdateNumbers& numbers, const RowArrays& arrays,
                                   int64_t begin, int64_t end);

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Applies a rule, with its numbers, to runs of elements.
template <typename T, template <class> class RuleOf>
class Run {
 public:
  using M = VectorMath<T>;
  using Rule = RuleOf<M>;
  explicit HWY_INLINE Run(const UpdateNumbers& numbers)
      : rule_(numbers),
        parameter_factor_(M::set(numbers.parameter_factor)),
        factor_(M::set(numbers.gradient_factor)) {}

  HWY_INLINE void operator()(const UpdateArrays& arrays, int64_t count) const {
    const hn::ScalableTag<T> d;
    const size_t lanes = hn::Lanes(d);
    const size_t n = static_cast<size_t>(count);
    const auto at = [](const std::byte* bytes, size_t i) { return reinterpret_cast<const T*>(bytes) + i; };
    const auto to = [](std::byte* bytes, size_t i) { return reinterpret_cast<T*>(bytes) + i; };
    typename M::V s[3];
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (int k = 0; k < Rule::kStates; ++k) s[k] = hn::LoadU(d, at(arrays.states[k], i));
      const auto p = rule_(hn::LoadU(d, at(arrays.parameter, i)) * parameter_factor_,
                           hn::LoadU(d, at(arrays.gradient, i)) * factor_, s);
      hn::StoreU(p, d, to(arrays.new_parameter, i));
      for (int k = 0; k < Rule::kStates; ++k) hn::StoreU(s[k], d, to(arrays.new_states[k], i));
    }
    if (i == n) return;
    const auto mask = hn::FirstN(d, n - i);
    for (int k = 0; k < Rule::kStates; ++k) s[k] = masked_load(mask, d, at(arrays.states[k], i));
    const auto p = rule_(masked_load(mask, d, at(arrays.parameter, i)) * parameter_factor_,
                         masked_load(mask, d, at(arrays.gradient, i)) * factor_, s);
    masked_store(p, mask, d, to(arrays.new_parameter, i));
    for (int k = 0; k < Rule::kStates; ++k) masked_store(s[k], mask, d, to(arrays.new_states[k], i));
  }

 private:
  Rule rule_;
  typename M::V parameter_factor_, factor_;
};

template <typename T, template <class> class RuleOf>
void update(const UpdateNumbers& numbers, const UpdateArrays& arrays, int64_t count) {
  Run<T, RuleOf>{numbers}(arrays, count);
}

/// The rows are scattered over the table, so the next rows are prefetched while one is computed.
template <typename T, template <class> class RuleOf>
void update_rows(const UpdateNumbers& numbers, const RowArrays& arrays, int64_t begin, int64_t end) {
  constexpr int64_t kAhead = 8;
  constexpr size_t kLine = 64;
  constexpr int kStates = Run<T, RuleOf>::Rule::kStates;
  const Run<T, RuleOf> run(numbers);
  const size_t row_bytes = static_cast<size_t>(arrays.row_elems) * sizeof(T);
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) {
      const size_t offset = static_cast<size_t>(arrays.rows[i + kAhead]) * row_bytes;
      for (size_t at = 0; at < row_bytes; at += kLine) {
        __builtin_prefetch(arrays.parameter + offset + at, 1);
        for (int k = 0; k < kStates; ++k) __builtin_prefetch(arrays.states[k] + offset + at, 1);
      }
    }
    const size_t offset = static_cast<size_t>(arrays.rows[i]) * row_bytes;
    UpdateArrays row{};
    row.parameter = row.new_parameter = arrays.parameter + offset;
    row.gradient = arrays.values + static_cast<size_t>(i) * row_bytes;
    for (int k = 0; k < kStates; ++k) row.states[k] = row.new_states[k] = arrays.states[k] + offset;
    run(row, arrays.row_elems);
  }
}

template <typename T>
UpdateFunction function_of(UpdateFunctor functor) {
#define X(name) update<T, name>,
  constexpr UpdateFunction kFunctions[] = {ISOCHRON_UPDATE_FUNCTORS(X)};
#undef X
  return kFunctions[static_cast<size_t>(functor)];
}

UpdateFunction update_function(UpdateFunctor functor, DType dtype) {
  return dtype == DType::kF32 ? function_of<float>(functor) : function_of<double>(functor);
}

template <typename T>
RowUpdateFunction row_function_of(UpdateFunctor functor) {
#define X(name) update_rows<T, name>,
  constexpr RowUpdateFunction kFunctions[] = {ISOCHRON_UPDATE_FUNCTORS(X)};
#undef X
  return kFunctions[static_cast<size_t>(functor)];
}

RowUpdateFunction row_update_function(UpdateFunctor functor, DType dtype) {
  return dtype == DType::kF32 ? row_function_of<float>(functor) : row_function_of<double>(functor);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {
namespace {

HWY_EXPORT(update_function);
HWY_EXPORT(row_update_function);

class UpdateKernel final : public graph::Kernel {
 public:
  explicit UpdateKernel(const graph::KernelRequest& request)
      : parameters_(request),
        elem_bytes_(dtype_size(request.inputs.back().dtype)),
        definition_(optimizer_rule(request.op.name).definition(request.attributes)) {
    starts_.push_back(0);
    for (size_t i = 0; i < parameters_.layout.parameters; ++i) {
      starts_.push_back(starts_.back() + request.inputs[parameters_.layout.parameter(i)].shape.elems());
    }
    threads_ = starts_.back() >= kParallelUpdateElems ? request.threads : 1;
    function_ = HWY_DYNAMIC_DISPATCH(update_function)(definition_.functor, request.inputs.back().dtype);
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

  /// Updates elements [begin, end) of the concatenated parameters.
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
  std::vector<int64_t> starts_;  // first element of each parameter; then the total
  int threads_ = 1;
  UpdateFunction function_ = nullptr;
  element::UpdateNumbers numbers_;
};

class RowUpdateKernel final : public graph::Kernel {
 public:
  explicit RowUpdateKernel(const graph::KernelRequest& request)
      : rule_(request.op.registry->at(request.attributes.get<std::string>("rule"))),
        layout_(row_update_layout(rule_, request.attributes, request.inputs.size())),
        definition_(optimizer_rule(rule_.name).definition(request.attributes)),
        factors_(request.attributes),
        threads_(request.threads) {
    const DType dtype = request.inputs[layout_.parameter(0)].dtype;
    for (size_t o = 0; o < layout_.outputs(); ++o) sizes_.push_back(request.outputs[o].size_bytes());
    for (size_t i = 0; i < layout_.parameters; ++i) {
      const Shape& shape = request.inputs[layout_.parameter(i)].shape;
      row_elems_.push_back(shape[0] == 0 ? 0 : shape.elems() / shape[0]);
    }
    function_ = HWY_DYNAMIC_DISPATCH(row_update_function)(definition_.functor, dtype);
  }

  void run(const graph::KernelArgs& args) override {
    double factor, rate;
    int64_t step;
    std::memcpy(&factor, args.inputs[RowUpdateLayout::kGradientFactor], sizeof factor);
    std::memcpy(&rate, args.inputs[RowUpdateLayout::kLearningRate], sizeof rate);
    std::memcpy(&step, args.inputs[RowUpdateLayout::kStep], sizeof step);
    const element::UpdateNumbers numbers =
        element::update_numbers(definition_.settings, factor, rate, step + 1);
    for (size_t o = 0; o < sizes_.size(); ++o) {  // in place, it costs nothing
      const std::byte* before = args.inputs[o + RowUpdateLayout::kFirstAliased];
      if (args.outputs[o] != before && sizes_[o] > 0) std::memcpy(args.outputs[o], before, sizes_[o]);
    }
    int64_t rows = 0, elems = 0;
    for (size_t i = 0; i < layout_.parameters; ++i) {
      rows += count(args, i);
      elems += count(args, i) * row_elems_[i];
    }
    const int threads = elems >= kParallelRowElems ? threads_ : 1;
    parallel_for(threads, rows, [&](int64_t begin, int64_t end) {
      int64_t first = 0;  // first row of the table among all rows
      for (size_t i = 0; i < layout_.parameters; ++i) {
        const int64_t here = count(args, i);
        const int64_t from = std::max(begin - first, int64_t{0});
        const int64_t to = std::min(end - first, here);
        if (from < to) function_(numbers_for(numbers, rate, i), arrays_of(args, i), from, to);
        first += here;
      }
    });
  }

 private:
  /// Lower than kParallelUpdateElems, because scattered rows cost more per element.
  static constexpr int64_t kParallelRowElems = int64_t{1} << 14;

  int64_t count(const graph::KernelArgs& args, size_t i) const {
    return *reinterpret_cast<const int64_t*>(args.inputs[layout_.count(i)]);
  }
  element::UpdateNumbers numbers_for(const element::UpdateNumbers& numbers, double rate, size_t i) const {
    return element::numbers_of(definition_.settings, numbers, rate, factors_.rate_factor(i),
                               factors_.weight_decay(i));
  }
  RowArrays arrays_of(const graph::KernelArgs& args, size_t i) const {
    RowArrays arrays{};
    arrays.parameter = args.outputs[layout_.parameter(i) - RowUpdateLayout::kFirstAliased];
    for (size_t k = 0; k < layout_.states; ++k)
      arrays.states[k] = args.outputs[layout_.state(k, i) - RowUpdateLayout::kFirstAliased];
    arrays.values = args.inputs[layout_.values(i)];
    arrays.rows = reinterpret_cast<const int64_t*>(args.inputs[layout_.rows(i)]);
    arrays.row_elems = row_elems_[i];
    return arrays;
  }

  const graph::OpDef& rule_;
  RowUpdateLayout layout_;
  UpdateDefinition definition_;
  ParameterFactors factors_;
  int threads_;
  std::vector<size_t> sizes_;
  std::vector<int64_t> row_elems_;
  RowUpdateFunction function_ = nullptr;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_update_rows(const graph::KernelRequest& request) {
  return std::make_unique<RowUpdateKernel>(request);
}

std::unique_ptr<graph::Kernel> prepare_optimizer_update(const graph::KernelRequest& request) {
  return std::make_unique<UpdateKernel>(request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
