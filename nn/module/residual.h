// Composition besides Sequential: branches around a module, and functions as layers.
#pragma once

#include <functional>
#include <memory>

#include "isochron/nn/module/sequential.h"

namespace isochron::nn {

/// Wraps a function without parameters as a layer: `nn::Function([](const Tensor& x) { return square(x); })`.
class Function : public Module {
 public:
  using Call = std::function<Tensor(const Tensor&)>;
  /// Throws kInvalidArgument for an empty function.
  explicit Function(Call call);
  Tensor forward(const Tensor& x) override { return call_(x); }
  std::string_view kind() const override { return "function"; }

 private:
  Call call_;
};

/// x + inner(x), or shortcut(x) + inner(x) if the shapes differ (He et al., CVPR 2016).
class Residual : public Module {
 public:
  /// Owns its modules: pass temporaries, or std::move them in.
  template <std::derived_from<Module> Inner>
  explicit Residual(Inner&& inner) : inner_(std::make_unique<Inner>(std::move(inner))) {}
  template <std::derived_from<Module> Inner, std::derived_from<Module> Shortcut>
  Residual(Inner&& inner, Shortcut&& shortcut)
      : inner_(std::make_unique<Inner>(std::move(inner))),
        shortcut_(std::make_unique<Shortcut>(std::move(shortcut))) {}
  /// Throws kShapeMismatch unless both branches have the same shape: the sum never broadcasts here.
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "residual"; }

 private:
  std::unique_ptr<Module> inner_;
  std::unique_ptr<Module> shortcut_;
};

/// Applies several modules to one input and concatenates their results along `axis`.
class Parallel : public Module {
 public:
  template <std::derived_from<Module>... Branches>
  explicit Parallel(int64_t axis, Branches&&... branches) : axis_(axis) {
    (branches_.push_back(std::make_unique<Branches>(std::move(branches))), ...);
  }
  /// Throws like concatenate; kInvalidArgument without branches.
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "parallel"; }

 private:
  int64_t axis_;
  std::vector<std::unique_ptr<Module>> branches_;
};

}  // namespace isochron::nn
