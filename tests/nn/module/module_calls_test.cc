// Calls of modules with several inputs, names that hold however a module is called, and errors that
// tell where.
#include <gmock/gmock.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/module/module_list.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/module/summary.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> checked_names(const Module::NamedVariables& named) {
  std::vector<std::string> result;
  for (const auto& [name, variable] : named) {
    EXPECT_EQ(variable.name(), name);
    result.push_back(name);
  }
  return result;
}

/// The nodes of `f` for these inputs, before any pass.
template <typename F>
std::string nodes_of(F f, const Tensor& x) {
  CaptureOptions options;
  options.passes.disabled = {"all"};
  auto step = capture(f, options);
  step(x);
  return graph::to_text(step.graph());
}

/// a W + b V; the second input may be left out.
class TwoInputs : public Module {
 public:
  Tensor forward(const Tensor& a) override { return left_(a); }
  Tensor forward(const Tensor& a, const Tensor& b) override {
    return b.defined() ? left_(a) + right_(b) : left_(a);
  }
  void members(Members& list) override { list("left", left_)("right", right_); }
  std::string_view kind() const override { return "two_inputs"; }

 private:
  Dense left_{3}, right_{3};
};

class ManyInputs : public Module {
 public:
  Tensor forward(std::span<const Tensor> inputs) override {
    Tensor sum = inputs[0];
    for (const Tensor& input : inputs.subspan(1)) sum = sum + input;
    return out_(sum);
  }
  void members(Members& list) override { list("out", out_); }

 private:
  Dense out_{2};
};

/// A module with two inputs inside another module with three.
class Outer : public Module {
 public:
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    return inner_(a, b) + last_(c);
  }
  void members(Members& list) override { list("inner", inner_)("last", last_); }

 private:
  TwoInputs inner_;
  Dense last_{3};
};

TEST(ModuleCalls, SeveralInputsAreNamedAndBuiltAsOneIs) {
  Outer model;
  EXPECT_EQ(model.build({DType::kF64, {5, 2}}, {DType::kF64, {5, 4}}, {DType::kF64, {5, 6}}),
            (TensorSpec{DType::kF64, {5, 3}}));
  EXPECT_THAT(checked_names(model.named_parameters()),
              ElementsAre("inner/left/kernel", "inner/left/bias", "inner/right/kernel", "inner/right/bias",
                          "last/kernel", "last/bias"));
  EXPECT_EQ(model.parameters()[2].shape(), (Shape{4, 3}));
  const std::string nodes = nodes_of(
      [&](const Tensor& x) {
        return model(x, ones({5, 4}, DType::kF64), ones({5, 6}, DType::kF64));
      },
      ones({5, 2}, DType::kF64));
  EXPECT_THAT(nodes, HasSubstr("# inner/right/\n"));
}

TEST(ModuleCalls, TakeVariablesAndUndefinedInputs) {
  TwoInputs model;
  const Variable a(ones({1, 2}), "a"), b(ones({1, 4}), "b");
  const Tensor both = model(a, b);
  EXPECT_EQ(both.shape(), (Shape{1, 3}));
  EXPECT_EQ(model(a, Tensor()).to_vector(), model(a).to_vector());
  EXPECT_NE(model(a).to_vector(), both.to_vector());
}

TEST(ModuleCalls, TakeAnyNumberOfInputs) {
  ManyInputs model;
  const std::vector<Tensor> inputs(6, ones({2, 3}));
  const Tensor six = model(inputs);
  EXPECT_EQ(six.shape(), (Shape{2, 2}));
  EXPECT_EQ(model(inputs[0], inputs[0], inputs[0], inputs[0], inputs[0], inputs[0]).to_vector(),
            six.to_vector());
  EXPECT_NE(model(inputs[0]).to_vector(), six.to_vector());
  ManyInputs other;
  EXPECT_EQ(other.build(std::vector<TensorSpec>(5, {DType::kF32, {2, 7}})),
            (TensorSpec{DType::kF32, {2, 2}}));
}

