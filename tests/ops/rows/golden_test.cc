// Activations, softmax and cross-entropies with their gradients against PyTorch's (tests/golden/README.md).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

class Golden : public testing::Test {
 protected:
  void expect_near(const Tensor& got, const std::string& name, double absolute = 1e-13) {
    const std::vector<double> want = arrays_.at(name).to_vector();
    const std::vector<double> values = got.to_vector();
    ASSERT_EQ(values.size(), want.size()) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(values[i], want[i], absolute + 1e-12 * std::abs(want[i])) << name << ", element " << i;
    }
  }

  /// y = function(x), and the gradient of sum(y * dy) with respect to x.
  void check(const std::function<Tensor(const Tensor&)>& function, const std::string& x,
             const std::string& name, const std::string& dy, const std::string& dx) {
    const Tensor input = arrays_.at(x);
    const Tensor seed = arrays_.at(dy);
    GradientTape tape;
    const Tensor y = function(input);
    expect_near(y, name + ".y");
    expect_near(tape.gradient({&y, 1}, {&input, 1}, {&seed, 1})[0], name + dx);
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/ops_torch.npz");
};

TEST_F(Golden, Activations) {
  const auto unary = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& function) {
    check(function, "unary.x", "unary." + name, "unary.dy", ".dx");
  };
  unary("erf", erf);
  unary("gelu", gelu);
  unary("gelu_tanh", gelu_tanh);
  unary("sigmoid", sigmoid);
  unary("tanh", tanh);
  unary("silu", silu);
  unary("softplus", softplus);
  unary("elu", [](const Tensor& x) { return elu(x); });
  unary("selu", selu);
  unary("relu", relu);
  unary("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
}

TEST(GeluTanh, HasAGradientInItsTails) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor x = from_vector({6}, {-1e30, -30, -8, 8, 30, 1e30}, dtype);
    GradientTape tape;
    const std::vector<double> dx = tape.gradient(sum(gelu_tanh(x)), x).to_vector();
    for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], i < 3 ? 0 : 1, 1e-12) << i;
    EXPECT_LT(dx[2], 0) << "nothing cancels: about -5e-20";
  }
}

TEST_F(Golden, Softmax) {
  for (const int64_t axis : {1, 2}) {
    const std::string name = "axis" + std::to_string(axis);
    const auto soft = [axis](const Tensor& x) { return softmax(x, axis); };
    const auto log_soft = [axis](const Tensor& x) { return log_softmax(x, axis); };
    check(soft, "softmax." + name + ".x", "softmax." + name, "softmax." + name + ".dy", ".dx");
    check(log_soft, "log_softmax." + name + ".x", "log_softmax." + name, "log_softmax." + name + ".dy",
          ".dx");
  }
}

TEST_F(Golden, CrossEntropyFromLogits) {
  const Tensor labels = arrays_.at("cross_entropy.labels");
  const Tensor targets = arrays_.at("cross_entropy.targets");
  const std::string sparse = "cross_entropy.sparse_logits";
  const std::string dense = "cross_entropy.dense_logits";
  check([&](const Tensor& x) { return sparse_softmax_cross_entropy(x, labels); }, "cross_entropy.logits",
        sparse, sparse + ".dy", ".dlogits");
  check([&](const Tensor& x) { return softmax_cross_entropy(x, targets); }, "cross_entropy.logits", dense,
        dense + ".dy", ".dlogits");
}

}  // namespace
}  // namespace isochron
