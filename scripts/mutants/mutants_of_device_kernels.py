"""Faults in kernels for devices of interpolation, matrices and debugging: a part of mutants_list.py."""

WEIGHTS = "backends/cuda/shape/interpolation_text.h"
MATRIX = "backends/cuda/linalg/matrix_text.h"
REFLECTIONS = "backends/cuda/linalg/reflections_text.h"
DEBUG = "backends/cuda/control/debug_text.h"
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
    ("one-block-counted-alone", DEBUG, "a.count + b.count", "a.count > 0 ? a.count : b.count", "CheckNumerics.*"),
    ("lines-in-any-order", "graph/program/plan_builder.cc", "push_back({kBeside, 0, 1, true})", "push_back({kBeside, 0, 1, false})",
     "Print.LinesOfADevice*"),
]


def faults(mutant):
    return [mutant(name, file, old, new, "ops", tests) for name, file, old, new, tests in ROWS]
