#include "isochron/autograd/checkpoint.h"

#include <gmock/gmock.h>
#include <pthread.h>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 32;
constexpr int kLayers = 8;

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal()) * 0.2f;
  return result;
}

/// Layers of products, sines and dropout, each read through a view.
class Model {
 public:
  Model() {
    for (int i = 0; i < kLayers; ++i)
      weights_.push_back(random_tensor({kWidth, kWidth}, static_cast<uint64_t>(i)));
  }
  Tensor layer(const Tensor& x, int i) const {
    const Tensor product = matmul(x, weights_[static_cast<size_t>(i)]);
    const Tensor viewed = reshape(sin(product), {kRows / 2, 2, kWidth});
    return reshape(dropout(exp(cos(viewed)) * viewed, 0.25), {kRows, kWidth});
  }
  const std::vector<Tensor>& weights() const { return weights_; }

 private:
  std::vector<Tensor> weights_;
};

/// Gates of products over the last of three axes, whose gradients look at x as rows again: views that are
/// made long after the value.
TEST(MemoryBudget, ValuesThatAreLookedAtThroughLaterViewsAreComputedAgain) {
  const Tensor x = random_tensor({8, 16, kWidth}, 1), w = random_tensor({kWidth, kWidth}, 2);
  const auto run = [&](size_t budget) {
    CaptureOptions options;
    options.passes.memory_budget_bytes = budget;
    auto step = capture(
        [](const Tensor& in, const Tensor& weights) {
          Tensor h = in;
          for (int i = 0; i < 3; ++i) {
            h = exp(h * 0.1);
            h = h * sigmoid(matmul(h, weights));
          }
          const Tensor loss = sum(square(h));
          const Tensor sources[] = {in, weights};
          const std::vector<Tensor> all = gradients(loss, sources);
          return std::vector<Tensor>{loss, all[0], all[1]};
        },
        options);
    std::vector<std::vector<double>> results;
    for (const Tensor& result : step(x, w)) results.push_back(result.to_vector());
    return std::pair(std::move(results), step.largest_plan().report.arena_bytes);
  };
  const auto [want, whole] = run(0);
  bool smaller = false;
  for (const double share : {0.95, 0.9, 0.8, 0.7, 0.6}) {
    try {
      const auto [got, bytes] = run(static_cast<size_t>(share * static_cast<double>(whole)));
      EXPECT_EQ(got, want) << share;
      smaller = smaller || bytes < whole;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
    }
  }
  EXPECT_TRUE(smaller);
}

struct Outcome {
  std::vector<std::vector<float>> results;  // loss and gradients, of two steps
  size_t arena_bytes = 0;
  size_t nodes = 0;
};

/// The loss of the model and its gradients; `wrap` is applied to each layer.
template <typename Wrap>
Outcome run(const Model& model, Wrap wrap, CaptureOptions options = {}) {
  random::set_seed(5);
  auto step = capture(
      [&](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < kLayers; ++i)
          y = wrap([&model, i](const Tensor& z) { return model.layer(z, i); }, y);
        const Tensor loss = mean(square(y));
        std::vector<Tensor> results = gradients(loss, model.weights());
        results.push_back(loss);
        return results;
      },
      options);
  const Tensor x = random_tensor({kRows, kWidth}, 99);
  Outcome result;
  for (int i = 0; i < 2; ++i) {
    for (const Tensor& tensor : step(x)) {
      result.results.emplace_back(tensor.span<float>().begin(), tensor.span<float>().end());
    }
  }
  result.arena_bytes = step.plan_report().arena_bytes;
  result.nodes = step.graph().node_count();
  return result;
}

using Layer = std::function<Tensor(const Tensor&)>;
Tensor plainly(const Layer& layer, const Tensor& x) { return layer(x); }
Tensor checkpointed(const Layer& layer, const Tensor& x) { return checkpoint(layer, x); }

TEST(Checkpoint, GivesTheSameBitsInLessMemory) {
  const Model model;
  const Outcome kept = run(model, plainly);
  const Outcome again = run(model, checkpointed);
  EXPECT_EQ(again.results, kept.results);
  EXPECT_LT(static_cast<double>(again.arena_bytes), 0.6 * static_cast<double>(kept.arena_bytes));
  EXPECT_GT(again.nodes, kept.nodes);
}

TEST(Checkpoint, SwitchedOffAsAPassChangesNothing) {
  const Model model;
  const Outcome kept = run(model, plainly);
  const Outcome off = run(model, checkpointed, {.passes = {.disabled = {"recompute"}}});
  EXPECT_EQ(off.results, kept.results);
  EXPECT_EQ(off.arena_bytes, kept.arena_bytes);
}

