// Recomputation: a value that is read again much later is recomputed just before that read, so that it
// needn't stay in memory in between.
#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::graph {
namespace {

// Rough estimates of a kernel's time; they affect only the order of candidates.
constexpr double kFlopsPerNs = 100;
constexpr double kBytesPerNs = 20;
constexpr size_t kLongestChain = 16;    // nodes recomputed for one value
constexpr double kNodesForHalf = 8192;  // with this many nodes or more, a round frees half of the excess

/// Adds copies of nodes, each to run just before a given position of the traced order.
class Copies {
 public:
  explicit Copies(Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) rank_[graph.nodes()[i].get()] = 2 * i + 1;
  }
  Node* add(const Node& node, std::span<Value* const> inputs, size_t before) {
    Node* copy = graph_.add_node(*node.op, inputs, node.attributes, node.scope);
    rank_[copy] = 2 * before;
    return copy;
  }
  void sort() const { sort_nodes(graph_, rank_); }

 private:
  Graph& graph_;
  std::unordered_map<const Node*, size_t> rank_;
};

/// Recomputes the inner values of checkpointed parts, each at most once.
class Checkpoints {
 public:
  explicit Checkpoints(Graph& graph) : graph_(graph), copies_(graph) {}

  void run() {
    const size_t count = graph_.nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node& node = *graph_.nodes()[i];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (inner(node.inputs[k]) && node.inputs[k]->producer->checkpoint != node.checkpoint) {
          Value* again = again_before(node.inputs[k], i);
          node.inputs[k] = again;
        }
      }
    }
    if (!again_.empty()) copies_.sort();
  }

 private:
  /// Results of collectives are kept, because recomputing them would repeat the communication.
  static bool inner(const Value* value) {
    return value->producer && value->producer->checkpoint != 0 && !value->producer->checkpoint_result &&
           !value->producer->op->collective;
  }

  /// The copy of `value` that is recomputed before `position`. Uses no recursion, because a checkpointed part
  /// may have any length.
  Value* again_before(Value* value, size_t position) {
    std::vector<const Node*> wanted;
    if (!again_.contains(value)) wanted.push_back(value->producer);
    while (!wanted.empty()) {
      const Node& node = *wanted.back();
      const size_t before = wanted.size();
      for (const Value* input : node.inputs) {
        if (inner(input) && !again_.contains(input)) wanted.push_back(input->producer);
      }
      if (wanted.size() > before) continue;  // inputs first
      wanted.pop_back();
      if (again_.contains(node.outputs[0])) continue;  // already copied, because it was wanted twice
      std::vector<Value*> inputs;
      for (Value* input : node.inputs) inputs.push_back(inner(input) ? again_.at(input) : input);
      Node* copy = copies_.add(node, inputs, position);
      for (size_t o = 0; o < node.outputs.size(); ++o) again_[node.outputs[o]] = copy->outputs[o];
    }
    return again_.at(value);
  }

  Graph& graph_;
  Copies copies_;
  std::unordered_map<const Value*, Value*> again_;
};

/// The lifetime of each buffer of a graph, with positions counted in nodes.
class Lives {
 public:
  struct Life {
    size_t bytes = 0;
    size_t first = 0;
    std::vector<size_t> reads;  // ascending
    bool to_the_end = false;    // an output or update reads it
    size_t last() const { return reads.empty() ? first : reads.back(); }
  };

  explicit Lives(const Graph& graph) : end_(graph.nodes().size()) {
    for (size_t i = 0; i < end_; ++i) {
      const Node& node = *graph.nodes()[i];
      const bool view = node.op->fusion == FusionClass::kView;
      for (const Value* input : node.inputs) {
        const auto known = lives_.find(root(input));
        if (known != lives_.end() && !view) known->second.reads.push_back(i);
      }
      if (view) {
        roots_[node.outputs[0]] = root(node.inputs[0]);
        continue;
      }
      for (const Value* output : node.outputs) lives_[output] = {output->spec.size_bytes(), i, {}, false};
    }
    const auto keep = [&](const Value* value) {
      const auto known = lives_.find(root(value));
      if (known == lives_.end()) return;
      known->second.to_the_end = true;
      known->second.reads.push_back(end_);
    };
    for (const Value* output : graph.outputs()) keep(output);
    for (const Update& update : graph.updates()) keep(update.value);
  }

  const Value* root(const Value* value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }
  const std::unordered_map<const Value*, Life>& all() const { return lives_; }

  /// Whether a node at `position` can read the value without extending its lifetime.
  bool at_hand(const Value* value, size_t position) const {
    const auto found = lives_.find(root(value));
    if (found == lives_.end()) return true;  // an input or a variable
    return found->second.first < position && found->second.last() >= position;
  }

