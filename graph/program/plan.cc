#include "isochron/graph/program/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "isochron/core/base/clock.h"
#include "isochron/core/cuda/kernel_module.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/graph/program/device_replay.h"
#include "isochron/graph/program/plan_builder.h"
#include "isochron/memory/allocators/allocator.h"

namespace isochron::graph {
namespace {

constexpr size_t kMaxShapesTraced = 100;  // characters: an update has all parameters
constexpr int kPoisonByte = 0xFF;         // a NaN in every floating dtype

thread_local bool t_inside_kernel = false;

/// While this thread runs the kernels of a traced plan.
struct InsideKernel {
  InsideKernel() { t_inside_kernel = true; }
  ~InsideKernel() { t_inside_kernel = false; }
};

/// Runs an instruction of a plan, on a device in `stream`.
template <typename Step>
void put(Step& step, cuda::Stream stream) {
  step.args.stream = stream;
  step.kernel->run(step.args);
}

}  // namespace

/// The buffers of a plan that come from an allocator.
struct Plan::Unplanned {
  struct Buffer {
    std::byte* address = nullptr;
    std::vector<size_t> slots, workspaces;  // pointers to it, and the steps whose workspace it is
  };
  Unplanned(Allocator& from, const Plan& plan)
      : allocator(from),
        buffers(plan.report_.buffers.size()),
        taken(plan.copies_begin_ + 1),
        given(plan.copies_begin_ + 1) {
    for (const auto& [slot, buffer] : plan.arena_patches_) buffers[buffer].slots.push_back(slot);
    for (const auto& [step, buffer] : plan.workspace_patches_) buffers[buffer].workspaces.push_back(step);
    for (size_t b = 0; b < buffers.size(); ++b) {
      const PlannedBuffer& planned = plan.report_.buffers[b];
      if (planned.kind == BufferKind::kOutput) continue;
      taken[std::min(static_cast<size_t>(planned.lower), plan.copies_begin_)].push_back(b);
      given[std::min(static_cast<size_t>(planned.upper) - 1, plan.copies_begin_)].push_back(b);
    }
  }

