#include "isochron/graph/program/plan_builder.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/checked_kernel.h"
#include "isochron/graph/ir/dependencies.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/precision.h"
#include "isochron/graph/passes/side_effects.h"
#include "isochron/graph/program/allocating_executor.h"
#include "isochron/graph/program/copy_kernel.h"
#include "isochron/graph/program/device_executor.h"
#include "isochron/graph/program/instrumented_run.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/planner/planner.h"

namespace isochron::graph {
namespace {

/// Where a value's bytes are. A view or an in-place result has the same place as its root.
struct Place {
  enum class Kind : uint8_t { kArena, kInput, kBound } kind = Kind::kArena;
  size_t index = 0;              // arena buffer, or input
  std::byte* address = nullptr;  // kBound
  size_t offset = 0;             // kArena: offset in the buffer
};

struct ArenaBuffer {
  std::string owner;
  size_t bytes = 0;
  int64_t lower = 0;
  int64_t upper = 0;
  BufferKind kind = BufferKind::kTemporary;
  bool parts = false;  // values are packed in it
};

/// The range into which an op packs its inputs (OpDef::Packing).
struct PackedRange {
  const Node* packer;
  int64_t packed_at;
  std::optional<size_t> buffer;  // set once the first of the inputs is placed
};

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, const PlanOptions& options, Program& program)
      : graph_(graph),
        program_(program),
        options_(options),
        threads_(options.threads > 0 ? options.threads : compute_threads()),
        backend_(backend_of(options.backend, options.device.kind)) {
    program_.report.device = options.device;
    program_.report.tf32 = options.tf32;
    concurrent_ = options.concurrent && !options.device.is_cpu();
    if (options.device.is_cpu()) {
      require_kernels();
      return;
    }
    require(!options.poison, ErrorCode::kUnsupported, "plan", "poison is for the CPU; this plan is for {}",
            options.device.str());
    gpu_ = cuda::gpu(options.device);
    require_kernels();
    module_ = options.module;
    if (module_ != nullptr) return;
    own_module_ = gpu_->make_module(options.tf32);
    module_ = own_module_.get();
  }

  std::unique_ptr<Executor> build() {
    find_used();
    place_leaves();
    schedule();
    find_last_reads();
    find_packed_values();
    for (size_t i = 0; i < order_.size(); ++i) place_results(i);
    place_outputs();
    place_update_copies();
    prepare_kernels();
    if (own_module_) own_module_->load();  // which makes choices that tell how much workspace is needed
    place_workspaces();
    place_in_arena();
    write_tables();
    program_.report.longest_chain = program_.steps.size();
    if (concurrent_) find_dependencies();
    program_.report.nodes = graph_.node_count();
    program_.report.activation_bytes = activation_bytes(graph_);
    return executor();
  }

 private:
  struct CopyStep {
    Place from;
    Place to;
    size_t bytes;
    std::string name;
  };

  std::unique_ptr<Executor> executor() {
    std::unique_ptr<Executor> device;
    if (gpu_)
      device = std::make_unique<DeviceExecutor>(gpu_, std::move(own_module_), options_.check_numerics);
    if (options_.allocator == nullptr) return device;
    return std::make_unique<AllocatingExecutor>(*options_.allocator, program_, std::move(device),
                                                gpu_ ? gpu_->stream() : cuda::Stream::kNone);
  }

  /// Throws kUnsupported if there are ops that the backend can't run; names all of them at once.
  void require_kernels() const {
    std::set<std::string> missing;
    for (const auto& node : graph_.nodes()) {
      if (node->op->fusion != FusionClass::kView && !backend_.runs(*node->op)) missing.insert(node->op->name);
    }
    const bool on_cpu = program_.report.device.is_cpu();
    require(missing.empty(), ErrorCode::kUnsupported, "plan", "there is no kernel for {} of: {}{}",
            on_cpu ? std::string(backend_.name()) : program_.report.device.str(), fmt::join(missing, ", "),
            on_cpu ? "" : "; plan for the CPU");
  }

