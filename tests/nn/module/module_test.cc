#include "isochron/nn/module/module.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/notices.h"
#include "support/sanitizers.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const Module::NamedVariables& named) {
  std::vector<std::string> result;
  for (const auto& [name, variable] : named) result.push_back(name);
  return result;
}

/// Layers, a parameter built at the first call, and a buffer.
class Net : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    if (!shift_.defined()) shift_ = make_parameter("shift", {x.dtype(), {4}}, init::constant(0.5));
    const Tensor hidden = hidden_(x) + shift_;
    calls_.assign(calls_.tensor() + 1.0);
    return tail_(hidden);
  }
  void members(Members& list) override {
    list("hidden", hidden_)("tail", tail_)("shift", shift_).buffer("calls", calls_);
  }

 private:
  Dense hidden_{4, Activation::kTanh};
  Sequential tail_{Dense(3), Dense(2, Activation::kNone, {.bias = false})};
  Variable shift_;
  Variable calls_{zeros({}), "calls"};
};

/// Calls one member that it lists, and two layers that it doesn't; one of these has no variables.
class Forgetful : public Module {
 public:
  Tensor forward(const Tensor& x) override { return flatten_(averages_(listed_(x))); }
  void members(Members& list) override { list("listed", listed_); }

 private:
  Dense listed_{4};
  BatchNorm averages_{{.scale = false, .center = false}};
  Flatten flatten_;
};

TEST(Module, TellsOfACalledModuleThatIsNotListed) {
  const Notices notices;
  Forgetful net;
  net(ones({5, 3}));
  net(ones({5, 3}));
  const TrainingScope scope(false);
  Net listed;
  listed(ones({5, 3}));
  EXPECT_THAT(
      notices.texts(),
      ElementsAre("module: 'module' calls a 'batch_norm' that its members() doesn't list, so 2 variables "
                  "('moving_mean', ...) are neither trained nor saved with it; list the module, or call "
                  "it outside of 'module' if that is intended"));
}

/// One network for both inputs.
class Siamese : public Module {
 public:
  using Module::forward;
  Tensor forward(const Tensor& x) override { return dense_(x); }
  Tensor forward(const Tensor& a, const Tensor& b) override { return (*this)(a) - (*this)(b); }
  void members(Members& list) override { list("dense", dense_); }

 private:
  Dense dense_{4};
};

TEST(Module, MayCallItself) {
  const Notices notices;
  Siamese net;
  net(ones({5, 3}), ones({5, 3}));
  EXPECT_THAT(notices.texts(), testing::IsEmpty());
}

TEST(Module, ListsParametersByPath) {
  Net net;
  EXPECT_TRUE(net.parameters().empty());
  net(ones({5, 3}));
  const auto named = net.named_parameters();
  EXPECT_THAT(names(named), ElementsAre("hidden/kernel", "hidden/bias", "tail/dense/kernel",
                                        "tail/dense/bias", "tail/dense_1/kernel", "shift"));
  for (const auto& [name, variable] : named) EXPECT_EQ(variable.name(), name);
  EXPECT_THAT(names(net.named_buffers()), ElementsAre("calls"));
  EXPECT_EQ(net.parameter_count(), 12 + 4 + 12 + 3 + 6 + 4);
  EXPECT_EQ(net.children().size(), 2u);
  EXPECT_EQ(net.children()[1].first, "tail");
}

/// Variables of the module's own, called as its members are.
class Scaled : public Module {
 public:
  Tensor forward(const Tensor& x) override { return normalize_(dense_(x) * scale_); }
  void members(Members& list) override {
    list("dense", dense_)("scale", scale_)("tuned", tuned_)("norm", normalize_);
  }

 private:
  Dense dense_{3};
  Variable scale_{ones({3}), "scale"};
  Variable tuned_{ones({2}), "a name of its own"};
  BatchNorm normalize_;
};

TEST(Module, NamesVariablesByPathWhereverTheyWereMade) {
  Sequential model(Scaled{}, Scaled{});
  model(ones({4, 3}));
  std::vector<std::string> called;
  for (const auto& named : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& [name, variable] : named) {
      if (name.ends_with("tuned")) {
        EXPECT_EQ(variable.name(), "a name of its own");
      } else {
        EXPECT_EQ(variable.name(), name);
      }
      called.push_back(name);
    }
  }
  EXPECT_THAT(called, testing::IsSupersetOf({"module/scale", "module_1/scale", "module/tuned",
                                             "module_1/norm/moving_mean", "module_1/norm/moving_variance"}));
}

TEST(Module, BuildMakesParametersWithoutComputing) {
  Net net;
  EXPECT_EQ(net.build({DType::kF64, {7, 3}}), (TensorSpec{DType::kF64, {7, 2}}));
  EXPECT_EQ(net.parameters().size(), 6u);
  EXPECT_EQ(net.parameters()[0].spec(), (TensorSpec{DType::kF64, {3, 4}}));
  EXPECT_EQ(net.buffers()[0].tensor().item<float>(), 0);
}

