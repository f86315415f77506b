// Errors of functions that are composed of other functions name what was called.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "isochron/isochron.h"

namespace isochron {
namespace {

using Operands = std::array<Tensor, 3>;
struct NamedCall {
  const char* name;
  void (*call)(const Operands& x);
};
#define CALL(name, ...)                                                    \
  {                                                                        \
#name, [](const Operands& x) { static_cast<void>(name(__VA_ARGS__)); } \
  }
#define LOSS(name, ...)                                                        \
  {                                                                            \
#name, [](const Operands& x) { static_cast<void>(nn::name(__VA_ARGS__)); } \
  }

const std::vector<NamedCall>& functions() {
  static const std::vector<NamedCall> list{CALL(all, x[0], {9}),
                                           CALL(any, x[0], {9}),
                                           CALL(argmax, x[0]),
                                           CALL(argmin, x[0]),
                                           CALL(argsort, x[0], 9),
                                           CALL(batch_norm, x[0], x[1], x[2]),
                                           CALL(clip, x[0], 0, 1),
                                           CALL(constant, x[0]),
                                           CALL(count_nonzero, x[0], {9}),
                                           CALL(determinant, x[0]),
                                           CALL(elu, x[0]),
                                           CALL(embedding, x[0], x[1]),
                                           CALL(fmod, x[0], 2.0),
                                           CALL(instance_norm, x[0], x[1], x[2]),
                                           CALL(leaky_relu, x[0]),
                                           CALL(masked_fill, x[0], x[1], 2),
                                           CALL(maximum, x[0], 2.0),
                                           CALL(minimum, x[0], 2.0),
                                           CALL(norm, x[0], 2, {9}),
                                           CALL(ones_like, x[0]),
                                           CALL(packed_attention, x[0], 2),
                                           CALL(pow, x[0], 2.0),
                                           CALL(rms_norm, x[0], x[1]),
                                           CALL(selu, x[0]),
                                           CALL(split, x[0], 2, 9),
                                           CALL(stack, {x[0], x[1]}),
                                           CALL(standard_deviation, x[0], {9}),
                                           CALL(tril, x[0]),
                                           CALL(triu, x[0]),
                                           CALL(variance, x[0], {9}),
                                           CALL(zeros_like, x[0]),
                                           LOSS(binary_cross_entropy, x[0], x[1]),
                                           LOSS(binary_cross_entropy_from_logits, x[0], x[1]),
                                           LOSS(binary_focal_cross_entropy, x[0], x[1]),
                                           LOSS(binary_focal_cross_entropy_from_logits, x[0], x[1]),
                                           LOSS(categorical_cross_entropy, x[0], x[1]),
                                           LOSS(categorical_focal_cross_entropy, x[0], x[1]),
                                           LOSS(categorical_hinge, x[0], x[1]),
                                           LOSS(cosine_embedding, x[0], x[1], x[2]),
                                           LOSS(cosine_similarity_loss, x[0], x[1]),
                                           LOSS(ctc_loss, x[0], x[1], x[2], x[2]),
                                           LOSS(dice_loss, x[0], x[1]),
                                           LOSS(gaussian_nll, x[0], x[1], x[2]),
                                           LOSS(hinge, x[0], x[1]),
                                           LOSS(hinge_embedding, x[0], x[1]),
                                           LOSS(huber, x[0], x[1]),
                                           LOSS(kl_divergence, x[0], x[1]),
                                           LOSS(kl_divergence_from_logits, x[0], x[1]),
                                           LOSS(log_cosh, x[0], x[1]),
                                           LOSS(margin_ranking, x[0], x[1], x[2]),
                                           LOSS(mean_absolute_error, x[0], x[1]),
                                           LOSS(mean_absolute_percentage_error, x[0], x[1]),
                                           LOSS(mean_squared_error, x[0], x[1]),
                                           LOSS(mean_squared_logarithmic_error, x[0], x[1]),
                                           LOSS(multi_margin, x[0], x[1]),
                                           LOSS(poisson, x[0], x[1]),
                                           LOSS(poisson_nll, x[0], x[1]),
                                           LOSS(smooth_l1, x[0], x[1]),
                                           LOSS(soft_margin, x[0], x[1]),
                                           LOSS(softmax_cross_entropy, x[0], x[1]),
                                           LOSS(softmax_focal_cross_entropy, x[0], x[1]),
                                           LOSS(sparse_categorical_cross_entropy, x[0], x[1]),
                                           LOSS(sparse_softmax_cross_entropy, x[0], x[1]),
                                           LOSS(squared_hinge, x[0], x[1]),
                                           LOSS(triplet_margin, x[0], x[1], x[2]),
                                           LOSS(tversky_loss, x[0], x[1])};
  return list;
}
#undef CALL
#undef LOSS

std::vector<Operands> wrong_operands() {
  const Tensor none, f = ones({2, 3}), other = ones({4, 5}), i = zeros({2, 3}, DType::kI64),
                     b = zeros({2, 3}, DType::kBool), number = ones({}), half = ones({2, 3}, DType::kF16),
                     empty = ones({0, 3});
  return {{none, none, none}, {f, none, none},
          {f, f, none},       {f, other, other},
          {f, f, other},      {i, i, i},
          {b, b, b},          {f, i, i},
          {i, f, f},          {f, half, half},
          {b, f, half},       {number, number, number},
          {f, b, b},          {empty, empty, empty}};
}

TEST(FunctionErrors, NameTheFunctionThatWasCalled) {
  for (const NamedCall& function : functions()) {
    int errors = 0;
    for (const Operands& operands : wrong_operands()) {
      try {
        function.call(operands);
      } catch (const Error& error) {
        ++errors;
        if (error.where() == function.name) continue;
        EXPECT_THAT(error.where(), testing::StartsWith(fmt::format("{}/", function.name))) << error.what();
      }
    }
    EXPECT_GT(errors, 0) << function.name;
  }
}

TEST(FunctionErrors, NameTheOutermostFunctionAndOnlyWhileItRuns) {
  const auto place = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.where();
    }
    return std::string("no error");
  };
  const Tensor x = ones({2, 3});
  EXPECT_EQ(place([&] { standard_deviation(x, {9}); }), "standard_deviation/mean");  // by variance
  EXPECT_EQ(place([&] { mean(x, {9}); }), "mean");
  nn::BatchNorm layer;
  EXPECT_EQ(place([&] { layer(zeros({2, 3}, DType::kI64)); }).substr(0, 10), "batch_norm");
}

}  // namespace
}  // namespace isochron
