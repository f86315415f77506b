"""Faults in kernels for devices that sort, scan and add up by index: a part of mutants_list.py."""

SORT, SCAN = "backends/cuda/reduction/sort_text.h", "backends/cuda/reduction/scan_text.h"
INDEXING, UPDATE = "backends/cuda/indexing/indexing_text.h", "backends/cuda/texts/update_text.h"
# Each row: a name, the file, the text, what takes its place, the program and its tests that find it.
ROWS = [
    ("zeros-in-two-orders", SORT, "bits_of(x == 0 ? 0.0f : x)", "bits_of(x)", "ops", "DeviceSorting.*"),
    ("runs-merged-from-the-second", SORT, "const Wide second = fewer(first + run, s.count);",
     "const Wide second = fewer(first + run / 2, s.count);", "ops", "DeviceSorting.*"),
    ("as-many-kept-of-a-line-as-of-a-tile", "backends/cuda/reduction/line_sort.cc", "std::min(sort.kept, 2 * run)",
     "std::min<int64_t>(sort.kept, kSortTile)", "ops", "DeviceSorting.*"),
    ("chunks-scanned-alone", SCAN, "  carry = Scan::of(carry, all);", "  carry = all;", "ops",
     "DeviceCumulative.*"),
    ("parts-scanned-alone", SCAN, "  if (!kTotals && part > 0) {", "  if (false) {", "ops", "DeviceCumulative.*"),
    ("overflow-times-zero", SCAN, "? product : before * (1 / factors.product);", "? product : product;", "ops",
     "DeviceCumulative.WhatOverflows*"),
    ("first-of-equal-extremes", SCAN, "kLargest ? later >= before", "kLargest ? later > before", "ops", "DeviceCumulative.*"),
    ("padded-rows-counted", INDEXING, "return entry.before(Entry::last()) && (", "return (", "optim", "DeviceRowUpdates.*"),
    ("runs-of-four", INDEXING, "k < count && entries[k].key() == key; k += kAtOnce", "k < first + kAtOnce; k += kAtOnce", "ops",
     "DeviceAlongAxis.*"),
    ("mean-of-a-padded-bag", INDEXING, "    if (row == padding) continue;\n    const Sum x = widen(table[row * width]);\n    sum +=",
     "    const Sum x = widen(table[row * width]);\n    sum +=", "ops", "DeviceEmbeddingBag.*"),
    ("rows-taken-for-their-places", UPDATE, "static_cast<unsigned long long>(rows[i / row_elems])", "i / row_elems", "optim",
     "DeviceRowUpdates.*"),
    ("a-sum-in-every-level", UPDATE, "const bool takes = !set && !placed;", "const bool takes = !set;", "optim",
     "DeviceRowUpdates.ATree*"),
]


def faults(mutant):
    return [mutant(name, file, old, new, program, tests) for name, file, old, new, program, tests in ROWS]