  Allocator& allocator;
  std::vector<Buffer> buffers;
  std::vector<std::vector<size_t>> taken, given;  // at each instruction; the copies are the last one
};

Plan::Plan(const Graph& graph, const PlanOptions& options)
    : poison_(options.poison), looks_(options.check_numerics) {
  note_made(Made::kPlan);
  build_plan(graph, options, *this);
  if (options.allocator != nullptr) unplanned_ = std::make_unique<Unplanned>(*options.allocator, *this);
  count(Counter::kPlans, 1);
}

Plan::~Plan() { count(Counter::kPlans, -1); }

void Plan::bind_arena(std::byte* arena) {
  if (arena_bound_ && arena == arena_) return;
  arena_bound_ = true;
  arena_ = arena;
  const auto address_of = [&](size_t buffer) { return arena + report_.buffers[buffer].offset; };
  for (const auto& [slot, buffer] : arena_patches_) pointers_[slot] = address_of(buffer);
  for (const auto& [step, buffer] : workspace_patches_) steps_[step].args.workspace = address_of(buffer);
  for (size_t i = 0; i < output_offsets_.size(); ++i) output_addresses_[i] = arena + output_offsets_[i];
  if (poison_) std::memset(arena, kPoisonByte, report_.arena_bytes);
  if (replay_) replay_->forget();
  for (const Step& step : steps_) step.kernel->bind(step.args);
}

void Plan::rebind_input(size_t index, std::byte* address) {
  const std::byte* const end = address + input_bytes_[index];
  for (const std::span<const std::byte> updated : updated_) {
    require(end <= updated.data() || updated.data() + updated.size() <= address, ErrorCode::kInvalidArgument,
            "plan", "argument {} is the memory of a variable that the step updates; pass copy() of it",
            index);
  }
  inputs_[index] = address;
  for (size_t slot : input_slots_[index]) pointers_[slot] = address;
  for (size_t step : input_steps_[index]) steps_[step].kernel->bind(steps_[step].args);
}

void Plan::name_kernels() {
  if (!trace_names_.empty()) return;
  trace_names_.reserve(steps_.size());
  for (const Instruction& i : instructions_) {
    const std::string shapes =
        i.shapes.size() <= kMaxShapesTraced ? i.shapes : i.shapes.substr(0, kMaxShapesTraced) + "...";
    trace_names_.push_back(trace_name(TraceCategory::kKernel, i.name, {i.op, shapes, i.flops, i.bytes}));
  }
}

/// On a device, or traced.
void Plan::run_elsewhere() {
  if (unplanned_) return run_unplanned();
  if (!replay_) return run_traced();
  if (looks_) return enqueue(replay_->gpu().stream());
  replay_->run(inputs_, [this](cuda::Stream stream) { enqueue(stream); });
}

void Plan::run_unplanned() {
  Unplanned& u = *unplanned_;
  const cuda::Stream stream = replay_ ? replay_->gpu().stream() : cuda::Stream::kNone;
  const auto give = [&](size_t b) {
    std::byte*& address = u.buffers[b].address;
    if (address != nullptr) u.allocator.deallocate(address, report_.buffers[b].size_bytes);
    address = nullptr;
  };
  try {
    for (size_t now = 0; now <= copies_begin_; ++now) {
      for (const size_t b : u.taken[now]) {
        Unplanned::Buffer& buffer = u.buffers[b];
        const PlannedBuffer& planned = report_.buffers[b];
        buffer.address = static_cast<std::byte*>(u.allocator.allocate(planned.size_bytes, planned.owner));
        for (const size_t slot : buffer.slots) pointers_[slot] = buffer.address;
        for (const size_t step : buffer.workspaces) steps_[step].args.workspace = buffer.address;
      }
      const size_t end = now < copies_begin_ ? now + 1 : steps_.size();
      for (size_t i = now; i < end; ++i) {
        steps_[i].kernel->bind(steps_[i].args);
        put(steps_[i], stream);
      }
      for (const size_t b : u.given[now]) give(b);
    }
  } catch (...) {
    for (size_t b = 0; b < u.buffers.size(); ++b) give(b);
    throw;
  }
}

void Plan::record() {
  if (replay_ && !looks_ && !unplanned_)
    replay_->prepare(inputs_, [this](cuda::Stream stream) { enqueue(stream); });
}

void Plan::enqueue(cuda::Stream stream) {
  if (!after_.empty() && context_->capturing(stream)) return enqueue_side_by_side(stream);
  for (Step& step : steps_) put(step, stream);
}

/// Each instruction follows those that it waits for, and what comes after the plan all that none follows.
void Plan::enqueue_side_by_side(cuda::Stream stream) {
  using Nodes = std::vector<cuda::GraphNode>;
  const Nodes before = context_->followed(stream);
  std::vector<Nodes> ends(steps_.size());
  std::vector<bool> open(steps_.size(), true);
  const auto follow = [&](Nodes nodes) {
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    context_->follow(stream, nodes);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    Nodes nodes = after_[i].empty() ? before : Nodes();
    for (const size_t step : after_[i]) {
      nodes.insert(nodes.end(), ends[step].begin(), ends[step].end());
      open[step] = false;
    }
    follow(std::move(nodes));
    put(steps_[i], stream);
    ends[i] = context_->followed(stream);
  }
  Nodes last;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (open[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
  }
  follow(std::move(last));
}

void Plan::run_traced() {
  if (t_inside_kernel) return run_plainly();  // a loop's body, which counts as its op's kernel
  name_kernels();
  const InsideKernel inside;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const TraceSpan span(trace_names_[i]);
    steps_[i].kernel->run(steps_[i].args);
  }
}

void Plan::run_profiled(std::span<int64_t> times_ns) {
  require(!unplanned_, ErrorCode::kUnsupported, "plan",
          "its buffers come from an allocator at each run; profile a plan without one");
  if (replay_) return profile_on_device(times_ns);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const int64_t start = now_ns();
    steps_[i].kernel->run(steps_[i].args);
    times_ns[i] += now_ns() - start;
  }
}

void Plan::profile_on_device(std::span<int64_t> times_ns) {
  cuda::Context& context = replay_->gpu().context();
  const cuda::Stream stream = replay_->gpu().stream();
  const cuda::Event begin = context.create_event(true), end = context.create_event(true);
  for (size_t i = 0; i < steps_.size(); ++i) {
    context.record(begin, stream);
    put(steps_[i], stream);
    context.record(end, stream);
    context.synchronize(end);
    times_ns[i] += std::llround(context.elapsed_ns(begin, end));
  }
  context.destroy(begin);
  context.destroy(end);
}

void Plan::run_checked() {
  std::memset(arena_, kPoisonByte, report_.arena_bytes);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].kernel->run(steps_[i].args);
    if (i >= copies_begin_ && i + 1 < steps_.size()) continue;  // the copies are one moment of the plan
    const int64_t now = static_cast<int64_t>(std::min(i, copies_begin_));
    for (const PlannedBuffer& buffer : report_.buffers) {
      if (now < buffer.lower || now >= buffer.upper) continue;
      const std::byte* zone = arena_ + buffer.offset + buffer.size_bytes;
      for (size_t b = 0; b < kRedZoneBytes; ++b) {
        require(zone[b] == std::byte{kPoisonByte}, ErrorCode::kOutOfRange, instructions_[i].name,
                "wrote {} bytes past the end of {}", b + 1, buffer.owner);
      }
      if (buffer.upper == now + 1) std::memset(arena_ + buffer.offset, kPoisonByte, buffer.size_bytes);
    }
  }
}

}  // namespace isochron::graph
