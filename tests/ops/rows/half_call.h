// Calls with tensors that mixed precision stores in 16 bits, and how close their results come to definitions
// in doubles.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {

using Values = std::vector<double>;

/// A call of an op that is defined on f32, with tensors stored in 16 bits.
struct HalfCall {
  const graph::OpDef* op;
  graph::Attributes attributes;
  std::vector<Tensor> inputs;

  std::vector<TensorSpec> specs() const {
    std::vector<TensorSpec> result;
    for (const Tensor& input : inputs) {
      result.push_back({is_half(input.dtype()) ? DType::kF32 : input.dtype(), input.shape()});
    }
    return result;
  }
  std::vector<TensorSpec> outputs() const { return graph::infer_outputs(*op, specs(), attributes); }
  std::vector<Values> values() const {
    std::vector<Values> result;
    for (const Tensor& input : inputs) result.push_back(input.to_vector());
    return result;
  }
  /// Results of `rank` axes in `half`, the others in f32; by a kernel prepared anew each
  /// time, whose workspace lies where NaN were.
  std::vector<Tensor> run(DType half, int rank = 3) const {
    std::vector<DType> dtypes;
    for (const TensorSpec& output : outputs()) {
      dtypes.push_back(output.shape.rank() == rank ? half : DType::kF32);
    }
    graph::Attributes stored = attributes;
    stored.set(graph::kStorage, dtypes);
    CapturedFunction captured(
        [&](std::span<const Tensor> in) {
          std::vector<Tensor> all = {sum(cumulative_sum(in.back() + zeros({1 << 17}), 0))};
          for (const Tensor& result : graph::apply(*op, in.first(in.size() - 1), stored)) {
            all.push_back(result);
          }
          return all;
        },
        {});
    std::vector<const Tensor*> arguments;
    for (const Tensor& input : inputs) arguments.push_back(&input);
    const Tensor nan = from_vector({}, {std::nan("")});
    arguments.push_back(&nan);
    std::vector<Tensor> results;
    for (const Tensor& result : captured.call(arguments)) results.push_back(copy(result));
    results.erase(results.begin());
    return results;
  }
};

/// All within the roundings that f32 sums may turn the other way (`most` of the root mean square and of the
/// number), nine in ten within `error` of the tensor's
/// root mean square and, where it is stored in 16 bits, half a unit in the last place.
inline void expect_close(const Tensor& got, const Values& want, double error, const std::string& what,
                         double most = 0.02) {
  const Values values = got.to_vector();
  ASSERT_EQ(values.size(), want.size()) << what;
  double squares = 0;
  for (const double value : want) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(std::max<size_t>(want.size(), 1)));
  const double unit = got.dtype() == DType::kBF16 ? 1.0 / 256 : got.dtype() == DType::kF16 ? 1.0 / 2048 : 0;
  size_t beyond = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(values[i] - want[i]);
    ASSERT_LE(difference, most * (size + std::abs(want[i]))) << what << ", element " << i;
    if (difference > error * size + 1.001 * unit * std::abs(want[i])) ++beyond;
  }
  EXPECT_LE(beyond * 10, want.size()) << what;
}

}  // namespace isochron
