#include "isochron/backends/cpu/common/onednn.h"

#include <omp.h>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/library_call.h"
#include "isochron/core/process/team.h"
#include "isochron/core/process/threads.h"

namespace isochron::ops::onednn {
namespace {

constexpr size_t kAlignment = 64;
// Room for the code that the library generates and its data: it needs at most a few MB.
constexpr size_t kRoomBytes = size_t{16} << 20;

dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

void require_room(std::string_view where) { require_address_space(kRoomBytes, where); }

void use_threads(int threads) {
  require(threads == 1 || full_team(), ErrorCode::kUnsupported, "onednn",
          "a kernel prepared for {} threads was called within an OpenMP parallel region, where it would have "
          "one; call it outside, or set_compute_threads(1) before it is prepared",
          threads);
  make_team(threads);
  omp_set_num_threads(threads);
}

BoundPrimitive::BoundPrimitive(dnnl::primitive primitive, std::vector<Operand> operands,
                               const dnnl::memory::desc& scratchpad, int threads)
    : threads_(threads) {
  use_threads(threads_);
  thread_stream();
  translated("onednn", [&] {
    Step main{std::move(primitive), {}};
    std::vector<Step> after;
    for (const Operand& operand : operands) {
      const auto source = operand.port == Port::kInput ? Bound::Source::kInput : Bound::Source::kOutput;
      const dnnl_memory_t user = add(operand.user, source, static_cast<size_t>(operand.index));
      if (operand.own == operand.user) {
        main.arguments.push_back({operand.argument, user});
        continue;
      }
      const dnnl_memory_t own = add(operand.own, Bound::Source::kWorkspace, place(operand.own));
      main.arguments.push_back({operand.argument, own});
      const bool input = operand.port == Port::kInput;
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::reorder::primitive_desc reorder(cpu_engine(), input ? operand.user : operand.own,
                                                  cpu_engine(), input ? operand.own : operand.user,
                                                  attributes);
      Step step{dnnl::reorder(reorder),
                {{DNNL_ARG_FROM, input ? user : own}, {DNNL_ARG_TO, input ? own : user}}};
      if (const auto scratch = reorder.scratchpad_desc(); scratch.get_size() > 0) {
        step.arguments.push_back(
            {DNNL_ARG_SCRATCHPAD, add(scratch, Bound::Source::kWorkspace, place(scratch))});
      }
      (input ? steps_ : after).push_back(std::move(step));
    }
    if (scratchpad.get_size() > 0) {
      main.arguments.push_back(
          {DNNL_ARG_SCRATCHPAD, add(scratchpad, Bound::Source::kWorkspace, place(scratchpad))});
    }
    steps_.push_back(std::move(main));
    for (Step& step : after) steps_.push_back(std::move(step));
  });
}

size_t BoundPrimitive::place(const dnnl::memory::desc& desc) {
  const size_t offset = workspace_bytes_;
  workspace_bytes_ += align_up(desc.get_size(), kAlignment);
  return offset;
}

dnnl_memory_t BoundPrimitive::add(const dnnl::memory::desc& desc, Bound::Source source, size_t index) {
  bound_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), source, index});
  return bound_.back().memory.get();
}

void BoundPrimitive::bind(const graph::KernelArgs& args) {
  for (Bound& bound : bound_) {
    std::byte* address = bound.source == Bound::Source::kInput    ? args.inputs[bound.index]
                         : bound.source == Bound::Source::kOutput ? args.outputs[bound.index]
                                                                  : args.workspace + bound.index;
    dnnl_memory_set_data_handle(bound.memory.get(), address);
  }
}

void BoundPrimitive::run() {
  use_threads(threads_);
  const LibraryCall call;
  for (const Step& step : steps_) {
    const dnnl_status_t status =
        dnnl_primitive_execute(step.primitive.get(), thread_stream().get(),
                               static_cast<int>(step.arguments.size()), step.arguments.data());
    require_success(status, "onednn", "a primitive");
  }
}

}  // namespace isochron::ops::onednn
