#include "isochron/graph/step/captured.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/core/tensor/finite.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/ir/checked_kernel.h"
#include "isochron/graph/step/arena_storage.h"
#include "isochron/graph/step/planned_call.h"
#include "isochron/graph/step/shortage.h"
#include "isochron/graph/step/stages.h"
#include "isochron/graph/step/turnover.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron {
namespace {

constexpr size_t kMaxTraceRecords = 256;
constinit TraceLabel kTracing(TraceCategory::kCapture, "trace");
constinit TraceLabel kPassing(TraceCategory::kCapture, "passes");
constinit TraceLabel kPlanning(TraceCategory::kCapture, "plan");
std::atomic<int64_t> g_traces{0};
thread_local constinit char t_marker = 0;  // its address identifies the thread

/// Sets implied options. check_numerics needs a kernel per op, so all passes except "precision" are disabled.
CaptureOptions completed(CaptureOptions options) {
  options.plan.tf32 = options.passes.precision == Precision::kTf32;
  options.plan.check_numerics |= options.check_numerics;
  if (!options.plan.check_numerics) return options;
  for (const graph::PassInfo& pass : graph::passes()) {
    if (pass.name != "precision") options.passes.disabled.emplace_back(pass.name);
  }
  options.passes.memory_budget_bytes = 0;
  return options;
}

/// Zeroes the memory, so that its pages are touched now and not in the first step.
Ref<Storage> zeroed_bytes(Device device, size_t bytes, std::string_view tag) {
  if (device.is_cpu()) {
    Ref<Storage> memory = allocate_buffer(bytes, tag);
    std::fill_n(memory->data(), bytes, std::byte{0});
    return memory;
  }
  const auto gpu = cuda::gpu(device);
  Ref<Storage> memory = gpu->allocate(bytes, tag);
  gpu->context().fill(reinterpret_cast<uintptr_t>(memory->data()), 0, bytes, gpu->stream());
  return memory;
}

}  // namespace

struct CapturedFunction::Impl {
  TraceFunction function;
  CaptureOptions options;
  Ref<Storage> arena;  // as large as the largest plan needs; outlives the plans, whose kernels may use it
  std::vector<std::unique_ptr<PlannedCall>> calls;
  PlannedCall* newest = nullptr;
  std::vector<TraceRecord> traces;
  uint64_t call_count = 0;
  size_t evictions = 0;
  bool sealed = false;
  uint32_t trace_number = 0;                 // of the trace name of calls
  std::atomic<const char*> caller{nullptr};  // the marker of the thread whose call runs
  PlanTurnover turnover;

  PlannedCall* find(std::span<const Tensor* const> arguments) {
    if (newest && newest->serves(arguments)) return newest;
    for (const auto& call : calls) {
      if (!call->serves(arguments)) continue;
      count(Counter::kPlanSwitches, 1);
      return newest = call.get();
    }
    return nullptr;
  }

  std::unique_ptr<PlannedCall> trace(const Signature& signature);
  void provide_arena(const PlannedCall& call);
  void plan(PlannedCall& call, const graph::PassOptions& options_of_passes, int64_t& passed) const;
  graph::PassOptions passes_shown(const Signature& signature) const;
  PlannedCall* add(const Signature& signature);
  void check_numbers(const PlannedCall& call, std::span<const Tensor* const> arguments) const;
  static PlannedCall* add_kept(const std::shared_ptr<Impl>& kept, const Signature& signature);
  [[noreturn]] void refuse_overwritten(const Tensor& borrowed) const;
  std::string changed_settings(const Signature& signature) const;
  std::string unplanned_text(const Signature& signature) const;
  void record(TraceRecord entry, const Signature& signature);
  void note_turnover(const Signature& signature, const TraceRecord& entry);
  bool turns_over() const { return turnover.traced_again() || evictions >= options.max_plans; }
};

