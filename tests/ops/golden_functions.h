// Functions and their gradients beside PyTorch's (tests/golden/make_functions_torch.py).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "support/near.h"

namespace isochron {

class GoldenFunctions : public testing::Test {
 protected:
  using In = const std::vector<Tensor>&;

  void expect_equal(const Tensor& got, const std::string& name, double tolerance = 1e-13) {
    EXPECT_TRUE(near(got, arrays_.at(name), tolerance, tolerance)) << name;
  }

  /// The function of the arrays name.x0, name.x1 and so on.
  void check_several(const std::string& name, const std::function<Tensor(In)>& function,
                     double tolerance = 1e-13) {
    std::vector<Tensor> inputs;
    for (std::string x = name + ".x0"; arrays_.contains(x); x.back()++) inputs.push_back(arrays_.at(x));
    ASSERT_FALSE(inputs.empty()) << name;
    const Tensor dy = arrays_.at(name + ".dy");
    GradientTape tape;
    const Tensor y = function(inputs);
    expect_equal(y, name + ".y", tolerance);
    const std::vector<Tensor> gradients = tape.gradient({&y, 1}, inputs, {&dy, 1});
    for (size_t i = 0; i < inputs.size(); ++i) {
      // Where there is no path, PyTorch's gradient is zeros.
      const Tensor gradient = gradients[i].defined() ? gradients[i] : inputs[i] * 0.0;
      expect_equal(gradient, fmt::format("{}.dx{}", name, i), tolerance);
    }
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/functions_torch.npz");
};

}  // namespace isochron