TEST(ModuleCalls, OfAFormThatTheModuleLacksAreErrors) {
  Dense one(2);
  const Tensor x = ones({1, 2});
  EXPECT_ERROR(
      one(x, x), ErrorCode::kUnsupported,
      "[dense] was called with 2 inputs, but has no forward for so many; write `Tensor forward(const "
      "Tensor& a, const Tensor& b) override`");
  Outer three;
  EXPECT_ERROR(three(x), ErrorCode::kUnsupported, "was called with 1 input,");
  EXPECT_ERROR(three(x, x, x, x, x), ErrorCode::kUnsupported, "std::span<const Tensor> inputs");
  EXPECT_ERROR(three(Tensor(), x, x), ErrorCode::kInvalidArgument, "the input is undefined");
  EXPECT_ERROR(three(std::span<const Tensor>()), ErrorCode::kInvalidArgument, "no input");
}

TEST(ModuleCalls, AttentionTakesMemoryAndMask) {
  const Tensor x = ones({2, 3, 4});
  const Tensor memory = from_vector({2, 2, 5}, std::vector<double>(20, 0.5));
  const Tensor mask = from_vector({2, 2}, {1, 0, 1, 1}, DType::kBool);
  CrossAttention cross(4, 2);
  EXPECT_EQ(cross.build(x.spec(), memory.spec(), mask.spec()), x.spec());
  EXPECT_EQ(cross(x, memory, mask).to_vector(), cross.attend(x, memory, mask).to_vector());
  EXPECT_EQ(cross(x, memory).to_vector(), cross.attend(x, memory, {}).to_vector());
  MultiHeadAttention self(4, 2);
  const Tensor key_mask = from_vector({2, 3}, {1, 1, 0, 1, 1, 1}, DType::kBool);
  EXPECT_EQ(self(x, key_mask).to_vector(), self.attend(x, key_mask).to_vector());
  EXPECT_EQ(self(x).to_vector(), self(x, Tensor()).to_vector());
  EXPECT_ERROR(MultiHeadAttention(4, 2)(memory), ErrorCode::kShapeMismatch,
               "expected (samples, length, 4), got f32(2, 2, 5)");
  EXPECT_ERROR(CrossAttention(4, 2)(memory, x), ErrorCode::kShapeMismatch,
               "expected (samples, length, 4), got f32(2, 2, 5)");
  EXPECT_ERROR(CrossAttention(4, 2)(x, ones({2, 4})), ErrorCode::kShapeMismatch,
               "expected (samples, length, width), got f32(2, 4)");
}

TEST(ModuleCalls, RecurrentLayersTakeInitialStates) {
  const Tensor x = from_vector({2, 3, 2}, {1, 2, 3, 4, 5, 6, 0, -1, -2, -3, 1, 1}, DType::kF64);
  const auto state = [](double value) { return full({2, 2, 3}, value, DType::kF64); };
  LSTM lstm(3, {.layers = 2});
  EXPECT_EQ(lstm.build(x.spec(), state(0).spec(), state(0).spec()), (TensorSpec{DType::kF64, {2, 3}}));
  EXPECT_EQ(lstm(x, state(0), state(0)).to_vector(), lstm(x).to_vector());
  const Tensor h = full({2, 3}, 0.5, DType::kF64), c = full({2, 3}, -0.25, DType::kF64);
  EXPECT_EQ(lstm(x, state(0.5), state(-0.25)).to_vector(),
            lstm.run(x, {.h = {h, h}, .c = {c, c}}).last.to_vector());
  EXPECT_ERROR(lstm(x, state(0)), ErrorCode::kInvalidArgument, "[lstm] of the initial h and c only one");
  GRU gru(3, {.bidirectional = true});
  EXPECT_EQ(gru(x, state(0.5)).to_vector(), gru.run(x, {.h = {h, h}}).last.to_vector());
  EXPECT_ERROR(gru(x, h), ErrorCode::kShapeMismatch, "(2, samples, 3); got f64(2, 3)");
  EXPECT_ERROR(gru(x, state(0), state(0)), ErrorCode::kInvalidArgument, "no cell state");
  GRUCell cell(3);
  const Tensor row = ones({2, 4}, DType::kF64);
  EXPECT_EQ(cell(row, h).to_vector(), cell.step(row, h).to_vector());
}

