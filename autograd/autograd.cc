#include "isochron/autograd/autograd.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "isochron/autograd/slice_gradients.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/checked_kernel.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::OpDef;

/// What the walk needs to know about one op call, from a tape entry or a node.
struct Entry {
  const OpDef* op;
  const Attributes* attributes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  const graph::Node* node = nullptr;  // in a capture
  std::vector<bool> leading = {};     // per input: whether a gradient can reach it; empty: all
};

/// Whether gradients flow from the op's results to its inputs. They don't for stop_gradient and for step
/// functions such as `floor`.
bool leads_on(const OpDef& op) { return op.gradient != &ops::no_gradient; }

bool leads_to(const std::vector<bool>& leading, size_t input) { return leading.empty() || leading[input]; }

std::vector<bool> leading_inputs(const graph::Node& node);

/// The values of `body` that a gradient of its outputs reaches.
std::unordered_set<const graph::Value*> reached_in(const Graph& body) {
  std::unordered_set<const graph::Value*> reached;
  for (const graph::Value* output : body.outputs()) {
    if (is_floating(output->spec.dtype)) reached.insert(output);
  }
  for (size_t i = body.nodes().size(); i-- > 0;) {
    const graph::Node& node = *body.nodes()[i];
    if (!leads_on(*node.op) || std::ranges::none_of(node.outputs, [&](const graph::Value* output) {
          return reached.contains(output);
        }))
      continue;
    const std::vector<bool> leading = leading_inputs(node);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (is_floating(node.inputs[k]->spec.dtype) && leads_to(leading, k)) reached.insert(node.inputs[k]);
    }
  }
  return reached;
}

/// Per input of a loop or a branch: whether a gradient can reach it. This always holds for the states, and
/// for another input if one of the bodies uses it in a differentiable way. The last inputs of a body
/// correspond to the last inputs of the call. Empty for other ops: a gradient can reach all inputs.
std::vector<bool> leading_inputs(const graph::Node& node) {
  if (!node.attributes.has_objects()) return {};
  const auto states = static_cast<size_t>(node.attributes.get_or<int64_t>("states", 0));
  std::vector<bool> leading;
  for (const auto& [name, value] : node.attributes.entries()) {
    const auto* object = std::get_if<std::shared_ptr<const graph::AttributeObject>>(&value);
    const auto* body = object ? dynamic_cast<const graph::SubGraph*>(object->get()) : nullptr;
    if (body == nullptr) continue;
    leading.resize(node.inputs.size(), false);
    const std::unordered_set<const graph::Value*> reached = reached_in(*body->graph);
    const std::vector<graph::Value*>& inputs = body->graph->inputs();
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const size_t from_end = node.inputs.size() - k;
      if (k < states || from_end > inputs.size() || reached.contains(inputs[inputs.size() - from_end]))
        leading[k] = true;
    }
  }
  return leading;
}

/// Identifies a tensor for differentiation: by its graph value, or by its TensorImpl and the generation of
/// the content that the handle refers to.
struct Key {
  const void* object;
  uint64_t generation;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    return graph::hash_mix(std::hash<const void*>()(key.object), key.generation);
  }
};
using KeySet = std::unordered_set<Key, KeyHash>;
template <typename T>
using KeyMap = std::unordered_map<Key, T, KeyHash>;

Key key_of(const Tensor& tensor) {
  if (tensor.is_value()) return {tensor.value().get(), 0};
  return {tensor.impl().get(), tensor.generation()};
}

/// Implements `gradients`. `checks_outside`: whether to check that the targets don't depend on the sources
/// through values outside the sub-graph (depends_outside). The gradient rules of loops and branches omit the
/// check, because the inputs of their bodies are independent of each other.
std::vector<Tensor> gradients_in_graph(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                       std::span<const Tensor> seeds, bool checks_outside);

