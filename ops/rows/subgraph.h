// What the ops with sub-graphs (cond, while_loop, scan) and gradients written as graphs share.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "isochron/graph/capture/capture.h"

namespace isochron::ops {

/// `graph` as an attribute of a node.
std::shared_ptr<const graph::AttributeObject> as_attribute(std::unique_ptr<graph::Graph> graph);

/// As `as_attribute`, for what runs as often as a rank's own numbers say: a loop's body, a branch. Throws
/// kUnsupported where a collective op is in it, which all ranks must run equally often.
std::shared_ptr<const graph::AttributeObject> as_loop_attribute(std::unique_ptr<graph::Graph> graph,
                                                                std::string_view where);

/// The nodes of `graph` on `inputs`: recorded in the open capture, or run now.
std::vector<Tensor> inline_graph(const graph::Graph& graph, std::span<const Tensor> inputs);

/// `rows` tensors of `spec`, stacked. Throws kUnsupported where there is no axis left for them.
TensorSpec stacked_spec(const TensorSpec& spec, int64_t rows, std::string_view where);

/// Floating point operations of one run.
double flops_of(const graph::Graph& graph);

/// Lifts a sub-graph function's results as the graph's outputs. Throws kInvalidArgument for undefined ones.
void set_outputs(graph::Capture& capture, std::span<const Tensor> results, std::string_view where);

/// The values of the outer graph that a sub-graph reads, in the order of its additional inputs.
std::vector<graph::Value*> outer_values(const graph::Capture& capture);

}  // namespace isochron::ops