  /// Position and bytes of the memory peak.
  std::pair<size_t, size_t> peak() const {
    std::vector<int64_t> change(end_ + 2, 0);
    for (const auto& [value, life] : lives_) {
      change[life.first] += static_cast<int64_t>(life.bytes);
      change[life.last() + 1] -= static_cast<int64_t>(life.bytes);
    }
    std::pair<size_t, size_t> best{0, 0};
    int64_t live = 0;
    for (size_t i = 0; i <= end_; ++i) {
      live += change[i];
      if (static_cast<size_t>(live) > best.second) best = {i, static_cast<size_t>(live)};
    }
    return best;
  }

 private:
  size_t end_;
  std::unordered_map<const Value*, const Value*> roots_;
  std::unordered_map<const Value*, Life> lives_;
};

double time_of(const Node& node) {
  const std::vector<TensorSpec> inputs = node.input_specs();
  double bytes = 0;
  for (const TensorSpec& input : inputs) bytes += static_cast<double>(input.size_bytes());
  for (const Value* output : node.outputs) bytes += static_cast<double>(output->spec.size_bytes());
  const double flops =
      node.op->flops ? node.op->flops({*node.op, defined_inputs(inputs, node.attributes), node.attributes})
                     : 0;
  return flops / kFlopsPerNs + bytes / kBytesPerNs;
}

/// A value to recompute, and the nodes that must run for it, in order.
struct Candidate {
  const Value* value = nullptr;
  size_t before = 0;  // the position of its next reader
  std::vector<const Node*> chain;
  size_t bytes = 0;
  double bytes_per_ns = 0;
};

/// Appends to `chain` the nodes that must run again to recompute `value` before `position`. Returns false if
/// there are too many or one has a side effect. `depth`: the number of nodes between `value` and the value
/// that is wanted.
bool find_chain(const Lives& lives, const Value* value, size_t position, std::vector<const Node*>& chain,
                size_t depth = 0) {
  const Node* node = value->producer;
  if (depth >= kLongestChain) return false;
  if (std::find(chain.begin(), chain.end(), node) != chain.end()) return true;
  if (has_side_effect(*node)) return false;
  for (const Value* input : node->inputs) {
    if (input->producer && !lives.at_hand(input, position) &&
        !find_chain(lives, input, position, chain, depth + 1))
      return false;
  }
  chain.push_back(node);
  return chain.size() <= kLongestChain;
}

/// The values alive at `peak` that could be recomputed after it, in descending order of bytes freed per unit
/// of time.
std::vector<Candidate> candidates_at(const Lives& lives, size_t peak) {
  std::vector<Candidate> found;
  for (const auto& [value, life] : lives.all()) {
    if (life.to_the_end || life.first >= peak || life.last() <= peak) continue;
    const auto next = std::upper_bound(life.reads.begin(), life.reads.end(), peak);
    if (next != life.reads.begin() && *(next - 1) == peak) continue;  // read at the peak itself
    Candidate candidate{value, *next, {}, life.bytes, 0};
    if (!find_chain(lives, value, candidate.before, candidate.chain)) continue;
    double time = 0;
    for (const Node* node : candidate.chain) time += time_of(*node);
    candidate.bytes_per_ns = static_cast<double>(life.bytes) / std::max(time, 1.0);
    found.push_back(std::move(candidate));
  }
  std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
    return a.bytes_per_ns != b.bytes_per_ns ? a.bytes_per_ns > b.bytes_per_ns : a.value->id < b.value->id;
  });
  return found;
}

/// Chooses the first candidate, and further ones while together they free less than `enough` bytes. None of
/// them is recomputed from another, because the other's lifetime would grow.
std::vector<Candidate> choose(const Lives& lives, std::vector<Candidate> candidates, size_t enough) {
  std::vector<Candidate> chosen;
  std::unordered_set<const Value*> values, read;
  size_t freed = 0;
  for (Candidate& candidate : candidates) {
    if (!chosen.empty() && freed >= enough) break;
    std::unordered_set<const Value*> inputs;
    for (const Node* node : candidate.chain)
      for (const Value* input : node->inputs) inputs.insert(lives.root(input));
    const auto is_chosen = [&](const Value* value) { return values.contains(value); };
    if (read.contains(candidate.value) || std::ranges::any_of(inputs, is_chosen)) continue;
    values.insert(candidate.value);
    read.insert(inputs.begin(), inputs.end());
    freed += candidate.bytes;
    chosen.push_back(std::move(candidate));
  }
  return chosen;
}