class Differentiator final : public graph::GradientContext {
 public:
  std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> seeds,
                                std::span<const Tensor> sources) override {
    return gradients_in_graph(targets, sources, seeds, false);
  }
  std::vector<Tensor> differentiate(const Function& function, std::span<const Tensor> inputs,
                                    std::span<const Tensor> seeds) override {
    GradientTape tape;           // in a capture it records nothing and differentiates the graph
    std::vector<Tensor> leaves;  // separate tensors, so that no gradient runs from one input to another
    std::vector<Tensor> sources;
    std::vector<size_t> positions;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool floating = inputs[i].defined() && is_floating(inputs[i].dtype());
      leaves.push_back(floating ? graph::apply_one(ops::row("copy"), {inputs[i]}) : inputs[i]);
      if (!floating) continue;
      sources.push_back(leaves.back());
      positions.push_back(i);
    }
    const std::vector<Tensor> targets = function(leaves);
    const std::vector<Tensor> found = tape.gradient(targets, sources, seeds);
    std::vector<Tensor> result(inputs.size());
    for (size_t i = 0; i < found.size(); ++i) result[positions[i]] = found[i];
    return result;
  }
};

Tensor accumulate(const Tensor& total, const Tensor& more) { return total.defined() ? total + more : more; }

/// Gradients of one call's inputs, checked against the shapes they must have.
std::vector<Tensor> call_gradient(const Entry& entry, std::span<const Tensor> output_gradients,
                                  std::span<const bool> needed) {
  Differentiator context;
  require(entry.op->gradient != nullptr, ErrorCode::kUnsupported, entry.op->name,
          "has no gradient; put stop_gradient() before it, or set OpDef::gradient");
  std::vector<Tensor> result = entry.op->gradient(
      {*entry.op, *entry.attributes, entry.inputs, entry.outputs, output_gradients, needed, context});
  require(result.size() == entry.inputs.size(), ErrorCode::kInvalidArgument, entry.op->name,
          "its gradient gave {} tensors for {} inputs", result.size(), entry.inputs.size());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined() || !needed[i]) continue;
    require(result[i].spec() == entry.inputs[i].spec(), ErrorCode::kShapeMismatch, entry.op->name,
            "its gradient of input {} is {}, the input {}", i, result[i].spec().str(),
            entry.inputs[i].spec().str());
  }
  return result;
}

/// The backward walk over `entries`, which are in order of execution.
class Walk {
 public:
  Walk(std::span<const Entry> entries, std::span<const Tensor> targets, std::span<const Tensor> sources,
       std::span<const Tensor> seeds)
      : entries_(entries), sources_(sources) {
    require(seeds.empty() || seeds.size() == targets.size(), ErrorCode::kInvalidArgument, "gradient",
            "{} seeds for {} targets", seeds.size(), targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      require(targets[i].defined(), ErrorCode::kInvalidArgument, "gradient", "target {} is undefined", i);
      require(is_floating(targets[i].dtype()), ErrorCode::kDtypeMismatch, "gradient",
              "target {} is {}; only floating tensors have gradients", i, targets[i].spec().str());
      const Tensor seed = seeds.empty() ? one_like(targets[i]) : seeds[i];
      if (!seed.defined()) continue;
      require(seed.spec() == targets[i].spec(), ErrorCode::kShapeMismatch, "gradient",
              "seed {} is {}, its target {}", i, seed.spec().str(), targets[i].spec().str());
      Tensor& total = gradients_[key_of(targets[i])];
      total = accumulate(total, seed);
    }
    for (const Tensor& source : sources_) {
      require(source.defined(), ErrorCode::kInvalidArgument, "gradient", "a source is undefined");
      useful_.insert(key_of(source));
      if (source.stale()) useful_.insert(key_of(source.refreshed()));
    }
  }

  /// Whether the targets depend on a source.
  bool depends(std::span<const Tensor> targets) {
    mark_useful();
    return std::ranges::any_of(targets, [this](const Tensor& t) { return useful_.contains(key_of(t)); });
  }

