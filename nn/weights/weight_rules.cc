#include "isochron/nn/weights/weight_rules.h"

#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/weights/weight_tables.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace weight_tables {

Dims inverse(const Dims& permutation) {
  Dims result = permutation;
  for (int i = 0; i < permutation.rank(); ++i) result[static_cast<int>(permutation[i])] = i;
  return result;
}

Tensors cut(const Tensor& x, std::span<const int64_t> lengths) {
  Tensors parts;
  int64_t start = 0;
  for (const int64_t length : lengths) {
    parts.push_back(narrow(x, -1, start, length));
    start += length;
  }
  return parts;
}

WeightRule one_to_one(std::string kind, std::string ours, std::string theirs,
                      std::function<Tensor(const Tensor&)> to_theirs,
                      std::function<Tensor(const Tensor&)> to_ours) {
  return {std::move(kind),
          {std::move(ours)},
          {std::move(theirs)},
          [f = std::move(to_theirs)](const Module&, const Tensors& ours_now) -> Tensors {
            return {f(ours_now[0])};
          },
          [f = std::move(to_ours)](const Module&, const Tensors& parts) -> Tensors { return {f(parts[0])}; }};
}

}  // namespace weight_tables

WeightRule renamed(std::string kind, std::string ours, std::string theirs) {
  const auto same = [](const Tensor& x) { return x; };
  return weight_tables::one_to_one(std::move(kind), std::move(ours), std::move(theirs), same, same);
}

WeightRule permuted(std::string kind, std::string ours, std::string theirs, const Dims& permutation) {
  return weight_tables::one_to_one(
      std::move(kind), std::move(ours), std::move(theirs),
      [permutation](const Tensor& x) { return transpose(x, permutation); },
      [back = weight_tables::inverse(permutation)](const Tensor& x) { return transpose(x, back); });
}

WeightRule read_over(std::string kind, std::string theirs) {
  return {std::move(kind), {}, {std::move(theirs)}, {}, {}};
}

WeightRule left_out(std::string kind, std::string ours) {
  return {std::move(kind), {std::move(ours)}, {}, {}, {}};
}

WeightRule where_kept(std::string kind, std::string name) {
  WeightRule rule = renamed(std::move(kind), name, name);
  rule.optional = true;
  return rule;
}

namespace {

/// Adds rules for the histories of products in 8 bits, which exist only in runs with such products.
weight_tables::Rules with_histories(weight_tables::Rules rules,
                                    WeightRule (*rule)(std::string, std::string)) {
  for (const char* member : {"input_history", "kernel_history", "gradient_history"})
    rules.push_back(rule("dense", member));
  return rules;
}

}  // namespace

std::span<const WeightRule> weight_rules(Convention convention) {
  static const weight_tables::Rules keras = with_histories(weight_tables::keras_rules(), left_out);
  static const weight_tables::Rules pytorch = with_histories(weight_tables::pytorch_rules(), left_out);
  static const weight_tables::Rules own = with_histories({}, where_kept);
  if (convention == Convention::kIsochron) return own;
  return convention == Convention::kPyTorch ? pytorch : keras;
}

std::string_view layer_name(Convention convention, std::string_view kind) {
  if (convention != Convention::kKeras) return kind;
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"batch_norm", "batch_normalization"},
      {"layer_norm", "layer_normalization"},
      {"rms_norm", "rms_normalization"},
      {"group_norm", "group_normalization"},
      {"instance_norm", "group_normalization"}};
  for (const auto& [ours, theirs] : kNames) {
    if (ours == kind) return theirs;
  }
  return kind;
}

std::string_view wrapper_name(Convention convention, const Module& layer) {
  const auto* recurrent = dynamic_cast<const Recurrent*>(&layer);
  const bool wrapped =
      recurrent != nullptr && recurrent->options().bidirectional && recurrent->options().layers == 1;
  return convention == Convention::kKeras && wrapped ? "bidirectional" : "";
}

}  // namespace isochron::nn
