// Linear algebra against PyTorch (tests/golden/README.md), and what the registry's samples can't say.
#include "isochron/ops/linalg/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "ops/linalg/random_matrix.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;
using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

class MatrixGolden : public testing::Test {
 protected:
  /// Results and gradients of `function` at the arrays `inputs` against those stored under `name`.
  void check(const std::string& name, const std::vector<std::string>& inputs, const Function& function) {
    std::vector<Tensor> tensors;
    for (const std::string& input : inputs) tensors.push_back(arrays_.at(input));
    GradientTape tape;
    const std::vector<Tensor> results = function(tensors);
    std::vector<Tensor> seeds;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(near(results[i], arrays_.at(fmt::format("{}.y{}", name, i)), 1e-11, 1e-12)) << name << i;
      seeds.push_back(arrays_.at(fmt::format("{}.dy{}", name, i)));
    }
    const std::vector<Tensor> gradients = tape.gradient(results, tensors, seeds);
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(near(gradients[i], arrays_.at(fmt::format("{}.dx{}", name, i)), 1e-9, 1e-10)) << name << i;
    }
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/matrix_torch.npz");
};

TEST_F(MatrixGolden, ValuesAndGradients) {
  check("cholesky", {"spd"}, [](const Tensors& x) { return Tensors{cholesky(x[0])}; });
  check("solve", {"square", "sides"}, [](const Tensors& x) { return Tensors{solve(x[0], x[1])}; });
  check("triangular_solve", {"square", "sides"},
        [](const Tensors& x) { return Tensors{triangular_solve(x[0], x[1])}; });
  check("inverse", {"square"}, [](const Tensors& x) { return Tensors{inverse(x[0])}; });
  check("determinant", {"square"}, [](const Tensors& x) { return Tensors{determinant(x[0])}; });
  const auto pair = [](const std::pair<Tensor, Tensor>& results) {
    return Tensors{results.first, results.second};
  };
  check("slogdet", {"square"}, [&](const Tensors& x) { return pair(slogdet(x[0])); });
  check("qr", {"tall"}, [&](const Tensors& x) { return pair(qr(x[0])); });
  check("qr_square", {"square"}, [&](const Tensors& x) { return pair(qr(x[0])); });
}

// Sizes on either side of those at which the algorithms split.
class MatrixSizes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, MatrixSizes, testing::Values(1, 2, 31, 32, 33, 65, 131, 300));

TEST_P(MatrixSizes, FactorsMultiplyBackToTheMatrix) {
  const int64_t n = GetParam();
  const double size = static_cast<double>(n);
  const Tensor a = random_matrix({n, n});
  const Tensor b = random_matrix({n, 7});
  const Tensor positive = matmul(a, a, false, true) + eye(n, DType::kF64);
  const Tensor factor = cholesky(positive);
  EXPECT_LT(largest(matmul(factor, factor, false, true) - positive), 1e-14 * size);
  EXPECT_EQ(largest(triu(factor, 1)), 0);
  for (const Shape& shape : {Shape{n, n}, Shape{2 * n + 3, n}, Shape{n, n + 9}}) {
    const Tensor m = random_matrix(shape);
    const auto [q, r] = qr(m);
    const Tensor unit = eye(n, DType::kF64);
    EXPECT_LT(largest(matmul(q, r) - m), 1e-14 * size) << shape.str();
    EXPECT_LT(largest(matmul(q, q, true, false) - unit), 1e-14 * size) << shape.str();
    EXPECT_EQ(largest(tril(r, -1)), 0) << shape.str();
  }
  const Tensor x = solve(a, b);
  EXPECT_LT(largest(matmul(a, x) - b), 1e-13 * size * std::max(1.0, largest(x)));
  EXPECT_NEAR(slogdet(positive).second.item<double>(), 2 * sum(log(diagonal(factor))).item<double>(),
              1e-10 * size);
}

TEST(MatrixBatches, GiveWhatEachMatrixGives) {  // on all threads, to the last bit
  const Tensor a = random_matrix({300, 12, 12});
  const Tensor positive = matmul(a, a, false, true) + eye(12, DType::kF64);
  const Tensor b = random_matrix({300, 12, 60});
  const auto results = [](const Tensor& x, const Tensor& spd, const Tensor& side) {
    const auto [q, r] = qr(x);
    const auto [sign, log_magnitude] = slogdet(x);
    return std::vector<Tensor>{cholesky(spd), solve(x, side), triangular_solve(spd, side), q, r,
                               sign,          log_magnitude};
  };
  const std::vector<Tensor> whole = results(a, positive, b);
  for (int64_t i = 0; i < 300; ++i) {
    const auto one = [i](const Tensor& x) { return narrow(x, 0, i, 1); };
    const std::vector<Tensor> each = results(one(a), one(positive), one(b));
    for (size_t k = 0; k < whole.size(); ++k)
      ASSERT_EQ(one(whole[k]).to_vector(), each[k].to_vector()) << i << ", " << k;
  }
}