/// Methods other than forward, which do or don't enter the module.
class Methods : public Module {
 public:
  explicit Methods(bool enters) : enters_(enters) {}
  Tensor forward(const Tensor& x) override { return pair(x).second; }
  std::pair<Tensor, Tensor> pair(const Tensor& x) {
    if (!enters_) return compute(x);
    const Scope scope = enter();
    return compute(x);
  }
  void members(Members& list) override { list("first", first_)("second", second_); }

 private:
  std::pair<Tensor, Tensor> compute(const Tensor& x) {
    const Tensor code = first_(x);
    return {code, second_(code)};
  }
  bool enters_;
  Dense first_{2}, second_{3};
};

TEST(Enter, AForgottenOneIsAnErrorInACapture) {
  const auto train = [](Methods& model) {
    optim::Sgd optimizer;
    auto step = capture([&](const Tensor& x) {
      const Tensor loss = mean(square(model.pair(x).second));
      optimizer.minimize(loss, model.parameters());
      return loss;
    });
    step(ones({2, 4}));
  };
  Methods forgets(false), enters(true);
  train(enters);
  EXPECT_THAT(checked_names(enters.named_parameters()),
              ElementsAre("first/kernel", "first/bias", "second/kernel", "second/bias"));
  EXPECT_ERROR(train(forgets), ErrorCode::kCaptureViolation,
               "'first' was called in this capture before the module that owns it was entered");
  EXPECT_ERROR(train(forgets), ErrorCode::kCaptureViolation, "`const Scope scope = enter();`");
  // `forward` alone doesn't enter.
  Sequential layers(Dense(2));
  auto step = capture([&](const Tensor& x) {
    const Tensor y = layers.forward(x);
    return y * static_cast<double>(layers.parameters().size());
  });
  EXPECT_ERROR(step(ones({2, 4})), ErrorCode::kCaptureViolation,
               "call the module itself, model(x), and not forward");
}

TEST(Enter, NamesComeLaterToWhatIsCalledByItself) {
  Methods forgets(false);
  forgets.pair(ones({2, 4}));  // eager: nothing keeps the missing path
  EXPECT_THAT(checked_names(forgets.named_parameters()),
              ElementsAre("first/kernel", "first/bias", "second/kernel", "second/bias"));
  Methods parts(true);
  auto head = capture([&](const Tensor& x) { return (*parts.children()[0].second)(x); });
  head(ones({2, 4}));
  parts(ones({2, 4}));
  EXPECT_THAT(checked_names(parts.named_parameters()),
              ElementsAre("first/kernel", "first/bias", "second/kernel", "second/bias"));
}

/// Calls a method of its member that doesn't enter.
class CallsAMethod : public Module {
 public:
  Tensor forward(const Tensor& x) override { return inner_.pair(x).second; }
  void members(Members& list) override { list("inner", inner_); }

 private:
  Methods inner_{false};
};

TEST(Enter, BelowAModuleThatWasEnteredPathsHoldWithoutIt) {
  CallsAMethod model;
  const std::string nodes = nodes_of([&](const Tensor& x) { return model(x); }, ones({2, 4}));
  EXPECT_THAT(nodes, HasSubstr("# inner/second/\n"));
  EXPECT_THAT(
      checked_names(model.named_parameters()),
      ElementsAre("inner/first/kernel", "inner/first/bias", "inner/second/kernel", "inner/second/bias"));
}

TEST(Enter, TwiceIsAsOnce) {
  LSTM lstm(2);
  Sequential model(Dense(3));
  model.append(std::make_unique<LSTMCell>(2));
  const std::string nodes = nodes_of([&](const Tensor& x) { return model(x); }, ones({2, 4}));
  EXPECT_THAT(nodes, HasSubstr("lstm_cell/"));
  EXPECT_THAT(nodes, Not(HasSubstr("lstm_cell/lstm_cell/")));
}