TEST(Checkpoint, InsideAnotherBelongsToTheOuter) {
  const Model model;
  const Outcome kept = run(model, plainly);
  const Outcome nested = run(model, [](const Layer& layer, const Tensor& x) {
    return checkpoint([&](const Tensor& y) { return checkpoint(layer, sin(y)); }, x);
  });
  const Outcome outer = run(model, [](const Layer& layer, const Tensor& x) {
    return checkpoint([&](const Tensor& y) { return layer(sin(y)); }, x);
  });
  EXPECT_EQ(nested.results, outer.results);
  EXPECT_EQ(nested.arena_bytes, outer.arena_bytes);
  EXPECT_LT(nested.arena_bytes, kept.arena_bytes);
}

TEST(Checkpoint, ItsResultIsKeptWhereAnotherValueStandsForIt) {
  const Model model;
  const Outcome plain = run(model, checkpointed);
  const Outcome simplified = run(model, [](const Layer& layer, const Tensor& x) {
    return checkpoint([&](const Tensor& y) { return layer(y) * 1.0; }, x);
  });
  EXPECT_EQ(simplified.results, plain.results);
  EXPECT_EQ(simplified.nodes, plain.nodes);
  EXPECT_EQ(simplified.arena_bytes, plain.arena_bytes);
}

TEST(Checkpoint, CallsTheFunctionOutsideACapture) {
  const Tensor x = full({3}, 0.5, DType::kF64);
  GradientTape tape;
  const Tensor y = checkpoint([](const Tensor& z) { return z * z; }, x);
  EXPECT_DOUBLE_EQ(tape.gradient(y, x).span<double>()[0], 1.0);
}

/// Of a function of 8,000 ops; it must not need a stack that grows with them.
void* gradient_of_a_long_checkpoint(void* shape) {
  auto step = capture([](const Tensor& x, const Tensor& w) {
    const Tensor y = checkpoint(
        [&](const Tensor& t) {
          Tensor h = t;
          for (int i = 0; i < 4'000; ++i) h = tanh(matmul(h, w));
          return h * 1.0;
        },
        x);
    return gradients(sum(y), {w})[0];
  });
  *static_cast<Shape*>(shape) = step(ones({1, 2}), full({2, 2}, 0.25)).shape();
  return nullptr;
}

TEST(Checkpoint, AFunctionMayBeAsLongAsAProgram) {
  pthread_attr_t small;
  ASSERT_EQ(pthread_attr_init(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, size_t{1} << 20), 0);
  pthread_t thread{};
  Shape shape;
  ASSERT_EQ(pthread_create(&thread, &small, gradient_of_a_long_checkpoint, &shape), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  EXPECT_EQ(shape, (Shape{2, 2}));
}

TEST(MemoryBudget, IsKeptWithTheSameBits) {
  const Model model;
  const Outcome kept = run(model, plainly);
  for (const double share : {0.9, 0.7, 0.5}) {
    SCOPED_TRACE(share);
    const size_t budget = static_cast<size_t>(share * static_cast<double>(kept.arena_bytes));
    const Outcome within = run(model, plainly, {.passes = {.memory_budget_bytes = budget}});
    EXPECT_LE(within.arena_bytes, budget);
    EXPECT_EQ(within.results, kept.results);
  }
}

TEST(MemoryBudget, ComputesNothingAgainWhereThereIsRoom) {
  const Model model;
  const Outcome kept = run(model, plainly);
  const Outcome roomy = run(model, plainly, {.passes = {.memory_budget_bytes = kept.arena_bytes}});
  EXPECT_EQ(roomy.nodes, kept.nodes);
}

TEST(MemoryBudget, ThatCannotBeKeptIsAnError) {
  const Model model;
  EXPECT_ERROR(run(model, plainly, {.passes = {.memory_budget_bytes = 1000}}), ErrorCode::kOutOfMemory,
               "memory budget");
}

/// Tiny tensors: the passes count their bytes without alignment gaps.
TEST(MemoryBudget, ThatAnErrorNamesIsEnough) {
  const auto step_within = [](size_t budget) {
    CaptureOptions options;
    options.passes.memory_budget_bytes = budget;
    return capture(
        [](const Tensor& a, const Tensor& b) {
          const std::vector<Tensor> sources{a, b};
          Tensor y = a;
          for (int i = 0; i < 6; ++i) y = sin(y * b) + exp(y * 0.1);
          const Tensor first = gradients(sum(y * y), sources)[0];
          return gradients(sum(first * first), sources)[1];
        },
        options);
  };
  const Tensor a = full({3}, 0.4), b = full({3}, 0.7);
  size_t named = 0;
  try {
    step_within(1)(a, b);
    FAIL() << "one byte is enough";
  } catch (const Error& error) {
    const std::string text = error.what();
    named = std::stoul(text.substr(text.find("needs ") + 6));
  }
  EXPECT_NO_THROW(step_within(named)(a, b)) << named;
}

}  // namespace
}  // namespace isochron
