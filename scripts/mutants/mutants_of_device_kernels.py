"""Faults in kernels for devices of interpolation: a part of mutants_list.py."""

WEIGHTS = "backends/cuda/shape/interpolation_text.h"
# Each row: a name, the file, the text, what takes its place, the tests that find it.
ROWS = [
    ("row-that-ends-at-an-element-takes-from-it", WEIGHTS, "spans[middle].count) > e)", "spans[middle].count) >= e)",
     "DeviceInterpolation.*"),
    ("weights-of-half-a-row", WEIGHTS, "k = threadIdx.x; k < row.count; k += kRowThreads) total",
     "k = threadIdx.x; k < kRowThreads && k < row.count; k += kRowThreads) total", "DeviceInterpolation.*"),
]


def faults(mutant):
    return [mutant(name, file, old, new, "ops", tests) for name, file, old, new, tests in ROWS]