/// Marks the function as running. Throws kCaptureViolation if another call is already running.
class CapturedFunction::Calling {
 public:
  explicit Calling(Impl& impl) : impl_(impl) {
    const char* running = nullptr;
    if (impl.caller.compare_exchange_strong(running, &t_marker, std::memory_order_relaxed)) return;
    fail(ErrorCode::kCaptureViolation, impl.options.name, "{}",
         running == &t_marker ? "called from within its own call, by its trace or an op's kernel; call the "
                                "plain function there"
                              : "called while another thread's call runs; a captured function runs one call "
                                "at a time: serialize the calls, or capture one function per thread");
  }
  ~Calling() { impl_.caller.store(nullptr, std::memory_order_relaxed); }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  Impl& impl_;
};

std::unique_ptr<PlannedCall> CapturedFunction::Impl::trace(const Signature& signature) {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, options.name,
          "a captured function can't be traced inside another capture; call the plain function there");
  note_made(Made::kTrace);
  auto call = std::make_unique<PlannedCall>();
  TraceRecord entry;
  call->signature = signature;
  call->graph = std::make_unique<graph::Graph>();
  const graph::PassOptions passes = passes_shown(signature);
  const int64_t start = now_ns();
  {
    const TraceSpan span(kTracing);
    const VariableDeviceScope variables_there(options.plan.device);
    const graph::CheckedScope names_gradients(options.plan.check_numerics);
    const graph::PrecisionScope computed_in(options.passes.precision);
    graph::Capture capture(*call->graph);
    if (passes.on_stage) capture.set_on_first_gradients([&] { passes.on_stage("forward", *call->graph); });
    std::vector<Tensor> arguments;
    for (const TensorSpec& spec : signature)
      arguments.push_back(graph::Graph::tensor_of(call->graph->add_input(spec)));
    const std::vector<Tensor> results = function(arguments);
    for (const Tensor& result : results) {
      require(result.defined(), ErrorCode::kInvalidArgument, options.name,
              "result {} is undefined, as the gradient of a tensor is that the target doesn't depend on",
              call->graph->outputs().size());
      call->graph->outputs().push_back(capture.lift(result));
    }
    capture.finish();
    call->settings = std::move(capture.settings());
    call->settings.forget_changed();
  }
  count(Counter::kTraces, 1);
  entry.traced_nodes = call->graph->node_count();
  const int64_t traced = now_ns();
  int64_t passed = traced;
  if (passes.on_stage) passes.on_stage("traced", *call->graph);
  plan(*call, passes, passed);
  if (passes.on_stage) passes.on_stage("planned", *call->graph);
  for (const graph::Value* value : call->graph->bound()) {
    const Storage& storage = *value->bound.storage();
    require(!arena || &storage != arena.get(), ErrorCode::kStale, options.name,
            "reads {}, its own previous result, which the call overwrites; let it refer to a copy()",
            value->spec.str());
    if (storage.overwritten()) call->borrowed.push_back(value->bound);
  }
  provide_arena(*call);
  call->bind(arena);
  call->outputs.resize(call->graph->outputs().size());
  call->packed.resize(signature.size());
  call->parts.resize(signature.size());
  entry.signature = signature_str(signature);
  entry.trace_ns = traced - start;
  entry.passes_ns = passed - traced;
  entry.plan_ns = now_ns() - passed;
  entry.nodes = call->graph->node_count();
  record(std::move(entry), signature);
  return call;
}

/// Makes the arena at least as large as `call` needs. Results in an arena that is replaced become stale.
void CapturedFunction::Impl::provide_arena(const PlannedCall& call) {
  const size_t bytes = std::max<size_t>(call.plan->arena_bytes(), 1);
  const Device device = options.plan.device;
  const auto refuse = [&](const std::string& reason, size_t available) {
    fail(ErrorCode::kOutOfMemory, options.name, "{}: {}", reason,
         shortage_text(call.plan->report(), call.signature, available));
  };
  if (bytes > options.max_arena_bytes)
    refuse(fmt::format("the limit is {} bytes of arena", options.max_arena_bytes), options.max_arena_bytes);
  if (arena && arena->size_bytes() >= bytes) return;
  Ref<Storage> memory;
  try {
    memory = zeroed_bytes(device, bytes, "arena");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || device.is_cpu()) throw;
    refuse(error.what(), cuda::gpu(device)->available_bytes());
  }
  Ref<Storage> longer(make_ref<ArenaStorage>(std::move(memory), options.name));
  for (const auto& other : calls) other->bind(longer);
  longer->next_generation();  // the results are stale: the new memory doesn't hold their content
  if (arena) arena->next_generation();
  arena = std::move(longer);
}

