#include "isochron/ops/rows/samples.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/rng.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::ops {
namespace {

std::vector<double> random_values(const graph::InputSample& input, DType dtype, Rng& rng) {
  std::vector<double> values(static_cast<size_t>(input.shape.elems()));
  for (double& value : values) {
    const double unit = rng.uniform();
    if (is_floating(dtype)) {
      value = input.low + unit * (input.high - input.low);
      continue;
    }
    const bool natural = dtype == DType::kU8 || dtype == DType::kBool;
    const double low = natural ? std::max(0.0, std::ceil(input.low)) : std::ceil(input.low);
    const double high = dtype == DType::kBool ? 1.0 : std::floor(input.high);
    value = low + std::floor(unit * std::max(1.0, high - low + 1));
  }
  return values;
}

}  // namespace

const std::vector<DType>& tested_dtypes(const graph::OpDef& op) {
  static const std::vector<DType> usual = {DType::kF64, DType::kF32};
  return op.dtypes.empty() ? usual : op.dtypes;
}

std::vector<Tensor> make_inputs(const graph::OpSample& sample, DType dtype) {
  Rng rng(7);
  std::vector<Tensor> inputs;
  for (const graph::InputSample& input : sample.inputs) {
    const DType own = input.dtype.value_or(dtype);
    inputs.push_back(
        from_vector(input.shape, input.values.empty() ? random_values(input, own, rng) : input.values, own));
  }
  return inputs;
}

std::string sample_text(const graph::OpSample& sample, DType dtype) {
  std::string text = std::string(dtype_name(dtype));
  for (const graph::InputSample& input : sample.inputs) text += fmt::format(" {}", input.shape.str());
  return fmt::format("{} {}", text, sample.attributes.str());
}

Tolerance tolerance_of(const graph::OpDef& op, DType computed, DType result) {
  const auto of = [](DType dtype) -> Tolerance {
    switch (dtype) {
      case DType::kF64:
        return {1e-12, 1e-12};
      case DType::kF32:
        return {1.3e-6, 1e-5};
      case DType::kF16:
        return {1e-3, 1e-5};
      case DType::kBF16:
        return {1.6e-2, 1e-5};
      default:
        return {0, 0};
    }
  };
  if (!is_floating(result)) return {0, 0};
  const Tolerance a = of(computed);
  const Tolerance b = of(result);
  return {op.tolerance * std::max(a.relative, b.relative), op.tolerance * std::max(a.absolute, b.absolute)};
}

bool agrees(double got, double want, const Tolerance& tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (got == want) return true;
  return std::abs(got - want) <= tolerance.absolute + tolerance.relative * std::abs(want);
}

std::string difference_of(const std::vector<double>& got, const std::vector<double>& want,
                          const Tolerance& tolerance) {
  if (got.size() != want.size()) return fmt::format("{} elements, expected {}", got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (!agrees(got[i], want[i], tolerance))
      return fmt::format("element {} is {:.17g}, expected {:.17g}", i, got[i], want[i]);
  }
  return "";
}

}  // namespace isochron::ops
