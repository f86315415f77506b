#include "isochron/graph/program/allocating_executor.h"

#include <algorithm>

#include "isochron/memory/allocators/allocator.h"

namespace isochron::graph {

AllocatingExecutor::AllocatingExecutor(Allocator& allocator, const Program& program,
                                       std::unique_ptr<Executor> device, cuda::Stream stream)
    : allocator_(allocator),
      device_(std::move(device)),
      stream_(stream),
      buffers_(program.report.buffers.size()),
      taken_(program.copies_begin + 1),
      given_(program.copies_begin + 1) {
  for (const Program::Patch& patch : program.arena_patches) buffers_[patch.buffer].pointers.push_back(patch);
  for (const Program::Patch& patch : program.workspace_patches)
    buffers_[patch.buffer].workspaces.push_back(patch.slot);
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const PlannedBuffer& planned = program.report.buffers[b];
    if (planned.kind == BufferKind::kOutput) continue;
    taken_[std::min(static_cast<size_t>(planned.lower), program.copies_begin)].push_back(b);
    given_[std::min(static_cast<size_t>(planned.upper) - 1, program.copies_begin)].push_back(b);
  }
}

void AllocatingExecutor::take(Program& program, size_t b) {
  Buffer& buffer = buffers_[b];
  const PlannedBuffer& planned = program.report.buffers[b];
  buffer.address = static_cast<std::byte*>(allocator_.allocate(planned.size_bytes, planned.owner));
  for (const Program::Patch& patch : buffer.pointers)
    program.pointers[patch.slot] = buffer.address + patch.offset;
  for (const size_t step : buffer.workspaces) program.steps[step].args.workspace = buffer.address;
}

void AllocatingExecutor::give_back(const Program& program, size_t b) {
  std::byte*& address = buffers_[b].address;
  if (address != nullptr) allocator_.deallocate(address, program.report.buffers[b].size_bytes);
  address = nullptr;
}

void AllocatingExecutor::run(Program& program) {
  try {
    for (size_t now = 0; now <= program.copies_begin; ++now) {
      for (const size_t b : taken_[now]) take(program, b);
      const size_t end = now < program.copies_begin ? now + 1 : program.steps.size();
      for (size_t i = now; i < end; ++i) {
        Program::Step& step = program.steps[i];
        step.kernel->bind(step.args);
        step.args.stream = stream_;
        program.run_step(i);
      }
      for (const size_t b : given_[now]) give_back(program, b);
    }
  } catch (...) {
    for (size_t b = 0; b < buffers_.size(); ++b) give_back(program, b);
    throw;
  }
}

void AllocatingExecutor::profile(Program&, std::span<int64_t>) {
  fail(ErrorCode::kUnsupported, "plan",
       "its buffers come from an allocator at each run; profile a plan without one");
}

}  // namespace isochron::graph
