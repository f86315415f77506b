#include "isochron/graph/program/program.h"

#include "isochron/core/base/error.h"

namespace isochron::graph {

void Program::bind_arena(std::byte* arena) {
  const auto address_of = [&](const Patch& patch) {
    return arena + report.buffers[patch.buffer].offset + patch.offset;
  };
  for (const Patch& patch : arena_patches) pointers[patch.slot] = address_of(patch);
  for (const Patch& patch : workspace_patches) steps[patch.slot].args.workspace = address_of(patch);
  for (size_t i = 0; i < output_offsets.size(); ++i) output_addresses[i] = arena + output_offsets[i];
  for (const Step& step : steps) step.kernel->bind(step.args);
}

void Program::throw_located(const Error& error, const Instruction& instruction) {
  const size_t scope = instruction.name.rfind('/');
  if (scope == std::string::npos || error.where() != instruction.op) throw;
  throw Error(error.code(), instruction.name.substr(0, scope + 1) + error.where(), std::string(error.text()));
}

void Program::bind_input(size_t index, std::byte* address) {
  const std::byte* const end = address + input_bytes[index];
  for (const std::span<const std::byte> memory : updated) {
    require(end <= memory.data() || memory.data() + memory.size() <= address, ErrorCode::kInvalidArgument,
            "plan", "argument {} is the memory of a variable that the step updates; pass copy() of it",
            index);
  }
  inputs[index] = address;
  for (size_t slot : input_slots[index]) pointers[slot] = address;
  for (size_t step : input_steps[index]) steps[step].kernel->bind(steps[step].args);
}

}  // namespace isochron::graph
