// Sequential: modules one after the other.
#pragma once

#include <concepts>
#include <memory>

#include "isochron/nn/module/module.h"

namespace isochron::nn {

/// Owns its layers: pass temporaries, or std::move them in. Layers are named by kind; from the second layer
/// of a kind on, a number is appended: "dense", "dense_1".
class Sequential : public Module {
 public:
  Sequential() = default;
  template <typename... Layers>
  requires(sizeof...(Layers) > 0 && (std::derived_from<Layers, Module> && ...) &&
           !(sizeof...(Layers) == 1 &&
             (std::same_as<Layers, Sequential> && ...))) explicit Sequential(Layers&&... layers) {
    (add(std::make_unique<Layers>(std::move(layers))), ...);
  }

  /// Appends a layer. Call before the first use.
  void add(std::unique_ptr<Module> layer);
  size_t size() const { return layers_.size(); }
  /// Throws kOutOfRange.
  Module& layer(size_t index);

  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "sequential"; }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> layers_;
};

}  // namespace isochron::nn