TEST(Qr, TakesWideMatricesButNotTheirGradient) {
  const Tensor wide = random_matrix({2, 3, 5});
  GradientTape tape;
  const auto [q, r] = qr(wide);
  EXPECT_EQ(q.shape(), Shape({2, 3, 3}));
  EXPECT_EQ(r.shape(), Shape({2, 3, 5}));
  EXPECT_LT(largest(matmul(q, r) - wide), 1e-14);
  const Tensor loss = sum(r);
  EXPECT_ERROR(tape.gradient({&loss, 1}, {&wide, 1}), ErrorCode::kUnsupported,
               "[qr] the gradient is only defined");
}

TEST(Qr, NeitherOverflowsNorHidesNan) {
  const Tensor huge = from_vector({2, 1}, {3e200, 4e200}, DType::kF64);
  EXPECT_TRUE(near(qr(huge).second, from_vector({1, 1}, {-5e200}, DType::kF64), 1e-14));
  EXPECT_TRUE(std::isnan(qr(from_vector({2, 1}, {1, NAN}, DType::kF64)).second.item<double>()));
}

TEST(Cholesky, NamesTheMatrixThatIsNotPositiveDefinite) {
  Values values;
  for (int i = 0; i < 6; ++i) values.insert(values.end(), {4, 2, 2, i == 4 ? 0.5 : 5.0});
  const Tensor x = from_vector({2, 3, 2, 2}, values);
  EXPECT_ERROR(cholesky(x), ErrorCode::kInvalidArgument,
               "[cholesky] matrix (1, 1) of the batch (2, 3) is not positive definite: pivot 1 is -0.5");
  EXPECT_ERROR(cholesky(from_vector({1, 1}, {NAN})), ErrorCode::kInvalidArgument,
               "the matrix is not positive");
  EXPECT_ERROR(cholesky(zeros({70, 70})), ErrorCode::kInvalidArgument, "pivot 0 is 0");
}

TEST(Cholesky, ReadsTheSymmetricPart) {
  const Tensor x = from_vector({2, 2}, {4, 0, 4, 5});  // symmetric part: 4, 2, 2, 5
  EXPECT_EQ(cholesky(x).to_vector(), (Values{2, 0, 1, 2}));
}

TEST(Solve, NamesTheSingularMatrixAndGoesOnAfterwards) {
  const Tensor singular = from_vector({2, 2, 2}, {1, 0, 0, 1, 1, 2, 2, 4});
  const Tensor b = ones({2, 2, 1});
  EXPECT_ERROR(solve(singular, b), ErrorCode::kInvalidArgument,
               "[solve] matrix (1) of the batch (2) is singular: column 1");
  EXPECT_ERROR(inverse(singular), ErrorCode::kInvalidArgument, "singular");
  auto step = capture([](const Tensor& a, const Tensor& side) { return solve(a, side); });
  EXPECT_ERROR(step(singular, b), ErrorCode::kInvalidArgument, "is singular");
  EXPECT_EQ(step(from_vector({2, 2, 2}, {0, 1, 1, 0, 2, 0, 0, 4}), b).to_vector(), (Values{1, 1, 0.5, 0.25}));
}

TEST(Solve, BroadcastsTheBatch) {
  const Tensor a = random_matrix({2, 1, 3, 3}) + eye(3, DType::kF64) * 3.0;
  const Tensor b = random_matrix({4, 3, 2});
  const Tensor x = solve(a, b);
  EXPECT_EQ(x.shape(), Shape({2, 4, 3, 2}));
  EXPECT_LT(largest(matmul(a, x) - b), 1e-13);
  EXPECT_ERROR(solve(a, ones({3}, DType::kF64)), ErrorCode::kShapeMismatch, "[solve]");
}

TEST(TriangularSolve, RefusesAZeroOnTheDiagonal) {
  const Tensor a = from_vector({2, 2}, {1, 5, 1, 0});
  EXPECT_ERROR(triangular_solve(a, ones({2, 1})), ErrorCode::kInvalidArgument,
               "[triangular_solve] the matrix is singular: element (1, 1)");
  EXPECT_EQ(triangular_solve(a, ones({2, 1}), {.unit_diagonal = true}).to_vector(), (Values{1, 0}));
}

TEST(Slogdet, OfSingularMatricesIsMinusInfinity) {
  const auto [sign, log_magnitude] = slogdet(from_vector({2, 2}, {1, 2, 2, 4}));
  EXPECT_EQ(sign.item<double>(), 0);
  EXPECT_EQ(log_magnitude.item<double>(), -INFINITY);
  EXPECT_EQ(determinant(from_vector({2, 2}, {1, 2, 2, 4})).item<double>(), 0);
  EXPECT_NEAR(determinant(from_vector({2, 2}, {0, 2, 3, 0}, DType::kF64)).item<double>(), -6, 1e-14);
}

TEST(Diagonal, IsTakenFromEachMatrix) {
  EXPECT_EQ(diagonal(reshape(arange(8), {2, 2, 2})).to_vector(), (Values{0, 3, 4, 7}));
  EXPECT_EQ(diagonal(zeros({0, 0})).shape(), Shape({0}));
  EXPECT_ERROR(diagonal(zeros({2, 3})), ErrorCode::kShapeMismatch, "[diagonal]");
  EXPECT_EQ(triu(ones({2, 3})).to_vector(), (Values{1, 1, 1, 0, 1, 1}));
}

}  // namespace
}  // namespace isochron
