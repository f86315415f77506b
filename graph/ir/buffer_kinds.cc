#include "isochron/graph/ir/buffer_kinds.h"

#include <algorithm>
#include <unordered_set>

namespace isochron::graph {
namespace {

class Kinds {
 public:
  explicit Kinds(const Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = *graph.nodes()[i];
      position_[&node] = i;
      if (view(node)) {
        roots_[node.outputs[0]] = root(node.inputs[0]);
        continue;
      }
      for (const Value* input : node.inputs) readers_[root(input)].push_back(&node);
    }
  }

  std::unordered_map<const Value*, BufferKind> find() {
    for (const Update& update : graph_.updates()) find_gradient(update);
    find_activations();
    return std::move(kinds_);
  }

 private:
  static bool view(const Node& node) { return node.op->fusion == FusionClass::kView; }

  const Value* root(const Value* value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }

  void find_gradient(const Update& update) {
    const Value* const target = root(update.target);
    const Node* const updater = root(update.value)->producer;
    if (updater == nullptr || target->kind != Value::Kind::kBound || target->spec.shape.rank() == 0) return;
    const auto readers = readers_.find(target);
    if (readers == readers_.end() || !is_floating(target->spec.dtype)) return;
    if (std::ranges::all_of(readers->second, [&](const Node* node) { return node == updater; })) return;
    for (const Value* input : updater->inputs) {
      const Value* const value = root(input);
      if (value->kind != Value::Kind::kResult || !is_floating(value->spec.dtype)) continue;
      if (value->spec.shape.elems() == target->spec.shape.elems()) kinds_[value] = BufferKind::kGradient;
    }
  }

  void find_activations() {
    size_t first_gradient = graph_.nodes().size();
    for (const auto& [value, kind] : kinds_) {
      first_gradient = std::min(first_gradient, position_.at(value->producer));
    }
    std::unordered_set<const Value*> of_batch(graph_.inputs().begin(), graph_.inputs().end());
    for (size_t i = 0; i < first_gradient && first_gradient < graph_.nodes().size(); ++i) {
      const Node& node = *graph_.nodes()[i];
      if (view(node)) continue;
      const bool depends = node.inputs.empty() || std::ranges::any_of(node.inputs, [&](const Value* input) {
                             return of_batch.contains(root(input));
                           });
      if (!depends) continue;
      for (const Value* output : node.outputs) {
        of_batch.insert(output);
        const auto readers = readers_.find(output);
        if (readers == readers_.end()) continue;
        if (position_.at(readers->second.back()) > first_gradient)
          kinds_.emplace(output, BufferKind::kActivation);
      }
    }
  }

  const Graph& graph_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, const Value*> roots_;                // of views
  std::unordered_map<const Value*, std::vector<const Node*>> readers_;  // of roots, in order
  std::unordered_map<const Value*, BufferKind> kinds_;
};

}  // namespace

std::string_view buffer_kind_name(BufferKind kind) {
  constexpr std::string_view kNames[kBufferKindCount] = {"activation", "gradient", "temporary", "workspace",
                                                         "output"};
  return kNames[static_cast<int>(kind)];
}

std::unordered_map<const Value*, BufferKind> value_kinds(const Graph& graph) { return Kinds(graph).find(); }

}  // namespace isochron::graph
