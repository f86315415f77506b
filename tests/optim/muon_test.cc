// Muon compared with PyTorch's, which gets the same matrices transposed (tests/golden/make_muon_torch.py).
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

const MuonOptions kSet = {.learning_rate = 0.02,
                          .momentum = 0.8,
                          .nesterov = false,
                          .coefficients = {2, -1.5, 0.5},
                          .iterations = 7,
                          .epsilon = 1e-3,
                          .match_rms_adamw = true,
                          .weight_decay = {.rate = 0.3}};

void follow_muon(const std::string& key, const MuonOptions& options, DType dtype, bool captured) {
  static const data::NpzFile file = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/muon_torch.npz");
  const std::string names[] = {"wide", "tall", "square"};
  std::vector<Variable> parameters;
  for (const std::string& name : names)
    parameters.emplace_back(cast(file.at("initial." + name), dtype), name);
  Muon optimizer(options);
  const auto update = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    optimizer.apply(parameters, std::vector<Tensor>{a, b, c});
  };
  auto step = capture(update);
  const auto row = [dtype](const Tensor& stacked, int64_t index) {
    return cast(squeeze(narrow(stacked, 0, index, 1), {0}), dtype);
  };
  const std::vector<double> kept = file.at("steps").to_vector();
  size_t next = 0;
  for (int64_t t = 0; t < 100; ++t) {
    Tensor gradients[3];
    for (size_t i = 0; i < 3; ++i) gradients[i] = row(file.at("gradients." + names[i]), t);
    captured ? step(gradients[0], gradients[1], gradients[2])
             : update(gradients[0], gradients[1], gradients[2]);
    if (static_cast<double>(t + 1) != kept[next]) continue;
    for (size_t i = 0; i < 3; ++i) {
      const Tensor want = row(file.at(key + (dtype == DType::kF64 ? ".f64." : ".f32.") + names[i]),
                              static_cast<int64_t>(next));
      EXPECT_TRUE(near(parameters[i].tensor(), want, 0, dtype == DType::kF64 ? 1e-10 : 2e-4));
    }
    ++next;
  }
  EXPECT_EQ(next, kept.size());
}

TEST(Muon, StaysInF32InMixedPrecision) {
  const Tensor x = random_normal({32, 24}), y = random_normal({32, 8}),
               initial = random_normal({24, 8}, 0, 0.3);
  const Variable w(copy(initial), "w");
  Muon optimizer({.learning_rate = 0.02});
  CaptureOptions options;
  options.passes.precision = Precision::kMixedBf16;
  auto step = capture(
      [&](const Tensor& in, const Tensor& target) {
        const Tensor sources[] = {w};
        const Tensor gradient = gradients(mean(square(matmul(in, w) - target)), sources)[0];
        optimizer.apply({&w, 1}, std::vector<Tensor>{gradient});
        return gradient;
      },
      options);
  const Tensor gradient = copy(step(x, y));
  EXPECT_EQ(gradient.dtype(), DType::kF32);
  const Variable alone(copy(initial), "w");
  Muon wide({.learning_rate = 0.02});
  wide.apply({&alone, 1}, std::vector<Tensor>{gradient});
  EXPECT_TRUE(near(w.tensor(), alone.tensor(), 1e-6, 1e-7)) << "of the same gradient, the same update";
}

TEST(Muon, FollowsPyTorchsInF64) {
  for (const bool captured : {false, true}) {
    follow_muon("muon", {}, DType::kF64, captured);
    follow_muon("muon_set", kSet, DType::kF64, captured);
  }
}

TEST(Muon, FollowsPyTorchsInF32) {
  follow_muon("muon", {}, DType::kF32, true);
  follow_muon("muon_set", kSet, DType::kF32, true);
}

