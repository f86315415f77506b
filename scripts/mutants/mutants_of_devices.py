"""Faults in what runs on devices: a part of mutants_list.py."""

TILES, EXECUTOR = "backends/cuda/texts/matmul_text.h", "graph/program/device_executor.cc"
EAGER = "graph/capture/apply_eager.cc"
# Each row: a name, the file, the text, what takes its place, the program and its tests that find it.
ROWS = [
    ("tensor-core-tiles-filled-while-they-are-read", TILES, "p += kDepth, turn ^= 1) {\n    of_a",
     "p += kDepth) {\n    of_a", "ops", "DeviceProducts.*:DeviceRaces.Products*"),
    ("fragments-of-other-rows", TILES, "row + r * 16 + part % 2 * 8", "row + r * 16 + part / 2 * 8", "ops",
     "DeviceProducts.TensorCores*"),
    ("results-of-other-columns", TILES, "column + s * 8 + word * 2 + part % 2", "column + s * 8 + word + part % 2 * 4",
     "ops", "DeviceProducts.TensorCores*"),
    ("pairs-beyond-the-end", TILES, "at < extent && from + e < end ?", "at < extent && from < end ?", "ops",
     "DeviceProducts.TensorCores*"),
    ("trials-beyond-the-memory-limit", "backends/cuda/library_kernel.cc", "all <= module.available_bytes()",
     "all <= SIZE_MAX", "ops", "DeviceEdges.KernelsAreTried*"),
    ("inputs-that-are-not-copied", EXECUTOR,
     "    cuda::copy_within(gpu_->context(), copied_[i], program.inputs[i], program.input_bytes[i], gpu_->stream());",
     "    static_cast<void>(i);", "optim", "DeviceTraining.BatchSlots*"),
    ("launches-that-do-not-block", EXECUTOR, "if (blocking_ && !capturing)", "if (blocking_ && capturing)", "optim",
     "DeviceTraining.LaunchBlocking*"),
    ("results-of-constants-stay-on-the-cpu", EAGER,
     "if (!inputs.empty() && !op.random && std::ranges::all_of(inputs, constant)) {", "if (false) {", "optim",
     "DeviceEager.*"),
    ("variables-are-brought-without-a-word", EAGER, "input.is_value() || input.storage()->constant() ||", "true ||", "optim",
     "DeviceEager.*"),
    ("eager-kernels-are-made-anew", EAGER, "if (!entry || !entry->serves(op, place, inputs, attributes))", "if (true)",
     "optim", "DeviceEager.*"),
    ("growth-of-a-device-pool-is-not-counted", "memory/cuda/device_allocators.cc",
     "    ++stats_.system_allocations;\n    count(Counter::kSystemAllocations, 1);\n",
     "    ++stats_.system_allocations;\n", "memory", "DeviceAllocators.*"),
]


def faults(mutant):
    return [mutant(*row) for row in ROWS]
