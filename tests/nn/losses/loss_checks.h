// Checks of losses: against golden files, and of gradients against central differences.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/near.h"

namespace isochron::nn {

/// Reductions over all elements at once, as PyTorch's three go, under the suffixes of the golden arrays.
struct OverAll {
  std::string name;
  Reduction reduction, per_sample;
};
inline const OverAll kOverAll[] = {{".mean", Reduction::kMean, Reduction::kMean},
                                   {".mean", Reduction::kMean, Reduction::kNone},
                                   {".sum", Reduction::kSum, Reduction::kSum},
                                   {".sum", Reduction::kSum, Reduction::kNone},
                                   {".none", Reduction::kNone, Reduction::kNone}};

/// A file of tests/golden with losses `NAME.y` and the gradients `NAME.dx` of their sums.
class GoldenLosses : public testing::Test {
 protected:
  explicit GoldenLosses(const std::string& file)
      : file_(data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/" + file)) {}

  Tensor array(const std::string& name) const { return file_.at(name); }
  template <typename F>
  void check(const std::string& name, const std::string& x_name, F loss) {
    const Tensor x = array(x_name);
    GradientTape tape(true);
    tape.watch(x);
    const Tensor y = loss(x);
    EXPECT_TRUE(near(y, array(name + ".y"), 1e-11)) << name;
    EXPECT_TRUE(near(tape.gradient(y, x), array(name + ".dx"), 1e-10, 1e-14)) << name;
  }
  /// `loss` is a function of x and options whose reductions are set to each of `kOverAll`.
  template <typename Options, typename F>
  void check_over_all(const std::string& name, const std::string& x_name, Options options, F loss) {
    for (const OverAll& over : kOverAll) {
      options.reduction = over.reduction;
      options.per_sample = over.per_sample;
      check(name + over.name, x_name, [&](const Tensor& x) { return loss(x, options); });
    }
  }

 private:
  data::NpzFile file_;
};

/// The gradient of sum(loss(x)) by tape and captured, against central differences; x: f64, away from kinks.
template <typename F>
void expect_gradient(F loss, const Tensor& x) {
  constexpr double kStep = 1e-6;
  GradientTape tape(true);
  tape.watch(x);
  const Tensor gradient = tape.gradient(sum(loss(x)), x);
  auto captured = capture([&](const Tensor& in) { return gradients(sum(loss(in)), std::array{in})[0]; });
  EXPECT_TRUE(near(captured(x), gradient, 1e-12, 1e-14)) << "captured";
  std::vector<double> differences;
  for (size_t i = 0; i < x.to_vector().size(); ++i) {
    const auto at = [&](double step) {
      std::vector<double> values = x.to_vector();
      values[i] += step;
      return sum(loss(from_vector(x.shape(), values, DType::kF64))).template item<double>();
    };
    differences.push_back((at(kStep) - at(-kStep)) / (2 * kStep));
  }
  EXPECT_TRUE(near(gradient, from_vector(x.shape(), differences, DType::kF64), 1e-5, 1e-7));
}

/// The loss and then its gradient.
template <typename F>
std::vector<double> loss_and_gradient(F loss, const Tensor& x) {
  GradientTape tape(true);
  tape.watch(x);
  const Tensor y = loss(x);
  std::vector<double> both = y.to_vector();
  for (const double g : tape.gradient(y, x).to_vector()) both.push_back(g);
  return both;
}

}  // namespace isochron::nn