/// Runs the passes on a traced graph and plans it, first without a memory budget. While the plan exceeds the
/// budget, this is repeated, first with the budget itself, then with smaller ones, and last with 1, because
/// the passes don't know the workspaces and gaps of the plan. `passed`: when the passes ended.
void CapturedFunction::Impl::plan(PlannedCall& call, const graph::PassOptions& options_of_passes,
                                  int64_t& passed) const {
  const size_t budget = options_of_passes.memory_budget_bytes;
  constexpr int kAttempts = 10;
  const std::unique_ptr<graph::Graph> traced = budget > 0 ? call.graph->clone() : nullptr;
  graph::PassOptions passes = options_of_passes;
  size_t smallest = std::numeric_limits<size_t>::max();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt == 0) {
      passes.memory_budget_bytes = 0;  // the plan may fit without recomputation
    } else if (attempt == 1) {
      passes.memory_budget_bytes = budget;
    } else {
      const double scaled = 0.97 * static_cast<double>(passes.memory_budget_bytes) *
                            static_cast<double>(budget) / static_cast<double>(call.plan->arena_bytes());
      passes.memory_budget_bytes = attempt + 1 < kAttempts && scaled > 1 ? static_cast<size_t>(scaled) : 1;
    }
    if (attempt > 0) {
      call.plan.reset();
      call.graph = traced->clone();
    }
    {
      const TraceSpan span(kPassing);
      graph::run_passes(*call.graph, passes);
    }
    passed = now_ns();
    const TraceSpan span(kPlanning);
    call.plan = std::make_unique<graph::Plan>(*call.graph, options.plan);
    if (trace_prepared()) call.plan->name_kernels();
    if (budget == 0 || call.plan->arena_bytes() <= budget) return;
    smallest = std::min(smallest, call.plan->arena_bytes());
  }
  fail(ErrorCode::kOutOfMemory, options.name,
       "the smallest plan found for {} needs {} bytes, but the memory budget is {}; raise the budget, or use "
       "fewer rows",
       signature_str(call.signature), smallest, budget);
}

/// The options of the passes; `on_stage` calls the function's own callback and the process's sink.
graph::PassOptions CapturedFunction::Impl::passes_shown(const Signature& signature) const {
  graph::PassOptions passes = options.passes;
  passes.device = options.plan.device;
  passes.backend = options.plan.backend;
  graph::GraphStageSink sink = graph::graph_stage_sink();
  if (!sink) return passes;
  passes.on_stage = [own = options.passes.on_stage, sink = std::move(sink), name = options.name,
                     text = signature_str(signature),
                     number = ++g_traces](std::string_view stage, const graph::Graph& graph) {
    if (own) own(stage, graph);
    sink({name, text, number, stage, graph});
  };
  return passes;
}

/// The names of the settings whose change made the plan for `signature` useless; empty if there are none.
std::string CapturedFunction::Impl::changed_settings(const Signature& signature) const {
  const auto planned = std::ranges::find_if(calls.rbegin(), calls.rend(),
                                            [&](const auto& call) { return call->signature == signature; });
  return planned != calls.rend() ? (*planned)->settings.changed() : "";
}

/// Why a sealed function can't be called with `signature`.
std::string CapturedFunction::Impl::unplanned_text(const Signature& signature) const {
  const std::string settings = changed_settings(signature);
  if (!settings.empty()) {
    return fmt::format(
        "signature {} was planned before sealing, but these settings changed since: {}; change "
        "them back, or before sealing",
        signature_str(signature), settings);
  }
  return fmt::format(
      "signature {} was not planned before sealing (planned: {}); prepare() it, or pad or drop "
      "the partial batch",
      signature_str(signature), newest ? signature_str(newest->signature) : "none");
}