  std::vector<Tensor> run() {
    mark_useful();
    for (size_t i = entries_.size(); i-- > 0;) visit(entries_[i], contributes_[i]);
    std::vector<Tensor> result;
    for (const Tensor& source : sources_) {
      Tensor found = gradient_of(source);
      if (!found.defined() && source.stale()) found = gradient_of(source.refreshed());
      result.push_back(std::move(found));
    }
    return result;
  }

 private:
  static Tensor one_like(const Tensor& target) {
    const Tensor one =
        target.rank() == 0 ? scalar(1, target.dtype()) : constant(ones(target.shape(), target.dtype()));
    return to_device(one, target.device());
  }

  /// Marks the tensors that depend on a source.
  void mark_useful() {
    contributes_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      for (size_t k = 0; k < entry.inputs.size() && leads_on(*entry.op); ++k)
        contributes_[i] = contributes_[i] || needs(entry, k);
      if (!contributes_[i]) continue;
      for (const Tensor& output : entry.outputs) {
        if (is_floating(output.dtype())) useful_.insert(key_of(output));
      }
    }
  }

  bool needs(const Entry& entry, size_t input) const {
    const Tensor& tensor = entry.inputs[input];
    return is_floating(tensor.dtype()) && leads_to(entry.leading, input) && useful_.contains(key_of(tensor));
  }

  /// The gradient of `tensor` so far; undefined if there is none.
  Tensor gradient_of(const Tensor& tensor) {
    const Key key = key_of(tensor);
    if (const auto slices = slices_.find(key); slices != slices_.end()) {
      Tensor& total = gradients_[key];
      total = accumulate(total, joined(std::move(slices->second), tensor.shape()));
      slices_.erase(slices);
    }
    const auto found = gradients_.find(key);
    return found == gradients_.end() ? Tensor() : found->second;
  }

  void visit(const Entry& entry, bool contributes) {
    if (!contributes) return;
    std::vector<Tensor> output_gradients;
    bool any = false;
    for (const Tensor& output : entry.outputs) {
      output_gradients.push_back(gradient_of(output));
      any = any || output_gradients.back().defined();
    }
    if (!any) return;
    if (auto slice = slice_gradient(*entry.op, *entry.attributes, entry.inputs, output_gradients)) {
      slices_[key_of(entry.inputs[0])].push_back(std::move(*slice));
      return;
    }
    const auto needed = std::make_unique<bool[]>(entry.inputs.size());
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      needed[i] = needs(entry, i);
    }
    std::optional<graph::NameScope> scope;  // of the ops recorded for this entry
    if (entry.node != nullptr && graph::CheckedScope::current())
      scope.emplace("gradients/" + entry.node->name());
    const std::vector<Tensor> results =
        call_gradient(entry, output_gradients, {needed.get(), entry.inputs.size()});
    for (size_t i = 0; i < results.size(); ++i) {
      if (!needed[i] || !results[i].defined()) continue;
      Tensor& total = gradients_[key_of(entry.inputs[i])];
      total = accumulate(total, results[i]);
    }
  }

  std::span<const Entry> entries_;
  std::span<const Tensor> sources_;
  KeyMap<Tensor> gradients_;
  KeyMap<std::vector<SliceGradient>> slices_;  // not yet added to `gradients_`
  KeySet useful_;
  std::vector<bool> contributes_;
};