TEST(Module, BuildsItsParametersOnceAlsoInsideACapture) {
  Net net;
  auto step = capture([&](const Tensor& x) { return net(x); });
  const std::vector<double> first = step(ones({5, 3})).to_vector();
  const std::vector<Variable> parameters = net.parameters();
  ASSERT_EQ(parameters.size(), 6u);
  EXPECT_EQ(step(ones({5, 3})).to_vector(), first);
  step(ones({2, 3}));
  EXPECT_EQ(net.parameters(), parameters);
  EXPECT_EQ(net.buffers()[0].tensor().item<float>(), 3);
  EXPECT_EQ(net(ones({5, 3})).to_vector(), first);
}

TEST(Module, NodesCarryThePathOfTheirLayer) {
  Net net;
  CaptureOptions options;
  options.passes.disabled = {"all"};
  auto step = capture([&](const Tensor& x) { return net(x); }, options);
  step(ones({5, 3}));
  const std::string text = graph::to_text(step.graph());
  EXPECT_THAT(text, HasSubstr("hidden/"));
  EXPECT_THAT(text, HasSubstr("tail/dense_1/"));
}

TEST(Module, FreezesPartsOfAModel) {
  Net net;
  net.children()[1].second->set_trainable(false);  // before it is built
  net(ones({5, 3}));
  net.children()[0].second->set_trainable(false);  // after
  std::vector<std::string> trainable;
  for (const auto& [name, variable] : net.named_parameters()) {
    if (variable.trainable()) trainable.push_back(name);
  }
  EXPECT_THAT(trainable, ElementsAre("shift"));
}

/// One layer under two names.
class Tied : public Module {
 public:
  Tensor forward(const Tensor& x) override { return layer_(layer_(x)); }
  void members(Members& list) override { list("first", layer_)("second", layer_); }

 private:
  Dense layer_{3};
};

TEST(Module, CountsATiedParameterOnce) {
  Tied tied;
  tied(ones({2, 3}));
  EXPECT_THAT(names(tied.named_parameters()), ElementsAre("first/kernel", "first/bias"));
}

TEST(Module, StaysUsableWhenMoved) {
  Sequential model(Dense(3), Dense(2));
  const std::vector<double> before = model(ones({1, 4})).to_vector();
  Sequential outer(std::move(model), Activate(Activation::kNone));
  EXPECT_EQ(outer(ones({1, 4})).to_vector(), before);
  EXPECT_THAT(names(outer.named_parameters()),
              ElementsAre("sequential/dense/kernel", "sequential/dense/bias", "sequential/dense_1/kernel",
                          "sequential/dense_1/bias"));
}

TEST(Module, RejectsWrongCalls) {
  Sequential model(Dense(3));
  EXPECT_ERROR(model(Tensor()), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(model(ones({4})), ErrorCode::kShapeMismatch, "at least 2 axes");
  EXPECT_ERROR(model(ones({2, 4}, DType::kI64)), ErrorCode::kDtypeMismatch, "floating");
  model(ones({2, 4}));
  EXPECT_ERROR(model(ones({2, 5})), ErrorCode::kShapeMismatch, "width 4, got f32(2, 5)");
  EXPECT_ERROR(model[1], ErrorCode::kOutOfRange, "1 of 1");
  EXPECT_ERROR(model.append(nullptr), ErrorCode::kInvalidArgument, "null");
}

class Cyclic : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  void members(Members& list) override { list("inner", *inner); }
  Module* inner = this;
};

TEST(Module, IsNoMemberOfItself) {
  Cyclic own, outer, inner;
  EXPECT_ERROR(own(ones({1})), ErrorCode::kInvalidArgument, "lies more than 256 modules deep");
  EXPECT_ERROR(own.parameters(), ErrorCode::kInvalidArgument, "does a module list itself");
  outer.inner = &inner;
  inner.inner = &outer;
  EXPECT_ERROR(outer(ones({1})), ErrorCode::kInvalidArgument, "inner/inner/inner");
  EXPECT_ERROR(outer.set_trainable(false), ErrorCode::kInvalidArgument, "or one that it is a member of?");
  Sequential usual(Dense(3));
  EXPECT_EQ(usual(ones({2, 4})).shape(), Shape({2, 3})) << "after that";
}

TEST(Module, WeightsBeyondTheMemoryAreATypedError) {
  Embedding table(int64_t{1} << 50, 4);
  EXPECT_ERROR(table(arange(2)), ErrorCode::kOutOfMemory,
               "no memory for 18014398509482048 bytes of 'weights'");
}

TEST(ModuleDeathTest, InitialWeightsNeedNoOtherMemory) {
  if (kSanitizer) GTEST_SKIP() << "address space can't be limited here";
  const auto build = [] {
    constexpr int64_t kRows = int64_t{1} << 22, kWidth = 8;  // 134 MB
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<size_t>(getpagesize()) + kRows * kWidth * sizeof(float) * 3 / 2;
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(99);
    try {
      Embedding(kRows, kWidth, {.padding_idx = 3})(arange(2));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(build(), testing::ExitedWithCode(0), "");
}

TEST(TrainingScope, NestsAndEnds) {
  EXPECT_TRUE(training());
  {
    const TrainingScope evaluate(false);
    EXPECT_FALSE(training());
    {
      const TrainingScope train(true);
      EXPECT_TRUE(training());
    }
    EXPECT_FALSE(training());
  }
  EXPECT_TRUE(training());
}

}  // namespace
}  // namespace isochron::nn
