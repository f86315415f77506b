// What the buffers of a plan are used for, as far as its graph shows it. For pictures and memory reports.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

enum class BufferKind : uint8_t {
  kActivation,  // made from the batch before the first gradient, read after it: kept for the backward pass
  kGradient,    // of a parameter: has as many elements and is read by its update
  kTemporary,   // all other values
  kWorkspace,   // of a kernel
  kOutput,      // results, until the next run
};
inline constexpr int kBufferKindCount = 5;

/// "activation", "gradient", ...
std::string_view buffer_kind_name(BufferKind kind);

/// The values of `graph` that are activations or gradients; views stand for what they view. A parameter is a
/// bound value that the graph updates and that is also read by nodes other than the one that computes its new
/// content.
std::unordered_map<const Value*, BufferKind> value_kinds(const Graph& graph);

}  // namespace isochron::graph
