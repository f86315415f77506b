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
    (append(std::move(layers)), ...);
  }

  /// Appends a layer and returns a reference to it, which remains valid. Call before the first use.
  template <std::derived_from<Module> Layer>
  Layer& append(Layer&& layer) {
    auto owned = std::make_unique<Layer>(std::move(layer));
    Layer& result = *owned;
    append(std::unique_ptr<Module>(std::move(owned)));
    return result;
  }
  /// Throws kInvalidArgument for null.
  Module& append(std::unique_ptr<Module> layer);
  size_t size() const { return layers_.size(); }
  /// Throws kOutOfRange.
  Module& operator[](size_t index);

  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "sequential"; }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> layers_;
};

}  // namespace isochron::nn
