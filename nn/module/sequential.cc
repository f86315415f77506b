#include "isochron/nn/module/sequential.h"

#include <algorithm>

namespace isochron::nn {

Module& Sequential::append(std::unique_ptr<Module> layer) {
  require(layer != nullptr, ErrorCode::kInvalidArgument, "sequential", "layer {} is null", layers_.size());
  const auto same = std::count_if(layers_.begin(), layers_.end(),
                                  [&](const auto& other) { return other.second->kind() == layer->kind(); });
  std::string name = same == 0 ? std::string(layer->kind()) : fmt::format("{}_{}", layer->kind(), same);
  return *layers_.emplace_back(std::move(name), std::move(layer)).second;
}

Module& Sequential::operator[](size_t index) {
  require(index < layers_.size(), ErrorCode::kOutOfRange, "sequential", "layer {} of {}", index,
          layers_.size());
  return *layers_[index].second;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor result = x;
  for (const auto& [name, layer] : layers_) result = (*layer)(result);
  return result;
}

void Sequential::members(Members& list) {
  for (const auto& [name, layer] : layers_) list(name, *layer);
}

}  // namespace isochron::nn
