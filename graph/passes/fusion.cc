// Elementwise fusion. Nodes that run over the same shape join into groups along their edges. A group becomes
// one program (graph/ir/element_op.h) with several outputs, some of them reduced. Joining is greedy in
// topological order and is rejected if it would create a cycle through a node outside the group. Then small
// groups that only update variables, as moving averages do, are joined with each other. The groups are kept
// in a topological order of their own, so that only groups between the two are searched (Pearce and Kelly: "A
// Dynamic Topological Sort Algorithm for Directed Acyclic Graphs", JEA 2006). Which nodes may share a group:
// Fuser::fits. Two other passes fuse by rules of their own: broadcasts.cc and epilogues.cc.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::graph {
namespace {

/// The limits on the size of a group.
struct GroupLimits {
  size_t instructions, operands, outputs;
};
constexpr GroupLimits kChains = {24, 16, 8};
constexpr GroupLimits kUpdates = {44, 32, 16};  // for few elements, when the launch cost dominates
constexpr int64_t kMaxUpdatedElems = 4096;      // computing these takes less time than a launch
/// The most operands of a group that only adds, if it has more than kMaxUpdatedElems elements. The terms of
/// a long sum, such as the gradients of a weight that is used many times, would all be kept in memory until
/// the last one is there.
constexpr size_t kMaxTerms = 4;
/// The most groups that a search for a cycle visits before the join is given up. Without a limit, long
/// unrolled loops take quadratic time: a value of the forward pass reaches nearly everything between itself
/// and its reader in the backward pass.
constexpr size_t kMaxSearched = 2048;

/// Every node starts as a group of its own; a joined group has the number of its newest node.
struct Group {
  std::vector<size_t> members;  // node positions, ascending; empty once joined to another
  Shape shape;                  // the shape that every member of a fusable group iterates over
  bool fusable = false;
  size_t rank = 0;  // position in the topological order of groups
};

class Fuser {
 public:
  explicit Fuser(Graph& graph)
      : graph_(graph), nodes_(graph.nodes()), next_(nodes_.size()), reached_(nodes_.size(), 0) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i];
      position_[&node] = i;
      const bool candidate = fusable(node) && iteration_shape(node).elems() > 0;
      groups_.push_back({{i}, candidate ? iteration_shape(node) : Shape(), candidate, i});
      group_of_.push_back(i);
      order_.push_back(i);
      for (const Value* input : node.inputs) {
        readers_[input].push_back(&node);
        if (input->producer) next_[position_.at(input->producer)].push_back(i);
      }
    }
    uses_ = graph.use_counts();
    // Nodes with side effects stay in the traced order, even if their inputs are fused with later nodes.
    std::optional<size_t> before;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!has_side_effect(*nodes_[i])) continue;
      if (before) next_[*before].push_back(i);
      before = i;
    }
  }

  void run(bool sinks) {
    for (size_t i = 0; i < nodes_.size(); ++i) consider(i);
    join_updates();
    if (sinks) sink();
    emit();
  }

 private:
  static bool fusable(const Node& node) {
    return node.op->fusion == FusionClass::kElementwise || node.op->fusion == FusionClass::kReduction;
  }
  static const Shape& iteration_shape(const Node& node) {
    return node.op->fusion == FusionClass::kReduction ? node.inputs[0]->spec.shape
                                                      : node.outputs[0]->spec.shape;
  }

  /// Joins the group of node `i` with those of its producers that allow it.
  void consider(size_t i) {
    if (!groups_[i].fusable) return;
    for (const Value* input : nodes_[i]->inputs) {
      if (!input->producer) continue;
      const size_t p = position_.at(input->producer);
      const size_t theirs = group_of_[p];
      if (theirs == i || !groups_[theirs].fusable) continue;
      if (nodes_[p]->op->fusion == FusionClass::kReduction) continue;  // known only after its group has run
      if (groups_[theirs].shape == groups_[i].shape && joinable(theirs, i, kChains)) join(theirs, i);
    }
  }

  /// Joins small groups of one shape whose results no other node reads. Joining other groups would delay
  /// their readers until the inputs of all joined groups are ready.
  void join_updates() {
    std::unordered_set<const Value*> updates;
    for (const Update& update : graph_.updates()) updates.insert(update.value);
    std::map<std::string, size_t> open;  // by shape: the group that can still grow
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].members.empty() || !groups_[i].fusable || !only_updates(i, updates)) continue;
      const auto [at, first] = open.try_emplace(groups_[i].shape.str(), i);
      if (!first && joinable(at->second, i, kUpdates)) join(at->second, i);
      at->second = i;
    }
  }

  bool only_updates(size_t group, const std::unordered_set<const Value*>& updates) const {
    const std::vector<size_t>& members = groups_[group].members;
    const std::unordered_set<size_t> inside(members.begin(), members.end());
    return groups_[group].shape.elems() <= kMaxUpdatedElems && std::ranges::all_of(members, [&](size_t m) {
             const Node& node = *nodes_[m];
             return node.op->fusion == FusionClass::kElementwise && !has_reader_outside(node, inside) &&
                    (!read_outside(node, inside) || updates.contains(node.outputs[0]));
           });
  }

  std::vector<size_t> merged_members(size_t a, size_t b) const {
    std::vector<size_t> merged;
    const auto& ma = groups_[a].members;
    const auto& mb = groups_[b].members;
    std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(merged));
    return merged;
  }

  bool joinable(size_t a, size_t b, const GroupLimits& limits) {
    if (!fits(merged_members(a, b), limits)) return false;
    return groups_[a].rank < groups_[b].rank ? !reaches_around(a, b) : !reaches_around(b, a);
  }

  /// Whether `members` can be one program within the limits.
  bool fits(const std::vector<size_t>& members, const GroupLimits& limits) const {
    size_t instructions = 0;
    size_t outputs = 0;
    bool sums = iteration_shape(*nodes_[members[0]]).elems() > kMaxUpdatedElems;
    std::unordered_set<const Value*> operands;
    const std::unordered_set<size_t> inside(members.begin(), members.end());
    for (size_t m : members) {
      const Node& node = *nodes_[m];
      sums = sums && node.op->fusion == FusionClass::kElementwise && node.op->element == ElementOp::kAdd;
      instructions += node.op->fusion == FusionClass::kElementwise;
      outputs += read_outside(node, inside);
      for (const Value* input : node.inputs) {
        if (input->producer && inside.contains(position_.at(input->producer))) {
          // A closing reduction's result exists only after the whole group has run.
          if (input->producer->op->fusion == FusionClass::kReduction) return false;
        } else {
          operands.insert(input);
        }
      }
    }
    return instructions <= limits.instructions && operands.size() <= limits.operands &&
           outputs <= limits.outputs && instructions + operands.size() <= kMaxProgramRegisters &&
           !(sums && operands.size() > kMaxTerms);
  }

  /// Moves results that a single later group reads into that group, where it can compute them from a value
  /// that is kept anyway. For example, the derivative of tanh, 1 - y^2, would otherwise be computed together
  /// with y in the forward pass and kept for the backward pass.
  void sink() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      const size_t from = group_of_[i];
      if (groups_[from].members.size() < 2 || nodes_[i]->op->fusion != FusionClass::kElementwise) continue;
      const size_t to = reading_group(i);
      if (to == from || !groups_[to].fusable || groups_[to].shape != groups_[from].shape) continue;
      std::vector<size_t> moved = computed_for(i);
      if (moved.size() == groups_[from].members.size() || !kept_anyway(moved, to)) continue;
      std::vector<size_t> members;
      std::ranges::merge(moved, groups_[to].members, std::back_inserter(members));
      if (!fits(members, kChains)) continue;
      groups_[to].members = std::move(members);
      for (const size_t m : moved) {
        std::erase(groups_[from].members, m);
        group_of_[m] = to;
      }
    }
  }

  /// The group that contains all readers of node `i`'s result. Returns the node's own group if there is no
  /// such group, or if the result is an output or an update.
  size_t reading_group(size_t i) const {
    const auto found = readers_.find(nodes_[i]->outputs[0]);
    if (found == readers_.end() || used_elsewhere(*nodes_[i])) return group_of_[i];
    const size_t group = group_of_[position_.at(found->second[0])];
    const bool one = std::ranges::all_of(found->second,
                                         [&](const Node* r) { return group_of_[position_.at(r)] == group; });
    return one ? group : group_of_[i];
  }

  /// Node `i` and the members of its group that are needed only to compute its result, ascending.
  std::vector<size_t> computed_for(size_t i) const {
    std::unordered_set<size_t> found{i};
    std::vector<size_t> moved{i};
    const std::vector<size_t>& members = groups_[group_of_[i]].members;
    for (size_t k = members.size(); k-- > 0;) {
      const Node& node = *nodes_[members[k]];
      if (members[k] >= i || node.op->fusion != FusionClass::kElementwise || used_elsewhere(node)) continue;
      if (!readers_.contains(node.outputs[0]) || has_reader_outside(node, found)) continue;
      found.insert(members[k]);
      moved.insert(moved.begin(), members[k]);
    }
    return moved;
  }

  /// Whether the nodes `moved`, all of one group, can run in the group `to` without additional memory. All
  /// values that they read must be read there anyway, except for one stored value that isn't larger than the
  /// last result of `moved`, which no longer needs storage.
  bool kept_anyway(const std::vector<size_t>& moved, size_t to) const {
    const std::unordered_set<size_t> inside(moved.begin(), moved.end());
    const size_t from = group_of_[moved[0]];
    const std::unordered_set<size_t> left_behind(groups_[from].members.begin(), groups_[from].members.end());
    const Value* longer = nullptr;  // the value whose lifetime is extended
    for (const size_t m : moved) {
      for (const Value* input : nodes_[m]->inputs) {
        if (!input->producer || inside.contains(position_.at(input->producer)) || read_by(input, to))
          continue;
        const bool own = left_behind.contains(position_.at(input->producer));
        if (!own || !read_outside(*input->producer, left_behind)) return false;
        if (longer && longer != input) return false;
        longer = input;
      }
    }
    return !longer || longer->spec.size_bytes() <= nodes_[moved.back()]->outputs[0]->spec.size_bytes();
  }

  bool read_by(const Value* value, size_t group) const {
    return std::ranges::any_of(readers_.at(value),
                               [&](const Node* r) { return group_of_[position_.at(r)] == group; });
  }

  bool has_reader_outside(const Node& node, const std::unordered_set<size_t>& inside) const {
    const auto found = readers_.find(node.outputs[0]);
    return found != readers_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](const Node* r) { return !inside.contains(position_.at(r)); });
  }

  /// Whether the result is an output or an update.
  bool used_elsewhere(const Node& node) const {
    const auto found = readers_.find(node.outputs[0]);
    const size_t reads = found == readers_.end() ? 0 : found->second.size();
    const auto counted = uses_.find(node.outputs[0]);
    return counted != uses_.end() && static_cast<size_t>(counted->second) > reads;
  }
  /// Whether a node outside, an output or an update reads the result.
  bool read_outside(const Node& node, const std::unordered_set<size_t>& inside) const {
    return used_elsewhere(node) || has_reader_outside(node, inside);
  }

  /// Whether there is, or may be after kMaxSearched groups, a path through another group from the group
  /// `low` to the group `high`, which has a higher rank. If there is none, reached_ then marks the groups
  /// that `low` reaches with ranks up to that of `high`.
  bool reaches_around(size_t low, size_t high) {
    ++search_;
    std::vector<size_t> stack{low};
    size_t searched = 0;
    while (!stack.empty()) {
      if (++searched > kMaxSearched) return true;
      const size_t group = stack.back();
      stack.pop_back();
      for (size_t m : groups_[group].members) {
        for (const size_t reader : next_[m]) {
          const size_t next = group_of_[reader];
          if (next == high && group != low) return true;
          if (next == high || next == low || groups_[next].rank > groups_[high].rank) continue;
          if (reached_[next] == search_) continue;
          reached_[next] = search_;
          stack.push_back(next);
        }
      }
    }
    return false;
  }

  /// Makes `a` part of `b`; the last search found no path from one to the other through another group.
  void join(size_t a, size_t b) {
    const size_t low = std::min(groups_[a].rank, groups_[b].rank);
    const size_t high = std::max(groups_[a].rank, groups_[b].rank);
    groups_[b].members = merged_members(a, b);
    groups_[a].members.clear();
    for (size_t m : groups_[b].members) group_of_[m] = b;
    // Of the groups in between, the ones that the lower group reaches move behind the joined group; the
    // others move before it.
    std::vector<size_t> before;
    std::vector<size_t> behind;
    for (size_t rank = low; rank <= high; ++rank) {
      const size_t group = order_[rank];
      if (group != a && group != b) (reached_[group] == search_ ? behind : before).push_back(group);
    }
    before.push_back(b);
    before.insert(before.end(), behind.begin(), behind.end());
    before.push_back(a);  // an empty group may be anywhere
    for (size_t i = 0; i < before.size(); ++i) {
      order_[low + i] = before[i];
      groups_[before[i]].rank = low + i;
    }
  }

  /// The register of `value` in the program under construction. Adds an operand if the value comes from
  /// outside the group.
  static uint8_t operand_register(ElementProgram& program, std::vector<Value*>& inputs,
                                  std::unordered_map<const Value*, int>& registers, Value* value) {
    const auto found = registers.find(value);
    if (found != registers.end()) return static_cast<uint8_t>(found->second);
    const std::optional<double> number = constant_scalar(value);
    ElementProgram::Operand operand{value->spec, number.has_value(), number.value_or(0)};
    if (!number) inputs.push_back(value);
    const int reg = static_cast<int>(program.operands.size());
    program.operands.push_back(operand);
    registers[value] = reg;
    return static_cast<uint8_t>(reg);
  }

  void build(const Group& group, Rewriter& rewriter, std::vector<std::pair<Node*, size_t>>& order) {
    auto program = std::make_shared<ElementProgram>();
    program->shape = group.shape;
    std::vector<Value*> inputs;
    std::unordered_map<const Value*, int> registers;
    const std::unordered_set<size_t> inside(group.members.begin(), group.members.end());
    const auto outside = [&](const Value* v) {
      return !v->producer || !inside.contains(position_.at(v->producer));
    };
    for (size_t m : group.members) {
      for (Value* input : nodes_[m]->inputs) {
        if (outside(input)) operand_register(*program, inputs, registers, input);
      }
    }
    std::vector<Value*> results;
    for (size_t m : group.members) {
      const Node& node = *nodes_[m];
      ElementProgram::Output output;
      if (node.op->fusion == FusionClass::kElementwise) {
        ElementProgram::Instruction instruction{node.op->element, node.outputs[0]->spec.dtype, {0, 0, 0}};
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          instruction.operands[i] = operand_register(*program, inputs, registers, node.inputs[i]);
        }
        registers[node.outputs[0]] = static_cast<int>(program->operands.size() + program->code.size());
        program->code.push_back(instruction);
        output.reg = static_cast<uint8_t>(registers[node.outputs[0]]);
      } else {
        output.reg = operand_register(*program, inputs, registers, node.inputs[0]);
        output.reduced = true;
        output.kind = node.op->reduce;
        output.axes = node.attributes.get<Dims>("axes");
        output.keep_dims = node.attributes.get<bool>("keep_dims");
      }
      if (!read_outside(node, inside)) continue;
      program->outputs.push_back(output);
      results.push_back(node.outputs[0]);
    }
    const Node& last = *nodes_[group.members.back()];
    const OpDef& fused = last.op->registry->at("fused");
    Attributes attributes;
    attributes.set("program", std::shared_ptr<const AttributeObject>(program));
    Node* node = graph_.add_node(fused, inputs, std::move(attributes), last.scope);
    for (size_t i = 0; i < results.size(); ++i) rewriter.replace(results[i], node->outputs[i]);
    order.emplace_back(node, group.members.back());
  }

  /// Replaces groups of two or more nodes with fused nodes and sorts topologically, staying close to the
  /// traced order.
  void emit() {
    Rewriter rewriter(graph_);
    std::vector<std::pair<Node*, size_t>> added;
    const size_t original = nodes_.size();
    std::vector<bool> keep(original, true);
    for (const Group& group : groups_) {
      if (group.members.size() < 2) continue;
      for (size_t m : group.members) keep[m] = false;
      build(group, rewriter, added);
    }
    if (added.empty()) return;
    keep.resize(nodes_.size(), true);
    std::unordered_map<const Node*, size_t> rank;
    for (size_t i = 0; i < original; ++i) rank[nodes_[i].get()] = i;
    for (const auto& [node, position] : added) rank[node] = position;
    graph_.retain_nodes(keep);
    for (const auto& node : graph_.nodes()) rewriter.update_inputs(*node);
    rewriter.finish();
    sort_nodes(graph_, rank);
  }

  Graph& graph_;
  const std::vector<std::unique_ptr<Node>>& nodes_;
  std::vector<std::vector<size_t>> next_;  // the nodes that must follow each node
  std::vector<size_t> group_of_;           // of each node
  std::vector<Group> groups_;
  std::vector<size_t> order_;  // groups by rank
  std::vector<int> reached_;   // per group, the last search that reached it
  int search_ = 0;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, int> uses_;
  std::unordered_map<const Value*, std::vector<const Node*>> readers_;
};

}  // namespace

void fuse_elementwise(Graph& graph, bool sinks) { Fuser(graph).run(sinks); }

}  // namespace isochron::graph