/// Reruns the candidate's chain before the next reader of its value. This reader and all later ones read the
/// new value, also through views.
class Again {
 public:
  /// `lives` describes the first `count` nodes; copies are added after them.
  Again(Graph& graph, const Lives& lives, const Candidate& candidate, Copies& copies, size_t count)
      : graph_(graph), lives_(lives), candidate_(candidate), copies_(copies), count_(count) {}

  void run() {
    for (const Node* node : candidate_.chain) copy(*node);
    for (size_t i = candidate_.before; i < count_; ++i) {
      Node& reader = *graph_.nodes()[i];
      for (size_t k = 0; k < reader.inputs.size(); ++k) {
        if (lives_.root(reader.inputs[k]) == candidate_.value) {
          Value* again = new_value(reader.inputs[k]);
          reader.inputs[k] = again;
        }
      }
      // Views made after this position already refer to the new value, so their readers need no change.
      if (reader.op->fusion == FusionClass::kView) again_[reader.outputs[0]] = reader.outputs[0];
    }
  }

 private:
  void copy(const Node& node) {
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(again_.contains(input) ? again_.at(input) : input);
    Node* added = copies_.add(node, inputs, candidate_.before);
    for (size_t o = 0; o < node.outputs.size(); ++o) again_[node.outputs[o]] = added->outputs[o];
  }
  Value* new_value(Value* value) {
    if (!again_.contains(value)) {  // a view that the chain didn't need
      new_value(value->producer->inputs[0]);
      copy(*value->producer);
    }
    return again_.at(value);
  }

  Graph& graph_;
  const Lives& lives_;
  const Candidate& candidate_;
  Copies& copies_;
  size_t count_;
  std::unordered_map<const Value*, Value*> again_;
};

}  // namespace

void recompute_checkpoints(Graph& graph) { Checkpoints(graph).run(); }

size_t recompute_within(Graph& graph, size_t budget_bytes) {
  // Each round recomputes some values that are alive at the peak; without candidates, nothing more can be
  // gained.
  for (size_t rounds = graph.nodes().size();; --rounds) {
    const Lives lives(graph);
    const auto [peak, bytes] = lives.peak();
    if (rounds == 0 || bytes <= budget_bytes) return bytes;
    // Choosing one value per round gives the best result but takes many rounds. So the more nodes there are,
    // the more values are chosen per round, until they free up to half of the excess.
    const size_t count = graph.nodes().size();
    const bool far = bytes / 4 > budget_bytes;  // many values must be chosen anyway
    const double share = far ? 0.5 : 0.5 * std::min(1.0, static_cast<double>(count) / kNodesForHalf);
    const auto enough = static_cast<size_t>(share * static_cast<double>(bytes - budget_bytes));
    const std::vector<Candidate> chosen = choose(lives, candidates_at(lives, peak), enough);
    if (chosen.empty()) return bytes;
    Copies copies(graph);
    for (const Candidate& candidate : chosen) Again(graph, lives, candidate, copies, count).run();
    copies.sort();
  }
}

/// Kahn's algorithm. Nodes with side effects stay in the order of their ranks.
void sort_nodes(Graph& graph, const std::unordered_map<const Node*, size_t>& rank) {
  const auto& nodes = graph.nodes();
  std::unordered_map<const Node*, size_t> where;
  for (size_t i = 0; i < nodes.size(); ++i) where[nodes[i].get()] = i;
  std::vector<int> missing(nodes.size(), 0);
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* input : nodes[i]->inputs) {
      if (!input->producer) continue;
      next[where.at(input->producer)].push_back(i);
      ++missing[i];
    }
  }
  using Entry = std::pair<size_t, size_t>;  // rank, position
  std::vector<Entry> effects;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (has_side_effect(*nodes[i])) effects.emplace_back(rank.at(nodes[i].get()), i);
  }
  std::ranges::sort(effects);
  for (size_t i = 1; i < effects.size(); ++i) {
    next[effects[i - 1].second].push_back(effects[i].second);
    ++missing[effects[i].second];
  }
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (missing[i] == 0) ready.emplace(rank.at(nodes[i].get()), i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t i = ready.top().second;
    ready.pop();
    order.push_back(i);
    for (size_t n : next[i]) {
      if (--missing[n] == 0) ready.emplace(rank.at(nodes[n].get()), n);
    }
  }
  require(order.size() == nodes.size(), ErrorCode::kInvalidArgument, "sort_nodes", "the graph has a cycle");
  graph.reorder_nodes(order);
}

}  // namespace isochron::graph