  /// The address of a bound value.
  std::byte* bound_address(const Value* value) {
    const Ref<Storage>& storage = value->bound.storage();
    const size_t offset = value->bound.impl()->offset_bytes;
    const Device device = program_.report.device;
    if (storage->device() == device) {
      program_.kept.push_back(storage);
      return storage->data() + offset;
    }
    require(
        storage->constant(), ErrorCode::kDevice, "plan",
        "{}, which changes with {}, lives on {}, and the plan is for {}; move it there before it is captured",
        value->spec.str(), storage->owner(), storage->device().str(), device.str());
    std::vector<std::byte> bytes(value->spec.size_bytes());
    storage->read(offset, bytes.data(), bytes.size());
    Ref<Storage> copy =
        gpu_ ? gpu_->allocate(bytes.size(), "constants") : allocate_buffer(bytes.size(), "constants");
    copy->write(0, bytes.data(), bytes.size());
    program_.kept.push_back(copy);
    return copy->data();
  }

  /// Finds the values that the remaining nodes, the results and the updates use. Passes may have left unused
  /// bound values in the graph.
  void find_used() {
    for (const auto& node : graph_.nodes()) used_.insert(node->inputs.begin(), node->inputs.end());
    used_.insert(graph_.outputs().begin(), graph_.outputs().end());
    for (const Update& update : graph_.updates()) used_.insert({update.value, update.target});
  }

  void place_leaves() {
    for (const Value* input : graph_.inputs()) {
      places_[input] = {Place::Kind::kInput, static_cast<size_t>(input->index), nullptr};
    }
    for (const Value* value : graph_.bound()) {
      if (!used_.contains(value)) continue;
      places_[value] = {Place::Kind::kBound, 0, bound_address(value)};
      program_.report.bound_bytes += value->spec.size_bytes();
    }
  }

  /// Keeps the nodes in traced order. A view is not an instruction: it shares its root's memory.
  void schedule() {
    for (const auto& node : graph_.nodes()) {
      if (node->op->fusion == FusionClass::kView) {
        roots_[node->outputs[0]] = root(node->inputs[0]);
      } else {
        order_.push_back(node.get());
      }
    }
  }

  const Value* root(const Value* value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }

  void find_last_reads() {
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const Value* input : order_[i]->inputs) {
        last_read_[root(input)] = static_cast<int64_t>(i);
        read_.insert({input, true});
      }
    }
    const int64_t end = static_cast<int64_t>(order_.size());
    for (const Value* output : graph_.outputs()) {
      last_read_[root(output)] = end;
      output_roots_[root(output)] = true;
      read_.insert({output, true});
    }
    for (const Update& update : graph_.updates()) {
      ++update_count_[update.value];
      update_of_[update.value] = &update;
      updated_roots_.insert(root(update.value));
      read_.insert({update.value, true});
      read_.insert({root(update.value), true});
    }
    for (const Value* value : graph_.bound()) {
      if (used_.contains(value)) ++bound_views_[value->bound.storage().get()];
    }
    for (const auto& [view, r] : roots_) {
      if (read_.contains(view)) read_.insert({r, true});
    }
  }

  /// Whether output `o` of node `i` may overwrite root `r` although the node reads it.
  bool reads_allow_alias(const Node& node, const Value* r, int o) const {
    if (!node.op->may_alias) return false;
    const std::vector<TensorSpec> specs = defined_inputs(node.input_specs(), node.attributes);
    const OpCall call{*node.op, specs, node.attributes};
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      if (root(node.inputs[j]) == r && !node.op->may_alias(call, o, static_cast<int>(j))) return false;
    }
    return true;
  }

  int64_t last_read(const Value* r) const {
    const auto found = last_read_.find(r);
    return found == last_read_.end() ? -1 : found->second;
  }

  /// Finds the values that lie in the range of a packing node: the values unpacked from the range, and the
  /// inputs of the node that no later node reads, which are written directly into the range.
  void find_packed_values() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& node = *order_[i];
      if (!node.op->packing) continue;
      const std::vector<TensorSpec> specs = node.input_specs();
      const std::vector<size_t> offsets = node.op->packing->offsets({*node.op, specs, node.attributes});
      if (node.op->packing->kind == OpDef::Packing::Kind::kUnpacks) {
        for (size_t o = 0; o < node.outputs.size(); ++o)
          packed_.insert({node.outputs[o], {root(node.inputs[0]), offsets[o]}});
        continue;
      }
      const Value* range = node.outputs[0];
      ranges_.insert({range, {&node, static_cast<int64_t>(i), {}}});
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const Value* r = root(node.inputs[k]);
        if (r->producer != nullptr && last_read(r) == static_cast<int64_t>(i) && !updated_roots_.contains(r))
          packed_.insert({r, {range, offsets[k]}});
      }
    }
  }

  /// The place of a value inside a range, or of the range itself.
  std::optional<Place> place_in_range(const Value* value, int64_t now) {
    const auto part = packed_.find(value);
    const auto [whole, offset] = part == packed_.end() ? std::pair{value, size_t{0}} : part->second;
    const auto range = ranges_.find(whole);
    if (range == ranges_.end()) return std::nullopt;
    auto& [packer, packed_at, buffer] = range->second;
    if (!buffer) {
      buffer = buffers_.size();
      buffers_.push_back(
          {packer->name(), whole->spec.size_bytes(), now, upper_of(whole, packed_at), kind_of(value), true});
    }
    int64_t& upper = buffers_[*buffer].upper;
    upper = std::max(upper, upper_of(value, now));
    return Place{Place::Kind::kArena, *buffer, nullptr, offset};
  }

  /// The update whose variable the result can be written straight into; null: none.
  const Update* direct_update(const Node& node, int64_t i, int o) const {
    const Value* value = node.outputs[static_cast<size_t>(o)];
    const auto counted = update_count_.find(value);
    if (counted == update_count_.end() || counted->second != 1 || output_roots_.contains(value))
      return nullptr;
    const Update* update = update_of_.at(value);
    const Value* target = update->target;
    const bool variable = target->kind == Value::Kind::kBound;  // a loop's body updates inputs instead
    if (variable && bound_views_.at(target->bound.storage().get()) > 1) return nullptr;
    if (updated_roots_.contains(target)) return nullptr;  // its old content must still be copied
    if (last_read(target) > i) return nullptr;
    if (last_read(target) == i && !reads_allow_alias(node, target, o)) return nullptr;
    return update;
  }

  void place_results(size_t i) {
    const Node& node = *order_[i];
    const int64_t now = static_cast<int64_t>(i);
    std::vector<const Value*> taken;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Value* value = node.outputs[o];
      if (skipped(node, value)) continue;
      if (const Update* update = direct_update(node, now, static_cast<int>(o))) {
        places_[value] = places_.at(update->target);
        done_updates_.insert(update);
        ++program_.report.updates_in_place;
        continue;
      }
      if (const std::optional<Place> place = place_in_range(value, now)) {
        places_[value] = *place;
        continue;
      }
      if (const Value* reused = reusable_input(node, now, static_cast<int>(o), taken)) {
        taken.push_back(reused);
        places_[value] = places_.at(reused);
        ArenaBuffer& buffer = buffers_[places_[value].index];
        buffer.upper = std::max(buffer.upper, upper_of(value, now));
        if (buffer.kind == BufferKind::kTemporary) buffer.kind = kind_of(value);
        continue;
      }
      places_[value] = {Place::Kind::kArena, buffers_.size(), nullptr};
      buffers_.push_back({node.name(), value->spec.size_bytes(), now, upper_of(value, now), kind_of(value)});
    }
  }

  BufferKind kind_of(const Value* value) const {
    const auto found = kinds_.find(value);
    return found == kinds_.end() ? BufferKind::kTemporary : found->second;
  }

  /// Whether this is an output that is never read and that its kernel can leave out.
  bool skipped(const Node& node, const Value* output) const {
    if (read_.contains(output)) return false;
    if (node.op->skippable_outputs == OpDef::kAllOutputs) return true;
    const auto number = std::ranges::find(node.outputs, output) - node.outputs.begin();
    return ((node.op->skippable_outputs >> number) & 1U) != 0;
  }

  int64_t upper_of(const Value* value, int64_t now) const {
    int64_t upper = std::max(last_read(value), now) + 1;
    if (updated_roots_.contains(value)) upper = static_cast<int64_t>(order_.size()) + 1;
    return upper;
  }

  const Value* reusable_input(const Node& node, int64_t now, int o,
                              const std::vector<const Value*>& taken) const {
    const Value* value = node.outputs[static_cast<size_t>(o)];
    for (const Value* input : node.inputs) {
      const Value* r = root(input);
      const Place& place = places_.at(r);
      if (place.kind != Place::Kind::kArena || r->spec.size_bytes() != value->spec.size_bytes()) continue;
      if (last_read(r) != now || update_count_.contains(r) ||
          std::find(taken.begin(), taken.end(), r) != taken.end()) {
        continue;
      }
      if (buffers_[place.index].parts || buffers_[place.index].upper != now + 1) continue;
      if (reads_allow_alias(node, r, o)) return r;
    }
    return nullptr;
  }

  Place place_of(const Value* value) const { return places_.at(root(value)); }

  Place new_buffer(const std::string& owner, size_t bytes, int64_t lower, int64_t upper) {
    buffers_.push_back({owner, bytes, lower, upper, BufferKind::kOutput});
    return {Place::Kind::kArena, buffers_.size() - 1, nullptr};
  }

  /// Outputs live in the arena until the next run. Outputs that are inputs or variables are copied there at
  /// the end.
  void place_outputs() {
    const int64_t end = static_cast<int64_t>(order_.size());
    for (const Value* output : graph_.outputs()) {
      Place place = place_of(output);
      if (place.kind != Place::Kind::kArena) {
        const Place copy = new_buffer("output", output->spec.size_bytes(), end, end + 2);
        copies_.push_back({place, copy, output->spec.size_bytes(), "copy of output"});
        place = copy;
      }
      buffers_[place.index].upper = end + 2;
      buffers_[place.index].kind = BufferKind::kOutput;
      outputs_.push_back(place);
    }
  }

  void place_update_copies() {
    const int64_t end = static_cast<int64_t>(order_.size());
    std::vector<CopyStep> writes;
    for (const Update& update : graph_.updates()) {
      if (done_updates_.contains(&update)) continue;
      Place from = place_of(update.value);
      const size_t bytes = update.value->spec.size_bytes();
      if (from.kind != Place::Kind::kArena) {  // another variable, which another update may overwrite first
        const Place staged = new_buffer("staged update", bytes, end, end + 1);
        copies_.push_back({from, staged, bytes, "stage update"});
        from = staged;
      } else {
        buffers_[from.index].upper = std::max(buffers_[from.index].upper, end + 1);
      }
      writes.push_back({from, places_.at(update.target), bytes, "copy update"});
      ++program_.report.updates_copied;
    }
    copies_.insert(copies_.end(), writes.begin(), writes.end());
  }

  Instruction describe(const Node& node, std::span<const TensorSpec> inputs,
                       std::span<const TensorSpec> outputs) const {
    Instruction result{node.name(), node.op->name, 0, 0, ""};
    const std::vector<TensorSpec> operands = defined_inputs(inputs, node.attributes);
    const OpCall call{*node.op, operands, node.attributes};
    if (node.op->flops) result.flops = node.op->flops(call);
    for (const TensorSpec& input : inputs) {
      result.bytes += static_cast<double>(input.size_bytes());
      result.shapes += fmt::format("{}{}", result.shapes.empty() ? "" : " ", input.shape.str());
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!skipped(node, node.outputs[o])) result.bytes += static_cast<double>(outputs[o].size_bytes());
    }
    if (node.op->bytes) result.bytes = node.op->bytes(call, outputs);
    return result;
  }

  void prepare_kernels() {
    const CheckedScope checked(options_.check_numerics);
    std::shared_ptr<void> shared;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& node = *order_[i];
      const std::vector<TensorSpec> inputs = node.input_specs();
      const std::vector<TensorSpec> outputs = node.output_specs();
      const auto unread = std::make_unique<bool[]>(node.outputs.size());
      for (size_t o = 0; o < node.outputs.size(); ++o) unread[o] = skipped(node, node.outputs[o]);
      std::unique_ptr<Kernel> kernel = prepare_kernel({*node.op,
                                                       inputs,
                                                       outputs,
                                                       node.attributes,
                                                       threads_,
                                                       {unread.get(), node.outputs.size()},
                                                       module_,
                                                       &shared,
                                                       &backend_});
      if (options_.check_numerics) kernel = checked_kernel(std::move(kernel), node, gpu_);
      program_.instructions.push_back(describe(node, inputs, outputs));
      program_.report.flops += program_.instructions.back().flops;
      program_.kernels.push_back(std::move(kernel));
    }
    for (const CopyStep& copy : copies_) {
      program_.instructions.push_back({copy.name, "", 0, 2.0 * static_cast<double>(copy.bytes), ""});
      program_.kernels.push_back(copy_kernel(copy.bytes, gpu_.get()));
    }
  }

  void place_workspaces() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t bytes = program_.kernels[i]->workspace_bytes();
      workspace_of_.push_back(bytes > 0 ? static_cast<int64_t>(buffers_.size()) : -1);
      if (bytes > 0) {
        buffers_.push_back({"workspace of " + order_[i]->name(), bytes, static_cast<int64_t>(i),
                            static_cast<int64_t>(i) + 1, BufferKind::kWorkspace});
      }
    }
  }

  void place_in_arena() {
    std::vector<BufferRequest> requests;
    for (const ArenaBuffer& buffer : buffers_) {
      requests.push_back({buffer.lower, buffer.upper, buffer.bytes + (options_.poison ? kRedZoneBytes : 0)});
    }
    PlannerOptions options;
    if (gpu_) options.alignment = cuda::kDeviceAlignment;
    const MemoryPlan placed = plan_memory(requests, options);
    PlanReport& report = program_.report;
    report.arena_bytes = placed.arena_bytes;
    report.lower_bound_bytes = placed.lower_bound_bytes;
    report.alignment_waste_bytes = placed.alignment_waste_bytes;
    report.peak_instruction = placed.peak_time;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const ArenaBuffer& b = buffers_[i];
      report.buffers.push_back({b.owner, b.lower, b.upper, b.bytes, placed.offsets[i], b.kind});
    }
  }

  size_t offset_of(const Place& place) const {
    return program_.report.buffers[place.index].offset + place.offset;
  }

  void add_pointer(const Place& place, size_t step) {
    const size_t slot = program_.pointers.size();
    program_.pointers.push_back(place.kind == Place::Kind::kBound ? place.address : nullptr);
    if (place.kind == Place::Kind::kArena) {
      program_.arena_patches.push_back({slot, place.index, place.offset});
    } else if (place.kind == Place::Kind::kInput) {
      program_.input_slots[place.index].push_back(slot);
      if (program_.input_steps[place.index].empty() || program_.input_steps[place.index].back() != step) {
        program_.input_steps[place.index].push_back(step);
      }
    }
  }

  void write_tables() {
    program_.inputs.assign(graph_.inputs().size(), nullptr);
    program_.input_slots.resize(graph_.inputs().size());
    program_.input_steps.resize(graph_.inputs().size());
    std::vector<std::pair<size_t, size_t>> starts;  // inputs, outputs of each step
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t in = program_.pointers.size();
      for (const Value* input : order_[i]->inputs) add_pointer(place_of(input), i);
      const size_t out = program_.pointers.size();
      for (const Value* output : order_[i]->outputs) {
        if (skipped(*order_[i], output)) {
          program_.pointers.push_back(nullptr);
        } else {
          add_pointer(places_.at(output), i);
        }
      }
      starts.emplace_back(in, out);
      if (workspace_of_[i] >= 0) {
        program_.workspace_patches.push_back({i, static_cast<size_t>(workspace_of_[i])});
      }
    }
    for (const CopyStep& copy : copies_) {
      const size_t step = starts.size();
      const size_t in = program_.pointers.size();
      add_pointer(copy.from, step);
      add_pointer(copy.to, step);
      starts.emplace_back(in, in + 1);
    }
    for (size_t i = 0; i < starts.size(); ++i) {
      program_.steps.push_back(
          {program_.kernels[i].get(),
           {program_.pointers.data() + starts[i].first, program_.pointers.data() + starts[i].second}});
    }
    for (const Place& place : outputs_) program_.output_offsets.push_back(offset_of(place));
    program_.output_addresses.assign(outputs_.size(), nullptr);
    program_.report.instructions = program_.steps.size();
    program_.copies_begin = order_.size();
    for (const Value* input : graph_.inputs()) program_.input_bytes.push_back(input->spec.size_bytes());
    for (const Update& update : graph_.updates()) {
      if (update.target->kind != Value::Kind::kBound) continue;
      program_.updated.emplace_back(places_.at(update.target).address, update.target->spec.size_bytes());
    }
  }

  void find_dependencies() {
    constexpr int kArena = 0, kBound = 1;
    constexpr int kBeside = 2;  // state outside of tensors, which side effects change
    constexpr int kInputs = 3;  // from here on, one space per input: loops write their state there
    std::vector<std::vector<MemoryUse>> uses(program_.steps.size());
    const auto add = [&](size_t step, const Place& place, size_t bytes, bool writes) {
      if (place.kind == Place::Kind::kArena) {
        const PlannedBuffer& buffer = program_.report.buffers[place.index];
        const size_t begin = buffer.offset + place.offset;
        uses[step].push_back(
            {kArena, begin, buffers_[place.index].parts ? begin + bytes : begin + buffer.size_bytes, writes});
      } else if (place.kind == Place::Kind::kBound) {
        const auto address = reinterpret_cast<uintptr_t>(place.address);
        uses[step].push_back({kBound, address, address + bytes, writes});
      } else {
        uses[step].push_back({kInputs + static_cast<int>(place.index), 0, bytes, writes});
      }
    };
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const Value* input : order_[i]->inputs) add(i, place_of(input), input->spec.size_bytes(), false);
      for (const Value* output : order_[i]->outputs) {
        if (!skipped(*order_[i], output)) add(i, places_.at(output), output->spec.size_bytes(), true);
      }
      if (workspace_of_[i] >= 0)
        add(i, {Place::Kind::kArena, static_cast<size_t>(workspace_of_[i]), nullptr}, 0, true);
      if (has_side_effect(*order_[i])) uses[i].push_back({kBeside, 0, 1, true});
    }
    for (size_t i = 0; i < copies_.size(); ++i) {
      add(order_.size() + i, copies_[i].from, copies_[i].bytes, false);
      add(order_.size() + i, copies_[i].to, copies_[i].bytes, true);
    }
    program_.after = dependencies(uses);
    program_.report.longest_chain = longest_chain(program_.after);
  }

  const Graph& graph_;
  Program& program_;
  const PlanOptions& options_;
  int threads_;
  const Backend& backend_;
  bool concurrent_ = false;
  std::shared_ptr<cuda::Gpu> gpu_;  // null: the CPU
  std::unique_ptr<cuda::KernelModule> own_module_;
  cuda::KernelModule* module_ = nullptr;
  std::unordered_map<const Value*, BufferKind> kinds_ = value_kinds(graph_);
  std::vector<const Node*> order_;
  std::unordered_map<const Value*, Place> places_;        // of roots
  std::unordered_map<const Value*, const Value*> roots_;  // of views
  std::unordered_map<const Value*, int64_t> last_read_;   // of roots, by instructions and outputs
  std::unordered_map<const Value*, bool> read_;
  std::unordered_map<const Value*, bool> output_roots_;
  std::unordered_map<const Value*, int> update_count_;
  std::unordered_map<const Value*, const Update*> update_of_;  // the last update of each value
  std::unordered_set<const Value*> updated_roots_;             // roots whose content is stored by updates
  std::unordered_set<const Value*> used_;
  std::unordered_map<const Storage*, int> bound_views_;
  std::unordered_set<const Update*> done_updates_;
  std::unordered_map<const Value*, PackedRange> ranges_;
  std::unordered_map<const Value*, std::pair<const Value*, size_t>> packed_;  // value -> range, offset
  std::vector<ArenaBuffer> buffers_;
  std::vector<int64_t> workspace_of_;
  std::vector<CopyStep> copies_;
  std::vector<Place> outputs_;
};

std::unique_ptr<Executor> build_program(const Graph& graph, const PlanOptions& options, Program& program) {
  return PlanBuilder(graph, options, program).build();
}

}  // namespace isochron::graph