/// The nodes of the open graph as entries.
std::vector<Entry> entries_of(const Graph& graph) {
  std::vector<Entry> entries;
  entries.reserve(graph.node_count());
  for (const auto& node : graph.nodes()) {
    Entry entry{node->op, &node->attributes, {}, {}, node.get(), leading_inputs(*node)};
    for (graph::Value* input : node->inputs) entry.inputs.push_back(Graph::tensor_of(input));
    for (graph::Value* output : node->outputs) entry.outputs.push_back(Graph::tensor_of(output));
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The tensors that `target` depends on through differentiable calls and that no entry produces, each once.
std::vector<Tensor> leaves_before(std::span<const Entry> entries, const Tensor& target) {
  KeySet reached{key_of(target)};
  KeySet made;
  std::vector<Tensor> candidates{target};
  for (size_t i = entries.size(); i-- > 0;) {
    const Entry& entry = entries[i];
    if (entry.attributes->has(graph::kUpdatedValue)) continue;  // what stands for a variable
    bool leads = false;
    for (const Tensor& output : entry.outputs) {
      if (!is_floating(output.dtype()) || !reached.contains(key_of(output))) continue;
      made.insert(key_of(output));
      leads = leads_on(*entry.op) && entry.op->gradient != nullptr;
    }
    if (!leads) continue;
    for (size_t k = 0; k < entry.inputs.size(); ++k) {
      const Tensor& input = entry.inputs[k];
      if (is_floating(input.dtype()) && leads_to(entry.leading, k) && reached.insert(key_of(input)).second)
        candidates.push_back(input);
    }
  }
  std::erase_if(candidates, [&made](const Tensor& tensor) { return made.contains(key_of(tensor)); });
  return candidates;
}

/// Rejects gradients of targets that depend on the content of a source before its newest assignment.
void refuse_earlier(std::span<const Entry> entries, std::span<const Tensor> targets,
                    std::span<const Tensor> earlier, const Tensor& source) {
  if (earlier.empty() || !Walk(entries, targets, earlier, {}).depends(targets)) return;
  fail(ErrorCode::kStale, "gradient",
       "the target depends on the content that {} had before {}; compute the target again, or take the "
       "gradient before the assignment",
       source.spec().str(), source.storage()->owner());
}

/// Whether `targets`, values of a sub-graph, depend on the sources through values that were computed outside
/// of it. The sources are values of the sub-graph, too.
bool depends_outside(const graph::Capture& capture, std::span<const Entry> entries,
                     std::span<const Tensor> targets, std::span<const Tensor> sources) {
  if (capture.parent() == nullptr) return false;
  std::vector<Tensor> outer_sources;
  for (const auto& [outer, inner] : capture.captured()) {
    const Key key = key_of(Graph::tensor_of(inner));
    if (std::ranges::any_of(sources, [&](const Tensor& s) { return s.defined() && key_of(s) == key; }))
      outer_sources.push_back(Graph::tensor_of(outer));
  }
  if (outer_sources.empty()) return false;
  const std::vector<Entry> outer_entries = entries_of(capture.parent()->graph());
  for (const auto& [outer, inner] : capture.captured()) {
    const Tensor input = Graph::tensor_of(inner), before = Graph::tensor_of(outer);
    if (!Walk(entries, targets, {&input, 1}, {}).depends(targets)) continue;
    std::vector<Tensor> others = outer_sources;
    std::erase_if(others, [&](const Tensor& source) { return key_of(source) == key_of(before); });
    if (Walk(outer_entries, {&before, 1}, others, {}).depends({&before, 1}) ||
        depends_outside(*capture.parent(), outer_entries, {&before, 1}, others))
      return true;
  }
  return false;
}

std::vector<Tensor> gradients_in_graph(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                       std::span<const Tensor> seeds, bool checks_outside) {
  graph::Capture* capture = graph::Capture::current();
  require(capture != nullptr, ErrorCode::kCaptureViolation, "gradients",
          "is for captured functions; outside a capture record with a GradientTape");
  capture->note_gradients();
  std::vector<Tensor> lifted_targets;
  std::vector<Tensor> lifted_sources;
  const auto lifted = [capture](const Tensor& tensor) {
    return tensor.defined() ? Graph::tensor_of(capture->lift(tensor)) : tensor;  // the walk rejects it
  };
  for (const Tensor& target : targets) lifted_targets.push_back(lifted(target));
  for (const Tensor& source : sources) lifted_sources.push_back(lifted(source));
  const std::vector<Entry> entries = entries_of(capture->graph());
  require(!checks_outside || !depends_outside(*capture, entries, lifted_targets, lifted_sources),
          ErrorCode::kUnsupported, "gradients",
          "in the body of cond, while_loop or scan, a target also depends on a source through a "
          "value that was computed before; compute that value in the body too, put stop_gradient around it, "
          "or take the gradient outside");
  std::vector<Tensor> found = Walk(entries, lifted_targets, lifted_sources, seeds).run();
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined() || sources[i].is_value()) continue;
    std::vector<Tensor> earlier;
    for (graph::Value* value : capture->earlier_values(sources[i]))
      earlier.push_back(Graph::tensor_of(value));
    refuse_earlier(entries, lifted_targets, earlier, sources[i]);
  }
  return found;
}

}  // namespace

