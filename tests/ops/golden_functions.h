// Functions and their gradients beside PyTorch's (tests/golden/make_functions_torch.py).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "support/near.h"

namespace isochron {

class GoldenFunctions : public testing::Test {
 protected:
  using In = const std::vector<Tensor>&;

  void expect_equal(const Tensor& got, const std::string& name, double tolerance = 1e-13) {
    EXPECT_TRUE(near(got, arrays_.at(name), tolerance, tolerance)) << name;
  }

  /// The function of the arrays name.x0, name.x1 and so on, by a tape and in a captured function.
  void check_several(const std::string& name, const std::function<Tensor(In)>& function,
                     double tolerance = 1e-13) {
    std::vector<Tensor> inputs;
    for (std::string x = name + ".x0"; arrays_.contains(x); x.back()++) inputs.push_back(arrays_.at(x));
    ASSERT_FALSE(inputs.empty()) << name;
    const Tensor dy = arrays_.at(name + ".dy");
    // Where there is no path, PyTorch's gradient is zeros.
    const auto all_of = [&](const Tensor& y, const std::vector<Tensor>& of, std::vector<Tensor> gradients) {
      for (size_t i = 0; i < of.size(); ++i) {
        if (!gradients[i].defined()) gradients[i] = of[i] * 0.0;
      }
      gradients.insert(gradients.begin(), y);
      return gradients;
    };
    const auto check = [&](std::span<const Tensor> results) {
      expect_equal(results[0], name + ".y", tolerance);
      for (size_t i = 0; i < inputs.size(); ++i)
        expect_equal(results[i + 1], fmt::format("{}.dx{}", name, i), tolerance);
    };
    {
      GradientTape tape;
      const Tensor y = function(inputs);
      check(all_of(y, inputs, tape.gradient({&y, 1}, inputs, {&dy, 1})));
    }
    CapturedFunction captured(
        [&](std::span<const Tensor> values) {
          const std::vector<Tensor> of(values.begin(), values.end());
          const Tensor y = function(of);
          return all_of(y, of, gradients({&y, 1}, of, {&dy, 1}));
        },
        {.name = name});
    std::vector<const Tensor*> arguments;
    for (const Tensor& input : inputs) arguments.push_back(&input);
    check(captured.call(arguments));
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/functions_torch.npz");
};

}  // namespace isochron
