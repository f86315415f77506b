// Functions of the tests' libcuda.so.1 (library.cc), in addition to the driver's own.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {
struct SimulatedLibraryDevice {
  size_t total_bytes, granularity_bytes;
  int multiprocessors;
  uint64_t seed;
  int stages_pageable;  // 0: the device reads and writes memory that isn't page-locked when a copy runs
};
/// Configures the device; takes effect the next time that nobody holds its context.
void simulated_configure(const SimulatedLibraryDevice* device);
/// Like those of SimulatedControls, for the current context or, without one, the last.
int64_t simulated_calls(const char* call);
void simulated_forget_calls();
void simulated_fail(const char* call, int64_t number, int error_code);
size_t simulated_used_bytes();
/// The leftovers of destroyed contexts, such as "1 stream". Reading clears them.
const char* simulated_left_behind();
}
#pragma GCC visibility pop