std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> sources,
                              std::span<const Tensor> seeds) {
  return gradients_in_graph(targets, sources, seeds, true);
}

std::vector<Tensor> gradients(const Tensor& target, std::span<const Tensor> sources) {
  return gradients({&target, 1}, sources);
}

std::vector<Tensor> gradients(const Tensor& target, std::span<const Variable> sources) {
  return gradients(target, std::vector<Tensor>(sources.begin(), sources.end()));
}

std::vector<Tensor> leaves(const Tensor& target) {
  graph::Capture* capture = graph::Capture::current();
  require(capture != nullptr, ErrorCode::kCaptureViolation, "leaves",
          "is for captured functions; outside a capture ask the GradientTape");
  require(target.defined(), ErrorCode::kInvalidArgument, "leaves", "the target is undefined");
  const std::vector<Entry> entries = entries_of(capture->graph());
  std::vector<Tensor> result;
  for (const Tensor& leaf : leaves_before(entries, Graph::tensor_of(capture->lift(target)))) {
    Tensor outside = capture->bound_behind(static_cast<const graph::Value*>(leaf.value().get()));
    if (outside.defined()) result.push_back(std::move(outside));
  }
  return result;
}

struct GradientTape::Impl final : graph::ApplyObserver {
  struct Record {
    const OpDef* op;
    Attributes attributes;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };
  std::deque<Record> records;  // addresses stay valid while a persistent tape records its own gradients
  KeyMap<size_t> producers;    // of a persistent tape: the record that made a tensor
  std::unordered_set<const void*> watched;  // objects only: a tensor with new content stays watched
  std::vector<Tensor> kept;                 // watched tensors stay alive, so that their identity does
  bool restricted = false;
  bool persistent = false;
  bool used = false;
  bool recording = true;
  bool paused = false;

  void on_apply(const OpDef& op, const Attributes& attributes, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs) override {
    if (!recording || paused) return;
    if (restricted) {
      const bool depends = std::any_of(inputs.begin(), inputs.end(), [this](const Tensor& input) {
        return is_floating(input.dtype()) && watched.contains(key_of(input).object);
      });
      if (!depends) return;
      for (const Tensor& output : outputs) watched.insert(key_of(output).object);
    }
    records.push_back({&op, attributes, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}});
    count(Counter::kTapeEntries, 1);
    note_made(Made::kTapeEntry);
    if (!persistent) return;
    for (const Tensor& output : outputs) producers.insert_or_assign(key_of(output), records.size() - 1);
  }

  /// The records to walk for `targets`, in order of execution. A persistent tape returns only the records
  /// that `targets` depend on, so that its other records cost nothing.
  std::vector<Entry> entries_before(std::span<const Tensor> targets) const {
    std::vector<size_t> indices;
    if (persistent) {
      std::unordered_set<size_t> known;
      const auto add = [&](const Tensor& tensor) {
        const auto found = tensor.defined() ? producers.find(key_of(tensor)) : producers.end();
        if (found != producers.end() && known.insert(found->second).second) indices.push_back(found->second);
      };
      for (const Tensor& target : targets) add(target);
      for (size_t i = 0; i < indices.size(); ++i) {
        for (const Tensor& input : records[indices[i]].inputs) add(input);
      }
      std::sort(indices.begin(), indices.end());
    } else {
      indices.resize(records.size());
      std::iota(indices.begin(), indices.end(), size_t{0});
    }
    std::vector<Entry> entries;
    entries.reserve(indices.size());
    for (const size_t i : indices) {
      const Record& record = records[i];
      entries.push_back({record.op, &record.attributes, record.inputs, record.outputs, nullptr, {}});
    }
    return entries;
  }

  void clear() {
    count(Counter::kTapeEntries, -static_cast<int64_t>(records.size()));
    records.clear();
    producers.clear();
    watched.clear();  // it also holds results of the records
    for (const Tensor& tensor : kept) watched.insert(key_of(tensor).object);
  }
};

