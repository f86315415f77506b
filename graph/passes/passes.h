// Graph to graph: what a captured step goes through between tracing and planning. Each pass has a name by
// which it can be switched off, and shows what it made on request.
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
  /// Called with the graph after each pass, by the pass's name. A captured function (captured.h) shows its
  /// other stages too: "forward", as it is when gradients are first asked for; "traced"; for a device
  /// "decomposed"; last "planned".
  std::function<void(std::string_view stage, const Graph& graph)> on_stage = {};
  /// Recomputes values instead of keeping them, until at most this many bytes are live at once or nothing
  /// more can be gained; 0: no limit.
  size_t memory_budget_bytes = 0;
  /// What the function computes in; eager calls stay f32.
  Precision precision = Precision::kF32;
  /// Where it is to run. A captured function sets it to its plan's.
  Device device = {};
  /// What runs it; null: the device's. A captured function sets it to its plan's.
  const Backend* backend = nullptr;
};

struct PassInfo {
  std::string_view name;
  std::string_view summary;
  void (*run)(Graph&, const PassOptions&);
  bool on_devices_alone = false;  // left out for the CPU
  std::string_view makes = {};    // an op; left out for a backend without a kernel for it
};
/// In the order in which they run.
const std::vector<PassInfo>& passes();
void run_passes(Graph& graph, const PassOptions& options = {});

/// Replaces ops that `backend` has no kernel for by their decompositions (OpDef::decompose). Runs before all
/// passes (graph/passes/decompose.cc).
void decompose(Graph& graph, const Backend& backend);
/// Evaluates nodes whose inputs are all constants, unless the result is larger than the inputs.
void fold_constants(Graph& graph);
/// Evaluates nodes whose inputs are all constants and whose result is larger, up to 64 KiB each.
void fold_broadcasts(Graph& graph);
/// x+0, x*1, x/1, --x, pow(x, 1), pow(x, 2), cast to the same dtype, reshape chains, transposes into matrix
/// multiplies. Results stay what they were, NaN and infinities included, but for the sign of a zero.
void simplify_algebra(Graph& graph);
/// Equal calls and equal numbers become one; random ops are exempt.
void merge_common_subexpressions(Graph& graph);
/// Drops nodes that no output, update or side effect needs.
void remove_dead_code(Graph& graph);
/// The gradient of a layer norm also adds the other gradient of its input (graph/passes/residuals.cc).
void absorb_residuals(Graph& graph);
/// Chains of elementwise ops, with broadcasts and closing reductions, become one kernel each
/// (graph/passes/fusion.cc).
void fuse_elementwise(Graph& graph);
/// Groups of element ops become a part of the much larger groups that read them (graph/passes/broadcasts.cc).
void inline_broadcasts(Graph& graph);
/// A product and the group of element ops that reads it first become one `fused_product`
/// (graph/passes/epilogues.cc).
void absorb_epilogues(Graph& graph);

/// Collectives (OpDef::split) become two nodes: one that starts as early as its inputs and the collectives
/// before it allow, and one that waits, where the collective was (graph/passes/overlap.cc).
void start_collectives_early(Graph& graph);

/// Nodes outside a checkpointed part that read one of its inner values get a copy that is recomputed just
/// before the first of these nodes (Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016).
/// Random ops draw the same numbers again.
void recompute_checkpoints(Graph& graph);
/// While more than `budget_bytes` are live at the peak, chooses a value that is live there and recomputes it
/// before its next reader: the one that frees the most bytes per time. Returns the bytes live at the peak, as
/// far as the graph tells (only the plan knows the workspaces).
size_t recompute_within(Graph& graph, size_t budget_bytes);

/// Sorts the nodes topologically; of the nodes that are ready, the one with the lowest rank comes first.
void sort_nodes(Graph& graph, const std::unordered_map<const Node*, size_t>& rank);

/// What an elementwise op, a reduction or a fused group runs.
ElementProgram program_of(const Node& node);
/// The single element of a constant value as a double, if it is one.
std::optional<double> constant_scalar(const Value* value);

}  // namespace isochron::graph
