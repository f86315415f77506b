#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/weights/weight_tables.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn::weight_tables {
namespace {

/// Our kernel: (window..., 1, channels * multiplier). Theirs: (window..., channels, multiplier).
WeightRule depthwise(std::string kind) {
  const auto with_last = [](const Tensor& x, int64_t before_last, int64_t last) -> Tensors {
    Dims shape = x.shape();
    shape[shape.rank() - 2] = before_last;
    shape[shape.rank() - 1] = last;
    return {reshape(x, shape)};
  };
  return {std::move(kind),
          {"kernel"},
          {"kernel"},
          [with_last](const Module& layer, const Tensors& ours) {
            const int64_t multiplier = layer_as<DepthwiseConvolution>(layer).multiplier();
            return with_last(ours[0], ours[0].extent(-1) / multiplier, multiplier);
          },
          [with_last](const Module&, const Tensors& parts) {
            return with_last(parts[0], 1, parts[0].extent(-2) * parts[0].extent(-1));
          }};
}

/// The rules for our kernel or bias that holds one or more projections side by side. Theirs are separate
/// tensors with the last axis split into heads.
template <typename Attention>
WeightRule projections(std::string kind, const std::string& ours, std::vector<std::string> theirs) {
  const size_t slash = ours.find('/');
  for (std::string& name : theirs) name += ours.substr(slash);
  const size_t first = theirs.size() == 2 ? 1 : 0;  // of queries, keys, values
  return {std::move(kind),
          {ours},
          theirs,
          [count = theirs.size(), first](const Module& layer, const Tensors& tensors) {
            const auto& attention = layer_as<Attention>(layer);
            const std::vector<int64_t> widths = {attention.query_width(), attention.key_width(),
                                                 attention.key_width()};
            Tensors parts = cut(tensors[0], std::span(widths).subspan(first, count));
            for (Tensor& part : parts) {
              Dims shape = part.shape();
              shape[shape.rank() - 1] = part.extent(-1) / attention.head_width();
              shape.push_back(attention.head_width());
              part = reshape(part, shape);
            }
            return parts;
          },
          [](const Module&, const Tensors& parts) -> Tensors {
            Tensors flat;
            for (const Tensor& part : parts) {
              Dims shape(part.shape().span().subspan(0, static_cast<size_t>(part.rank()) - 1));
              shape[shape.rank() - 1] *= part.extent(-1);
              flat.push_back(reshape(part, shape));
            }
            return {concatenate(flat, -1)};
          }};
}

/// The output projection. Ours: (heads * head width, width). Theirs: (heads, head width, width).
template <typename Attention>
WeightRule mixing(std::string kind) {
  return {std::move(kind),
          {"output/kernel"},
          {"attention_output/kernel"},
          [](const Module& layer, const Tensors& ours) -> Tensors {
            const int64_t head_width = layer_as<Attention>(layer).head_width();
            return {reshape(ours[0], {ours[0].extent(0) / head_width, head_width, ours[0].extent(1)})};
          },
          [](const Module&, const Tensors& parts) -> Tensors {
            return {reshape(parts[0], {parts[0].extent(0) * parts[0].extent(1), parts[0].extent(2)})};
          }};
}

}  // namespace

Rules keras_rules() {
  Rules rules = {
      renamed("rms_norm", "gamma", "scale"),
      depthwise("depthwise_conv1d"),
      depthwise("depthwise_conv2d"),
      mixing<MultiHeadAttention>("multi_head_attention"),
      mixing<CrossAttention>("cross_attention"),
      renamed("multi_head_attention", "output/bias", "attention_output/bias"),
      renamed("cross_attention", "output/bias", "attention_output/bias"),
  };
  for (const std::string member : {"kernel", "bias"}) {
    rules.push_back(projections<MultiHeadAttention>("multi_head_attention", "query_key_value/" + member,
                                                    {"query", "key", "value"}));
    rules.push_back(projections<CrossAttention>("cross_attention", "query/" + member, {"query"}));
    rules.push_back(projections<CrossAttention>("cross_attention", "key_value/" + member, {"key", "value"}));
  }
  for (const std::string kind : {"lstm", "gru"}) {
    for (const std::string member : {"kernel", "recurrent_kernel", "bias"}) {
      const std::string theirs = kind + "_cell/" + member;
      rules.push_back(renamed(kind, member, theirs));
      // The wrapper Bidirectional around one layer. In Keras, stacked layers are separate layers.
      rules.push_back(renamed(kind, "layer_0/forward/" + member, "forward_@/" + theirs));
      rules.push_back(renamed(kind, "layer_0/backward/" + member, "backward_@/" + theirs));
    }
  }
  return rules;
}

}  // namespace isochron::nn::weight_tables