namespace {
thread_local std::vector<GradientTape*> t_tapes;  // not always destroyed in reverse order
}

GradientTape::GradientTape(bool persistent) : impl_(new Impl) {
  impl_->persistent = persistent;
  t_tapes.push_back(this);
  graph::push_observer(impl_);
}

GradientTape::~GradientTape() {
  graph::remove_observer(impl_);
  std::erase(t_tapes, this);
  impl_->clear();
  delete impl_;
}

GradientTape* GradientTape::current() { return t_tapes.empty() ? nullptr : t_tapes.back(); }
size_t GradientTape::size() const { return impl_->records.size(); }
void GradientTape::reset() {
  impl_->clear();
  impl_->used = false;
  impl_->recording = true;
}

void GradientTape::set_paused(bool paused) { impl_->paused = paused; }

void GradientTape::watch(const Tensor& tensor) {
  require(tensor.defined() && is_floating(tensor.dtype()), ErrorCode::kDtypeMismatch, "watch",
          "expected a floating tensor, got {}", tensor.defined() ? tensor.spec().str() : "an undefined one");
  impl_->restricted = true;
  impl_->watched.insert(key_of(tensor).object);
  impl_->kept.push_back(tensor);
}

namespace {

/// The inputs of `entries` that refer to the content of `source`'s storage before its newest assignment.
std::vector<Tensor> earlier_reads(std::span<const Entry> entries, const Tensor& source) {
  std::vector<Tensor> reads;
  for (const Entry& entry : entries) {
    for (const Tensor& input : entry.inputs) {
      if (is_floating(input.dtype()) && input.storage() == source.storage() && input.stale())
        reads.push_back(input);
    }
  }
  return reads;
}

}  // namespace

std::vector<Tensor> GradientTape::leaves(const Tensor& target) const {
  if (graph::Capture::current()) return isochron::leaves(target);
  require(target.defined(), ErrorCode::kInvalidArgument, "leaves", "the target is undefined");
  return leaves_before(impl_->entries_before({&target, 1}), target);
}

std::vector<Tensor> GradientTape::gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                           std::span<const Tensor> seeds) {
  if (graph::Capture::current()) return gradients(targets, sources, seeds);
  Impl& impl = *impl_;
  require(
      impl.persistent || !impl.used, ErrorCode::kInvalidArgument, "GradientTape",
      "gradient() was already called and has freed the tape; construct it as GradientTape(true) to keep it");
  const std::vector<Entry> entries = impl.entries_before(targets);
  // A tape that isn't persistent doesn't record its own backward walk. Outer tapes and persistent tapes do,
  // which gives second derivatives.
  impl.recording = impl.persistent;
  std::vector<Tensor> result;
  try {
    result = Walk(entries, targets, sources, seeds).run();
    for (size_t i = 0; i < result.size(); ++i) {
      if (result[i].defined()) continue;
      refuse_earlier(entries, targets, earlier_reads(entries, sources[i]), sources[i]);
    }
  } catch (...) {
    impl.recording = true;  // a call that throws doesn't use up the tape
    throw;
  }
  if (!impl.persistent) {
    impl.used = true;
    impl.clear();
  }
  return result;
}

std::vector<Tensor> GradientTape::gradient(const Tensor& target, std::span<const Tensor> sources) {
  return gradient({&target, 1}, sources);
}

std::vector<Tensor> GradientTape::gradient(const Tensor& target, std::span<const Variable> sources) {
  return gradient(target, std::vector<Tensor>(sources.begin(), sources.end()));
}

Tensor GradientTape::gradient(const Tensor& target, const Tensor& source) {
  return gradient({&target, 1}, {&source, 1})[0];
}

}  // namespace isochron
