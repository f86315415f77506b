#include "isochron/autograd/autograd.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "isochron/core/counters.h"
#include "isochron/core/sealed.h"
#include "isochron/graph/apply.h"
#include "isochron/graph/capture.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/registry.h"

namespace isochron {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::OpDef;

/// What the walk needs of one op call; from a tape entry or a node.
struct Entry {
  const OpDef* op;
  const Attributes* attributes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

/// The identity of a tensor for differentiation: the graph value or the handle's object.
const void* key_of(const Tensor& tensor) {
  return tensor.is_value() ? static_cast<const void*>(tensor.value().get())
                           : static_cast<const void*>(tensor.impl().get());
}

class Differentiator final : public graph::GradientContext {
 public:
  std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> seeds,
                                std::span<const Tensor> sources) override {
    return isochron::gradients(targets, sources, seeds);
  }
  std::vector<Tensor> differentiate(const Function& function, std::span<const Tensor> inputs,
                                    std::span<const Tensor> seeds) override {
    GradientTape tape;           // in a capture it records nothing and differentiates the graph
    std::vector<Tensor> leaves;  // of their own, so that no gradient runs from one input to another
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
          "has no gradient; put stop_gradient before it, or give its row one");
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
    }
  }

  std::vector<Tensor> run() {
    mark_useful();
    for (size_t i = entries_.size(); i-- > 0;) visit(entries_[i], contributes_[i]);
    std::vector<Tensor> result;
    for (const Tensor& source : sources_) {
      const auto found = gradients_.find(key_of(source));
      result.push_back(found == gradients_.end() ? Tensor() : found->second);
    }
    return result;
  }

 private:
  static Tensor one_like(const Tensor& target) {
    const Tensor one = scalar(1, target.dtype());
    return target.rank() == 0 ? one : constant(ones(target.shape(), target.dtype()));
  }

  /// Which tensors depend on a source.
  void mark_useful() {
    contributes_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      contributes_[i] = std::any_of(entry.inputs.begin(), entry.inputs.end(), [this](const Tensor& input) {
        return is_floating(input.dtype()) && useful_.contains(key_of(input));
      });
      if (!contributes_[i]) continue;
      for (const Tensor& output : entry.outputs) {
        if (is_floating(output.dtype())) useful_.insert(key_of(output));
      }
    }
  }

  void visit(const Entry& entry, bool contributes) {
    if (!contributes) return;
    std::vector<Tensor> output_gradients;
    bool any = false;
    for (const Tensor& output : entry.outputs) {
      const auto found = gradients_.find(key_of(output));
      output_gradients.push_back(found == gradients_.end() ? Tensor() : found->second);
      any = any || output_gradients.back().defined();
    }
    if (!any) return;
    const auto needed = std::make_unique<bool[]>(entry.inputs.size());
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      needed[i] = is_floating(entry.inputs[i].dtype()) && useful_.contains(key_of(entry.inputs[i]));
    }
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
  std::unordered_map<const void*, Tensor> gradients_;
  std::unordered_set<const void*> useful_;
  std::vector<bool> contributes_;
};

/// The nodes of the open graph as entries.
std::vector<Entry> entries_of(const Graph& graph) {
  std::vector<Entry> entries;
  entries.reserve(graph.node_count());
  for (const auto& node : graph.nodes()) {
    Entry entry{node->op, &node->attributes, {}, {}};
    for (graph::Value* input : node->inputs) entry.inputs.push_back(Graph::tensor_of(input));
    for (graph::Value* output : node->outputs) entry.outputs.push_back(Graph::tensor_of(output));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> sources,
                              std::span<const Tensor> seeds) {
  graph::Capture* capture = graph::Capture::current();
  require(capture != nullptr, ErrorCode::kCaptureViolation, "gradients",
          "is for captured functions; outside a capture record with a GradientTape");
  capture->note_gradients();
  std::vector<Tensor> lifted_targets;
  std::vector<Tensor> lifted_sources;
  const auto lifted = [capture](const Tensor& tensor) {
    return tensor.defined() ? Graph::tensor_of(capture->lift(tensor)) : tensor;  // the walk refuses it
  };
  for (const Tensor& target : targets) lifted_targets.push_back(lifted(target));
  for (const Tensor& source : sources) lifted_sources.push_back(lifted(source));
  const std::vector<Entry> entries = entries_of(capture->graph());
  return Walk(entries, lifted_targets, lifted_sources, seeds).run();
}

std::vector<Tensor> gradients(const Tensor& target, std::span<const Tensor> sources) {
  return gradients({&target, 1}, sources);
}

struct GradientTape::Impl final : graph::ApplyObserver {
  struct Record {
    const OpDef* op;
    Attributes attributes;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };
  std::deque<Record> records;  // addresses stay valid while a persistent tape records its own gradients
  std::unordered_map<const void*, size_t> producers;  // of a persistent tape: the record that made a tensor
  std::unordered_set<const void*> watched;
  std::vector<Tensor> kept;  // watched tensors stay alive, so that their identity does
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
        return is_floating(input.dtype()) && watched.contains(key_of(input));
      });
      if (!depends) return;
      for (const Tensor& output : outputs) watched.insert(key_of(output));
    }
    records.push_back({&op, attributes, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}});
    count(Counter::kTapeEntries, 1);
    note_made(Made::kTapeEntry);
    if (!persistent) return;
    for (const Tensor& output : outputs) producers.insert_or_assign(key_of(output), records.size() - 1);
  }

  /// What led to `targets`, in order of execution: however much else a persistent tape holds, it costs
  /// nothing.
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
      entries.push_back({record.op, &record.attributes, record.inputs, record.outputs});
    }
    return entries;
  }

  void clear() {
    count(Counter::kTapeEntries, -static_cast<int64_t>(records.size()));
    records.clear();
    producers.clear();
    watched.clear();  // it holds results of the records too
    for (const Tensor& tensor : kept) watched.insert(key_of(tensor));
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
  impl_->watched.insert(key_of(tensor));
  impl_->kept.push_back(tensor);
}

std::vector<Tensor> GradientTape::gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                           std::span<const Tensor> seeds) {
  if (graph::Capture::current()) return gradients(targets, sources, seeds);
  Impl& impl = *impl_;
  require(impl.persistent || !impl.used, ErrorCode::kInvalidArgument, "GradientTape",
          "gradient was called before and the tape has let go of its records; make it persistent");
  const std::vector<Entry> entries = impl.entries_before(targets);
  // A tape that is used up doesn't record its own gradients; outer tapes do, which gives second derivatives,
  // and so does a persistent one.
  impl.recording = impl.persistent;
  std::vector<Tensor> result;
  try {
    result = Walk(entries, targets, sources, seeds).run();
  } catch (...) {
    impl.recording = true;  // a refused call uses nothing up
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

Tensor GradientTape::gradient(const Tensor& target, const Tensor& source) {
  return gradient({&target, 1}, {&source, 1})[0];
}

}  // namespace isochron
