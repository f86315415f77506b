"""Faults in what runs on devices: a part of mutants_list.py."""

TILES, EXECUTOR = "backends/cuda/matmul/matmul_text.h", "graph/program/device_executor.cc"
EAGER = "graph/capture/apply_eager.cc"
SORT, SCAN = "backends/cuda/reduction/sort_text.h", "backends/cuda/reduction/scan_text.h"
INDEXING, UPDATE = "backends/cuda/indexing/indexing_text.h", "backends/cuda/optimizer/update_text.h"
WEIGHTS, MATRIX = "backends/cuda/shape/interpolation_text.h", "backends/cuda/linalg/matrix_text.h"
REFLECTIONS, DEBUG = "backends/cuda/linalg/reflections_text.h", "backends/cuda/control/debug_text.h"
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
    ("trials-beyond-the-memory-limit", "core/cuda/kernel_module.cc", "  if (allocate_) return allocate_(bytes);\n",
     "", "ops", "DeviceEdges.KernelsAreTried*"),
    ("inputs-that-are-not-copied", EXECUTOR,
     "    cuda::copy_within(gpu_->context(), copied_[i], program.inputs[i], program.input_bytes[i], gpu_->stream());",
     "    static_cast<void>(i);", "optim", "DeviceTraining.BatchSlots*"),
    ("launches-that-do-not-block", EXECUTOR, "if (blocking_ && !capturing)", "if (blocking_ && capturing)", "optim",
     "DeviceTraining.LaunchBlocking*"),
    ("results-of-constants-stay-on-the-cpu", EAGER,
     "if (!inputs.empty() && !op.random && std::ranges::all_of(inputs, constant)) {",
     "if (inputs.empty() && !op.random && std::ranges::all_of(inputs, constant)) {", "optim",
     "DeviceEager.*"),
    ("variables-are-brought-without-a-word", EAGER, "input.is_value() || input.storage()->constant() ||", "true ||", "optim",
     "DeviceEager.*"),
    ("eager-kernels-are-made-anew", EAGER, "if (!entry || !entry->serves(op, place, inputs, attributes))", "if (true)",
     "optim", "DeviceEager.*"),
    ("growth-of-a-device-pool-is-not-counted", "memory/cuda/device_allocators.cc",
     "    ++stats_.system_allocations;\n    count(Counter::kSystemAllocations, 1);\n",
     "    ++stats_.system_allocations;\n", "memory", "DeviceAllocators.*"),
    ("zeros-in-two-orders", SORT, "bits_of(x == 0 ? 0.0f : x)", "bits_of(x)", "ops", "DeviceSorting.*"),
    ("runs-merged-from-the-second", SORT, "const Wide second = fewer(first + run, s.count);",
     "const Wide second = fewer(first + run / 2, s.count);", "ops", "DeviceSorting.*"),
    ("as-many-kept-of-a-line-as-of-a-tile", "backends/cuda/reduction/line_sort.cc", "std::min(sort.kept, 2 * run)",
     "std::min<int64_t>(sort.kept, kSortTile)", "ops", "DeviceSorting.*"),
    ("chunks-scanned-alone", SCAN, "  carry = Scan::of(carry, all);", "  carry = all;", "ops",
     "DeviceCumulative.*"),
    ("parts-scanned-alone", SCAN, "  if (!kTotals && part > 0) {", "  if (false) {", "ops", "DeviceCumulative.*"),
    ("products-that-come-back-from-infinity", SCAN, "if (factors.high > 1025 - e) return", "if (false) return", "ops",
     "DeviceCumulative.WhatOverflows*"),
    ("exponents-of-the-later-factors", SCAN, "const int high = exponent_sum(a.e, b.high)", "const int high = b.high", "ops",
     "DeviceCumulative.WhatOverflows*"),
    ("first-of-equal-extremes", SCAN, "kLargest ? later >= before", "kLargest ? later > before", "ops", "DeviceCumulative.*"),
    ("padded-rows-counted", INDEXING, "return entry.before(Entry::last()) && (", "return (", "optim", "DeviceRowUpdates.*"),
    ("runs-of-four", INDEXING, "k < count && entries[k].key() == key; k += kAtOnce", "k < first + kAtOnce; k += kAtOnce", "ops",
     "DeviceAlongAxis.*"),
    ("mean-of-a-padded-bag", INDEXING, "    if (row == padding) continue;\n    const Sum x = widen(table[row * width]);\n    sum +=",
     "    const Sum x = widen(table[row * width]);\n    sum +=", "ops", "DeviceEmbeddingBag.*"),
    ("rows-taken-for-their-places", UPDATE, "static_cast<unsigned long long>(rows[i / row_elems])", "i / row_elems", "optim",
     "DeviceRowUpdates.*"),
    ("levels-left-out-at-the-end", UPDATE, "if (set && (due || !placed))", "if (set && !placed)", "optim",
     "DeviceRowUpdates.ATree*"),
    ("row-that-ends-at-an-element-takes-from-it", WEIGHTS, "spans[middle].count) > e)", "spans[middle].count) >= e)",
     "ops", "DeviceInterpolation.*"),
    ("weights-of-half-a-row", WEIGHTS, "k = threadIdx.x; k < row.count; k += kRowThreads) total",
     "k = threadIdx.x; k < kRowThreads && k < row.count; k += kRowThreads) total", "ops", "DeviceInterpolation.*"),
    ("exchanged-rows-keep-the-sign", MATRIX, "if (pivots[i] != i) own_sign = -own_sign;", "",
     "ops", "*DeviceMatri*"),
    ("sides-in-the-order-of-before", MATRIX, "order[best] = held;", "order[best] = best;", "ops", "*DeviceMatri*"),
    ("reflection-to-the-same-side", REFLECTIONS, "alpha < 0 || (alpha == 0", "alpha > 0 || (alpha == 0", "ops", "*DeviceMatri*"),
    ("one-block-counted-alone", DEBUG, "a.count + b.count", "a.count > 0 ? a.count : b.count", "ops", "CheckNumerics.*"),
    ("lines-in-any-order", "graph/program/plan_builder.cc", "push_back({kBeside, 0, 1, true})", "push_back({kBeside, 0, 1, false})",
     "ops", "Print.LinesOfADevice*"),
]


def faults(mutant):
    return [mutant(*row) for row in ROWS]