void CapturedFunction::Impl::record(TraceRecord entry, const Signature& signature) {
  const std::string settings = changed_settings(signature);
  const std::string before = newest ? signature_str(newest->signature) : "";
  if (newest) {
    entry.changed = settings.empty() ? fmt::format("{} -> {}", before, entry.signature) : settings;
  }
  const int64_t cost = entry.trace_ns + entry.passes_ns + entry.plan_ns;
  emit({EventKind::kTrace, options.name,
        fmt::format("traced {} nodes for {}{}{}", entry.traced_nodes, entry.signature,
                    !newest            ? ""
                    : settings.empty() ? ", was "
                                       : ", because these settings changed: ",
                    entry.changed),
        0, cost, before,
        settings.empty() ? entry.signature : fmt::format("{}; changed: {}", entry.signature, settings)});
  if (traces.size() == kMaxTraceRecords) {
    traces.erase(traces.begin());
    count(Counter::kDropped, 1);
  }
  traces.push_back(std::move(entry));
}

/// Counts the trace `entry`. Emits a notice, once, if plans are evicted before they are used again.
void CapturedFunction::Impl::note_turnover(const Signature& signature, const TraceRecord& entry) {
  turnover.add(signature, newest->settings, entry.trace_ns + entry.passes_ns + entry.plan_ns);
  if (turnover.told || !turns_over()) return;
  turnover.told = true;
  emit({EventKind::kNotice, options.name, turnover.text(options.name, options.max_plans, call_count + 1)});
}

PlannedCall* CapturedFunction::Impl::add(const Signature& signature) {
  const auto oldest = calls.size() < options.max_plans
                          ? calls.end()
                          : std::min_element(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
                              return a->last_call < b->last_call;
                            });
  std::unique_ptr<PlannedCall> made = trace(signature);
  if (oldest != calls.end()) {
    calls.erase(oldest);
    ++evictions;
  }
  calls.push_back(std::move(made));
  newest = calls.back().get();
  note_turnover(signature, traces.back());
  return newest;
}