/// A block that is made when it is first needed.
class Lazy : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor y = first_(x);
    if (!second_) second_ = std::make_unique<Dense>(2);
    return (*second_)(y);
  }
  void members(Members& list) override {
    list("first", first_);
    if (second_) list("second", *second_);
  }

 private:
  Dense first_{3};
  std::unique_ptr<Dense> second_;
};

TEST(ModuleNames, ReachMembersThatComeLater) {
  Sequential model(Dense(2));
  model.append(std::make_unique<Lazy>());
  model(ones({1, 4}));
  EXPECT_THAT(checked_names(model.named_parameters()),
              ElementsAre("dense/kernel", "dense/bias", "module/first/kernel", "module/first/bias",
                          "module/second/kernel", "module/second/bias"));
}

TEST(ModuleNames, FollowAModuleThatMoves) {
  Sequential inner(Dense(3));
  Sequential middle(std::move(inner));
  middle(ones({1, 2}));
  EXPECT_THAT(checked_names(middle.named_parameters()), ElementsAre("dense/kernel", "dense/bias"));
  Sequential outer(std::move(middle), Dense(1));
  outer(ones({1, 2}));
  EXPECT_THAT(checked_names(outer.named_parameters()),
              ElementsAre("sequential/dense/kernel", "sequential/dense/bias", "dense/kernel", "dense/bias"));
}

/// Calls a layer that belongs to another module.
class Borrower : public Module {
 public:
  explicit Borrower(Module& layer) : layer_(layer) {}
  Tensor forward(const Tensor& x) override { return layer_(x); }
  void members(Members& list) override { list("borrowed", layer_); }

 private:
  Module& layer_;
};

TEST(ModuleNames, OfASharedModuleAreThoseOfItsOwner) {
  Sequential owner(Dense(3));  // moved into it, and then named by it
  owner(ones({1, 4}));
  const std::vector<Variable> parameters = owner.parameters();
  ASSERT_EQ(parameters[0].name(), "dense/kernel");
  Borrower borrower(*owner.children()[0].second);
  borrower(ones({1, 4}));
  EXPECT_EQ(parameters[0].name(), "dense/kernel");
}

/// Lists two things under one name.
class SameNames : public Module {
 public:
  enum class What { kChildren, kParameters, kUnbuilt, kMixed };
  explicit SameNames(What what) : what_(what) {}
  Tensor forward(const Tensor& x) override { return second_(first_(x)); }
  void members(Members& list) override {
    switch (what_) {
      case What::kChildren:
        list("same", first_)("same", second_);
        break;
      case What::kParameters:
        list("same", a_).buffer("same", b_);
        break;
      case What::kUnbuilt:
        list("same", none_)("same", b_);
        break;
      case What::kMixed:
        list("same", a_)("same", second_);
        break;
    }
  }

 private:
  What what_;
  Dense first_{2}, second_{2};
  Variable a_{ones({1}), "a"}, b_{ones({1}), "b"}, none_;
};

TEST(ModuleNames, TwiceInOneModuleAreAnError) {
  using What = SameNames::What;
  for (const What what : {What::kChildren, What::kParameters, What::kUnbuilt, What::kMixed}) {
    SameNames model(what);
    constexpr std::string_view kText =
        "[module] members() lists 'same' twice; give each member a name of its own";
    EXPECT_ERROR(model(ones({1, 2})), ErrorCode::kInvalidArgument, std::string(kText));
    EXPECT_ERROR(model.build({DType::kF32, {1, 2}}), ErrorCode::kInvalidArgument, std::string(kText));
    EXPECT_ERROR(model.parameters(), ErrorCode::kInvalidArgument, std::string(kText));
    EXPECT_ERROR(summary(model), ErrorCode::kInvalidArgument, std::string(kText));
    const TempFolder folder;
    EXPECT_ERROR(save_weights(model, folder / "w.safetensors"), ErrorCode::kInvalidArgument,
                 std::string(kText));
    EXPECT_FALSE(std::filesystem::exists(folder / "w.safetensors"));
  }
  Sequential around(Dense(2));
  around.append(std::make_unique<SameNames>(What::kChildren));
  EXPECT_ERROR(around(ones({1, 2})), ErrorCode::kInvalidArgument, "[module] members() lists 'same' twice");
  EXPECT_ERROR(summary(around), ErrorCode::kInvalidArgument, "members() lists 'same' twice");
}

