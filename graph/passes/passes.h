// Graph passes: a captured step goes through them between tracing and planning. Each pass has a name by which
// it can be disabled, and shows its result on request.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/graph/ir/rewriter.h"
#include "isochron/graph/passes/precision.h"

namespace isochron::graph {

struct PassOptions {
  /// Names of passes to leave out; "all" leaves out every one. Unknown names throw kInvalidArgument.
  std::vector<std::string> disabled = {};
  /// Called with the graph and the pass's name after each pass. A captured function (captured.h) also shows
  /// its other stages: "forward", the graph when gradients are first requested; "traced"; "decomposed" for a
  /// device; and last "planned".
  std::function<void(std::string_view stage, const Graph& graph)> on_stage = {};
  /// Recomputes values instead of keeping them, until at most this many bytes are live at once or nothing
  /// more can be gained; 0: no limit. A captured function throws kOutOfMemory if its plan can't be that
  /// small.
  size_t memory_budget_bytes = 0;
  /// The precision that the function computes in; eager calls stay f32.
  Precision precision = Precision::kF32;
  /// The device that the graph will run on. A captured function sets it to its plan's.
  Device device = {};
  /// The backend that runs the graph; null: the device's. A captured function sets it to its plan's.
  const Backend* backend = nullptr;
};

struct PassInfo {
  std::string_view name;
  std::string_view summary;
  void (*run)(Graph&, const PassOptions&);
  bool on_devices_alone = false;  // left out on the CPU
  std::string_view makes = {};    // the op that it creates; left out if the backend has no kernel for the op
};
/// All passes, in the order in which they run.
const std::vector<PassInfo>& passes();
void run_passes(Graph& graph, const PassOptions& options = {});

/// Replaces ops without a kernel in `backend` with their decompositions (OpDef::decompose). Runs before all
/// passes (graph/passes/decompose.cc).
void decompose(Graph& graph, const Backend& backend);
/// Evaluates nodes whose inputs are all constants, unless the result is larger than the inputs.
void fold_constants(Graph& graph);
/// Evaluates nodes whose inputs are all constants and whose result is larger, up to 64 KiB each.
void fold_broadcasts(Graph& graph);
/// Simplifies x+0, x*1, x/1, --x, pow(x, 1), pow(x, 2), casts to the same dtype, reshape chains, transposes
/// into matrix multiplies. Results don't change, including NaN and infinities, except for the sign of a zero.
void simplify_algebra(Graph& graph);
/// Merges equal calls and equal numbers; random ops are exempt.
void merge_common_subexpressions(Graph& graph);
/// Drops nodes that no output, update or side effect needs.
void remove_dead_code(Graph& graph);
/// Fuses the sum of two gradients at a residual connection into the layer norm's gradient kernel
/// (graph/passes/residuals.cc).
void absorb_residuals(Graph& graph);
/// Fuses chains of elementwise ops, with broadcasts and closing reductions, into one kernel each
/// (graph/passes/fusion.cc). With `sinks`, a value that only one later kernel reads is computed in that
/// kernel, from values that are kept anyway. run_passes() sets it only for Precision::kF32: if y is stored in
/// 16 bits, for example, 1 - y^2 has no correct digit left for y near 1.
void fuse_elementwise(Graph& graph, bool sinks = true);
/// Merges groups of element ops into the much larger groups that read them (graph/passes/broadcasts.cc).
void inline_broadcasts(Graph& graph);
/// Merges each product and the group of element ops that reads it first into one `fused_product`
/// (graph/passes/epilogues.cc).
void absorb_epilogues(Graph& graph);

/// Splits each collective (OpDef::split) into two nodes (graph/passes/overlap.cc). The first starts it as
/// early as its inputs and the collectives before it allow; the second waits for it at the collective's
/// original position.
void start_collectives_early(Graph& graph);

/// If nodes outside a checkpointed part read one of its inner values, recomputes the value just before the
/// first of these nodes (Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016). Random ops draw
/// the same numbers again.
void recompute_checkpoints(Graph& graph);
/// While more than `budget_bytes` are live at the peak, recomputes one value that is live there before its
/// next reader: the value that frees the most bytes per unit of time. Returns the bytes live at the peak as
/// the graph shows them (only the plan knows the workspaces).
size_t recompute_within(Graph& graph, size_t budget_bytes);

/// Sorts the nodes topologically; of the nodes that are ready, the one with the lowest rank comes first.
void sort_nodes(Graph& graph, const std::unordered_map<const Node*, size_t>& rank);

/// The element program of an elementwise op, a reduction or a fused group.
ElementProgram program_of(const Node& node);
/// The single element of a constant value as a double, if it is one.
std::optional<double> constant_scalar(const Value* value);

}  // namespace isochron::graph