/// With `check_numerics`: throws kNotANumber if an argument or a trainable variable isn't finite.
void CapturedFunction::Impl::check_numbers(const PlannedCall& call,
                                           std::span<const Tensor* const> arguments) const {
  const auto look = [&](const Tensor& tensor, const auto& name) {
    if (!tensor.device().is_cpu()) return;
    const Tensor content = graph::contiguous(tensor);
    const std::optional<NotFinite> found = find_not_finite(content.spec(), content.raw());
    if (found)
      fail(ErrorCode::kNotANumber, options.name, "{}, {}", name(), not_finite_text(content.spec(), *found));
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    look(*arguments[i], [&] { return fmt::format("argument {}", i); });
  for (const graph::Value* value : call.graph->bound()) {
    const std::optional<VariableInfo> variable = variable_behind(value->bound);
    if (variable && variable->trainable)
      look(value->bound.refreshed(),
           [&] { return fmt::format("variable '{}' before the call", variable->name); });
  }
}

CapturedFunction::CapturedFunction(TraceFunction function, CaptureOptions options) : impl_(new Impl) {
  require(options.max_plans >= 1, ErrorCode::kInvalidArgument, "capture", "max_plans must be at least 1");
  require(function != nullptr, ErrorCode::kInvalidArgument, "capture", "the function is empty");
  options = completed(std::move(options));
  require(!options.plan.tf32 || !options.plan.device.is_cpu(), ErrorCode::kUnsupported, "capture",
          "tf32 needs a CUDA device; set CaptureOptions::plan.device, or use Precision::kF32");
  impl_->function = std::move(function);
  impl_->options = std::move(options);
  impl_->trace_number = trace_name(TraceCategory::kCall, impl_->options.name);
  enable_nvtx_for_tool();
}
CapturedFunction::~CapturedFunction() = default;
CapturedFunction::CapturedFunction(CapturedFunction&&) noexcept = default;
CapturedFunction& CapturedFunction::operator=(CapturedFunction&&) noexcept = default;

CapturedFunction::Impl& CapturedFunction::impl() const {
  if (!impl_) [[unlikely]]
    fail(ErrorCode::kInvalidArgument, "capture",
         "the captured function was moved from; call the one that it was moved to");
  return *impl_;
}

PlannedCall* CapturedFunction::Impl::add_kept(const std::shared_ptr<Impl>& kept, const Signature& signature) {
  PlannedCall* const call = kept->add(signature);
  require(kept.use_count() > 1, ErrorCode::kCaptureViolation, kept->options.name,
          "was destroyed or replaced while it was traced; keep it until its call has returned");
  return call;
}

void CapturedFunction::Impl::refuse_overwritten(const Tensor& borrowed) const {
  fail(ErrorCode::kStale, options.name,
       "reads {}, which it was traced with, but {} has replaced it since, and it doesn't see a newer one; "
       "pass "
       "it as an argument, or keep a copy() in a Variable and assign to that",
       borrowed.spec().str(), borrowed.storage()->owner());
}

std::span<const Tensor> CapturedFunction::call(std::span<const Tensor* const> arguments) {
  std::shared_ptr<Impl> kept;  // during a trace, because the traced function may destroy *this
  Impl& impl = this->impl();
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, impl.options.name,
          "called inside another capture, which would keep only this call's result; call the plain function "
          "there");
  const Calling calling(impl);
  for (const Tensor* argument : arguments) {
    require(argument != nullptr && argument->defined() && !argument->is_value(), ErrorCode::kCaptureViolation,
            impl.options.name,
            "a captured function takes tensors with content; inside a capture call the plain function");
  }
  PlannedCall* call = impl.find(arguments);
  if (!call) [[unlikely]] {
    Signature signature;
    for (const Tensor* argument : arguments) signature.push_back(argument->spec());
    require(!impl.sealed, ErrorCode::kSealed, impl.options.name, "{}", impl.unplanned_text(signature));
    if (impl.newest && has_fewer_rows(signature, impl.newest->signature)) count(Counter::kPartialTraces, 1);
    kept = impl_;
    call = Impl::add_kept(kept, signature);
  }
  for (const Tensor& tensor : call->borrowed) {
    if (tensor.stale()) [[unlikely]]
      impl.refuse_overwritten(tensor);
  }
  call->last_call = ++impl.call_count;
  const bool on_device = !impl.options.plan.device.is_cpu();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Tensor* argument = arguments[i];
    if (!argument->contiguous()) [[unlikely]] {
      call->packed[i] = graph::contiguous(*argument);
      argument = &call->packed[i];
    }
    require(
        argument->storage().get() != impl.arena.get(), ErrorCode::kStale, impl.options.name,
        "argument {} is this function's own previous result, which the call overwrites; pass copy() of it",
        i);
    if (!on_device) call->plan->bind_input(i, argument->raw());
  }
  if (on_device) [[unlikely]]
    call->bind_on_device(impl.options.plan.device, impl.options.name, arguments);
  if (impl.options.plan.check_numerics) [[unlikely]]
    impl.check_numbers(*call, arguments);
  impl.arena->next_generation();
  flush_subnormals_to_zero();
  const TraceSpan span(impl.trace_number);
  if (impl.options.plan.poison) [[unlikely]] {
    call->plan->run_checked();
  } else {
    call->plan->run();
  }
  if (on_device) [[unlikely]]
    call->end_transfer();
  for (size_t i = 0; i < call->outputs.size(); ++i) call->outputs[i] = Tensor(call->output_impls[i]);
  return call->outputs;
}

