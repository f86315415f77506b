"""Faults in kernels for devices of interpolation and matrices: a part of mutants_list.py."""

WEIGHTS = "backends/cuda/shape/interpolation_text.h"
MATRIX = "backends/cuda/linalg/matrix_text.h"
REFLECTIONS = "backends/cuda/linalg/reflections_text.h"
# Each row: a name, the file, the text, what takes its place, the tests that find it.
ROWS = [
    ("row-that-ends-at-an-element-takes-from-it", WEIGHTS, "spans[middle].count) > e)", "spans[middle].count) >= e)",
     "DeviceInterpolation.*"),
    ("weights-of-half-a-row", WEIGHTS, "k = threadIdx.x; k < row.count; k += kRowThreads) total",
     "k = threadIdx.x; k < kRowThreads && k < row.count; k += kRowThreads) total", "DeviceInterpolation.*"),
    ("exchanged-rows-keep-the-sign", MATRIX, "if (pivots[i] != i) own_sign = -own_sign;", "",
     "*DeviceMatri*"),
    ("sides-in-the-order-of-before", MATRIX, "order[best] = held;", "order[best] = best;", "*DeviceMatri*"),
    ("reflection-to-the-same-side", REFLECTIONS, "alpha < 0 || (alpha == 0", "alpha > 0 || (alpha == 0", "*DeviceMatri*"),
]


def faults(mutant):
    return [mutant(name, file, old, new, "ops", tests) for name, file, old, new, tests in ROWS]