TEST(ModuleNames, ArePartsOfPaths) {
  struct OneName : Module {
    explicit OneName(std::string text) : name(std::move(text)) {}
    Tensor forward(const Tensor& x) override { return in(x)*variable; }
    void members(Members& list) override { list("in", in)(name, variable); }
    std::string name;
    Dense in{2};
    Variable variable{ones({1}), "v"};
  };
  for (const std::string name : {"", "/", "/v", "v/"}) {
    OneName model(name);
    EXPECT_ERROR(model.parameters(), ErrorCode::kInvalidArgument,
                 "members() lists '" + name + "'; a name must not be empty");
  }
  for (const std::string name : {"in/kernel", "in/v/w"}) {
    OneName model(name);
    EXPECT_ERROR(model.parameters(), ErrorCode::kInvalidArgument,
                 "members() lists '" + name + "' beside the module 'in'");
  }
  for (const std::string name : {"in.kernel-0", "inner/v", "in0", "i/n"})
    EXPECT_EQ(OneName(name).named_parameters()[0].first, name);
}

TEST(ModuleMoves, WhatWasMovedFromSaysSo) {
  Dense dense(3);
  Dense here = std::move(dense);
  EXPECT_ERROR(dense(ones({1, 4})), ErrorCode::kInvalidArgument, "[dense] it was moved from");
  EXPECT_ERROR(dense.parameters(), ErrorCode::kInvalidArgument, "[dense] it was moved from");
  EXPECT_ERROR(summary(dense), ErrorCode::kInvalidArgument, "[dense] it was moved from");
  EXPECT_EQ(here(ones({1, 4})).shape(), (Shape{1, 3}));
  Sequential model(std::move(here), Dense(2));
  Sequential there = std::move(model);
  EXPECT_ERROR(model(ones({1, 4})), ErrorCode::kInvalidArgument, "[sequential] it was moved from");
  EXPECT_EQ(there(ones({1, 4})).shape(), (Shape{1, 2}));
  model = std::move(there);
  EXPECT_EQ(model(ones({1, 4})).shape(), (Shape{1, 2})) << "it has been moved to";
}

/// Two levels, so that an error has a path of two names.
Sequential two_levels() { return Sequential(Dense(3), Sequential(Dense(4), Dense(5))); }

TEST(ModuleErrors, TellThePathAndBothShapes) {
  Sequential model = two_levels();
  model(ones({1, 2}));
  EXPECT_ERROR(model(ones({1, 7})), ErrorCode::kShapeMismatch, "[dense] was built for inputs of width");
  EXPECT_ERROR(model(ones({1, 7})), ErrorCode::kShapeMismatch, "width 2, got f32(1, 7)");
  auto& inner = dynamic_cast<Sequential&>(model[1]);
  Sequential fresh(Dense(3), Sequential(Dense(4), Flatten(), Dense(9)));
  EXPECT_ERROR(fresh(ones({2, 2}, DType::kI32)), ErrorCode::kDtypeMismatch,
               "[dense] the input must be floating");
  EXPECT_ERROR(inner[1](ones({1, 9})), ErrorCode::kShapeMismatch,
               "[sequential/dense_1] was built for inputs of width");
  auto step = capture([&](const Tensor& x) { return inner(x); });
  EXPECT_ERROR(step(ones({1, 9})), ErrorCode::kShapeMismatch,
               "[sequential/dense] was built for inputs of width");
}