void CapturedFunction::prepare(const Signature& signature) {
  std::shared_ptr<Impl> kept;
  Impl& impl = this->impl();
  const Calling calling(impl);
  require(!impl.sealed, ErrorCode::kSealed, impl.options.name,
          "is sealed; prepare signatures before sealing");
  for (const TensorSpec& spec : signature) {
    require(
        std::ranges::all_of(spec.shape, [](int64_t extent) { return extent >= 0; }),
        ErrorCode::kInvalidArgument, impl.options.name,
        "can't be planned for {}, whose extents aren't all known; plan it for extents that occur, pad the "
        "data to fixed ones, or call it without prepare()",
        signature_str(signature));
  }
  const auto state_of = [&](const Signature& of) {
    bool there = false, holds = false;
    for (const auto& call : impl.calls) {
      if (!(call->signature == of)) continue;
      there = true;
      holds = holds || call->settings.hold();
    }
    return std::pair(there, holds);
  };
  if (state_of(signature).second) return;
  std::vector<Signature> held;
  for (const auto& call : impl.calls) {
    if (call->settings.hold()) held.push_back(call->signature);
  }
  held.push_back(signature);
  kept = impl_;
  const auto add = [&](const Signature& next) {
    PlannedCall* call = Impl::add_kept(kept, next);
    if (!impl.options.plan.device.is_cpu()) call->make_ring(impl.options.plan.device);
  };
  add(signature);
  // The trace may have changed settings that earlier traces have read, such as which parameters take part in
  // updates. Those signatures are traced again, which may change settings again.
  bool added = true;
  for (size_t round = 0; added && round < held.size(); ++round) {
    added = false;
    for (const Signature& earlier : held) {
      const auto [there, holds] = state_of(earlier);
      if (!there || holds) continue;
      add(earlier);
      added = true;
    }
  }
}

void CapturedFunction::keep_at_least(size_t plans) {
  size_t& kept = impl().options.max_plans;
  kept = std::max(kept, plans);
}

void CapturedFunction::seal() { impl().sealed = true; }
bool CapturedFunction::sealed() const { return impl().sealed; }
size_t CapturedFunction::plan_count() const { return impl().calls.size(); }
size_t CapturedFunction::evictions() const { return impl().evictions; }
const std::vector<TraceRecord>& CapturedFunction::traces() const { return impl().traces; }

graph::Plan& CapturedFunction::plan() {
  require(impl().newest != nullptr, ErrorCode::kInvalidArgument, impl().options.name,
          "has not been called yet");
  return *impl().newest->plan;
}

cuda::TransferStats CapturedFunction::transfer_stats() const {
  cuda::TransferStats all;
  for (const auto& call : impl().calls) {
    if (call->ring) all.add(call->ring->stats());
  }
  return all;
}

const graph::PlanReport& CapturedFunction::plan_report() const {
  require(impl().newest != nullptr, ErrorCode::kInvalidArgument, impl().options.name,
          "has not been called yet");
  return impl().newest->plan->report();
}

CapturedFunction::Planned CapturedFunction::largest_plan() const {
  require(!impl().calls.empty(), ErrorCode::kInvalidArgument, impl().options.name, "has not been traced yet");
  const auto largest = std::ranges::max_element(
      impl().calls, {}, [](const auto& call) { return call->plan->report().arena_bytes; });
  return {*(*largest)->graph, (*largest)->plan->report()};
}

const graph::Graph& CapturedFunction::graph() const {
  require(impl().newest != nullptr, ErrorCode::kInvalidArgument, impl().options.name,
          "has not been called yet");
  return *impl().newest->graph;
}

std::string CapturedFunction::report() const {
  std::string text =
      fmt::format("captured '{}': {} plans in an arena of {} bytes, {} evicted{}\n", impl().options.name,
                  impl().calls.size(), impl().arena ? impl().arena->size_bytes() : 0, impl().evictions,
                  impl().sealed ? ", sealed" : "");
  if (impl().turns_over()) {
    text += fmt::format(
        "  {}\n", impl().turnover.text(impl().options.name, impl().options.max_plans, impl().call_count));
  }
  for (const auto& call : impl().calls) {
    const graph::PlanReport& plan = call->plan->report();
    text += fmt::format(
        "  {}: {} nodes, {} kernels, arena {} bytes ({:.3f} of the lower bound), {} updates in place, "
        "{} copied\n",
        signature_str(call->signature), plan.nodes, plan.instructions, plan.arena_bytes, plan.arena_ratio(),
        plan.updates_in_place, plan.updates_copied);
    for (const graph::Value* value : call->graph->bound()) {
      const std::optional<double> scalar = graph::constant_scalar(value);
      text += scalar ? fmt::format("    frozen {} = {:g}\n", value->spec.str(), *scalar)
                     : fmt::format("    {} {}\n", value->constant() ? "constant" : "bound by reference",
                                   value->spec.str());
    }
  }
  return text;
}

}  // namespace isochron