TEST(Muon, MovesAlongASemiOrthogonalMatrix) {
  // With coefficients that converge. Convolution windows count as matrices of (window and inputs, outputs).
  const MuonOptions options = {.learning_rate = 1,
                               .momentum = 0,
                               .nesterov = false,
                               .coefficients = {2, -1.5, 0.5},
                               .iterations = 40,
                               .weight_decay = {}};
  random::set_seed(1);
  for (const Shape& shape : {Shape{6, 40}, Shape{40, 6}, Shape{3, 3, 4, 8}}) {
    Variable w(zeros(shape), "w");
    Muon(options).apply(std::vector{w}, std::vector{random_normal(shape)});
    const int64_t columns = shape.back(), rows = shape.elems() / columns;
    const double factor = std::sqrt(std::max(1.0, static_cast<double>(columns) / static_cast<double>(rows)));
    const Tensor x = reshape(w.tensor(), {rows, columns}) / factor;
    const Tensor gram = rows < columns ? matmul(x, x, false, true) : matmul(x, x, true);
    const int64_t n = std::min(rows, columns);
    const std::vector<double> values = gram.to_vector();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < n; ++k)
        EXPECT_NEAR(values[static_cast<size_t>(i * n + k)], i == k ? 1 : 0, 1e-4) << i << " " << k;
    }
  }
}

TEST(Muon, LearnsAMatrix) {
  random::set_seed(1);
  const Tensor target = random_normal({8, 5});
  Variable w(zeros({8, 5}), "w");
  Muon optimizer({.learning_rate = 0.05, .weight_decay = {}});
  auto step = capture([&] {
    const Tensor loss = mean(square(w.tensor() - target));
    optimizer.minimize(loss, std::vector{w});
    return loss;
  });
  const double first = step().item<double>();
  double last = first;
  for (int i = 0; i < 200; ++i) last = step().item<double>();
  EXPECT_LT(last, 0.01 * first);
}

TEST(Muon, RefusesVectorsAndOptionsOutOfRange) {
  Variable bias(zeros({5}), "bias");
  EXPECT_ERROR(Muon().apply(std::vector{bias}, std::vector{zeros({5})}), ErrorCode::kShapeMismatch,
               "needs 2 axes at least, got (5); give others to another optimizer");
  EXPECT_ERROR(Muon({.iterations = -1}), ErrorCode::kInvalidArgument, "iterations");
  EXPECT_ERROR(Muon({.momentum = 1}), ErrorCode::kInvalidArgument, "momentum");
}

TEST(Muon, KeepsNothingOfWhatItRefuses) {
  const Variable matrix(ones({2, 3}), "matrix"), bias(ones({5}), "bias"), other(ones({3, 2}), "other");
  Muon muon;
  EXPECT_ERROR(muon.apply(std::vector{matrix, bias}, std::vector{ones({2, 3}), ones({5})}),
               ErrorCode::kShapeMismatch, "");
  EXPECT_TRUE(muon.parameters().empty());
  muon.apply(std::vector{matrix, other}, std::vector{ones({2, 3}), ones({3, 2})});
  EXPECT_EQ(muon.parameters().size(), 2u);
}

TEST(Muon, TrainsBesideAnotherOptimizer) {
  random::set_seed(1);
  // One backward pass; Muon updates the matrices, AdamW the rest.
  Variable w(zeros({4, 3}), "w"), b(zeros({3}), "b");
  Muon matrices({.learning_rate = 0.05, .weight_decay = {}});
  AdamW others({.learning_rate = 0.05, .weight_decay = {}});
  const Tensor x = random_normal({32, 4}), y = matmul(x, random_normal({4, 3})) + 1.5;
  auto step = capture([&] {
    const Tensor loss = mean(square(matmul(x, w.tensor()) + b.tensor() - y));
    const std::vector<Tensor> found = gradients(loss, std::vector{w.tensor(), b.tensor()});
    matrices.apply(std::vector{w}, std::vector{found[0]});
    others.apply(std::vector{b}, std::vector{found[1]});
    return loss;
  });
  const double first = step().item<double>();
  double last = first;
  for (int i = 0; i < 200; ++i) last = step().item<double>();
  EXPECT_LT(last, 0.02 * first);
}

}  // namespace
}  // namespace isochron::optim
