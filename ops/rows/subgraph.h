// Helpers for ops with sub-graphs (cond, while_loop, scan) and for gradients written as graphs.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "isochron/graph/capture/capture.h"

namespace isochron::ops {

/// `graph` as an attribute of a node.
std::shared_ptr<const graph::AttributeObject> as_attribute(std::unique_ptr<graph::Graph> graph);

/// Like `as_attribute`, for loop bodies and branches, which each rank may run a different number of times.
/// Throws kUnsupported if `graph` contains a collective op, because all ranks must run it equally often.
std::shared_ptr<const graph::AttributeObject> as_loop_attribute(std::unique_ptr<graph::Graph> graph,
                                                                std::string_view where);

/// Applies the nodes of `graph` to `inputs`: they are recorded in the current capture, or run now if there is
/// none.
std::vector<Tensor> inline_graph(const graph::Graph& graph, std::span<const Tensor> inputs);

/// The spec of `rows` stacked tensors of `spec`. Throws kUnsupported if the rank would exceed the limit.
TensorSpec stacked_spec(const TensorSpec& spec, int64_t rows, std::string_view where);

/// The number of floating point operations of one run.
double flops_of(const graph::Graph& graph);

/// Makes the results of a sub-graph's function the outputs of the graph. Throws kInvalidArgument for
/// undefined ones.
void set_outputs(graph::Capture& capture, std::span<const Tensor> results, std::string_view where);

/// The values of the outer graph that a sub-graph reads, in the order of its additional inputs.
std::vector<graph::Value*> outer_values(const graph::Capture& capture);

}  // namespace isochron::ops