TEST(ModuleErrors, OfALayerAloneTellItsKind) {
  Dense dense(3);
  dense(ones({1, 2}));
  EXPECT_ERROR(dense(ones({1, 5})), ErrorCode::kShapeMismatch, "[dense] was built for inputs of width");
  EXPECT_ERROR(dense(Tensor()), ErrorCode::kInvalidArgument, "[dense] the input is undefined");
}

/// An op of its own, and a method of a member that isn't forward.
class Own : public Module {
 public:
  explicit Own(bool scores) : scores_(scores) {}
  Tensor forward(const Tensor& x) override { return scores_ ? table_.scores(x) : matmul(x, ones({9, 9})); }
  void members(Members& list) override { list("table", table_); }

 private:
  bool scores_;
  Embedding table_{4, 3};
};

TEST(ModuleErrors, ReachModulesWhoseMethodsFail) {
  Sequential of_scores(Dense(2));
  of_scores.append(std::make_unique<Own>(true));
  EXPECT_ERROR(of_scores(ones({1, 2})), ErrorCode::kShapeMismatch, "[module/table/matmul]");
  Sequential own(Dense(2));
  own.append(std::make_unique<Own>(false));
  EXPECT_ERROR(own(ones({1, 2})), ErrorCode::kShapeMismatch, "[module/matmul]");
  EXPECT_ERROR(own(ones({1, 3})), ErrorCode::kShapeMismatch, "[dense] was built for inputs of width");
}

TEST(ModuleErrors, LeaveAModelUsable) {
  Sequential model = two_levels();
  const std::vector<double> before = model(ones({1, 2})).to_vector();
  EXPECT_ERROR(model(ones({1, 7})), ErrorCode::kShapeMismatch, "was built for inputs of width 2");
  EXPECT_EQ(model(ones({1, 2})).to_vector(), before);
  EXPECT_EQ(graph::NameScope::current(), "");
}

/// Blocks with two inputs each.
class Blocks : public Module {
 public:
  explicit Blocks(int count) {
    for (int i = 0; i < count; ++i) blocks_.append(TwoInputs());
  }
  Tensor forward(const Tensor& x, const Tensor& y) override {
    Tensor result = x;
    for (Module& block : blocks_) result = block(result, y);
    return result;
  }
  void members(Members& list) override { list("blocks", blocks_); }
  ModuleList& blocks() { return blocks_; }

 private:
  ModuleList blocks_;
};

TEST(ModuleList, NamesItsModulesByNumber) {
  Blocks model(2);
  model.build({DType::kF32, {1, 3}}, {DType::kF32, {1, 2}});
  EXPECT_THAT(checked_names(model.named_parameters()),
              ElementsAre("blocks/0/left/kernel", "blocks/0/left/bias", "blocks/0/right/kernel",
                          "blocks/0/right/bias", "blocks/1/left/kernel", "blocks/1/left/bias",
                          "blocks/1/right/kernel", "blocks/1/right/bias"));
  const std::string nodes = nodes_of([&](const Tensor& x) { return model(x, ones({1, 2})); }, ones({1, 3}));
  EXPECT_THAT(nodes, HasSubstr("# blocks/1/right/\n"));
  EXPECT_ERROR(model(ones({1, 3}), ones({1, 5})), ErrorCode::kShapeMismatch, "[blocks/0/right/dense]");
}

TEST(ModuleList, HoldsModules) {
  ModuleList list(Dense(1), Dense(2));
  Dense& third = list.append(Dense(3));
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(&list[2], &third);
  EXPECT_EQ(std::distance(list.begin(), list.end()), 3);
  EXPECT_ERROR(list[3], ErrorCode::kOutOfRange, "module 3 of 3");
  EXPECT_ERROR(list.append(std::unique_ptr<Module>()), ErrorCode::kInvalidArgument, "null");
  EXPECT_ERROR(list(ones({1, 1})), ErrorCode::kUnsupported, "[module_list] was called with 1 input");
  EXPECT_TRUE(ModuleList().empty());
}

}  // namespace
}  // namespace isochron::nn
