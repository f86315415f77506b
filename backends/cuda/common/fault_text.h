// How kernels say that they can't go on; behind element_prelude() in their text.
#ifndef ISOCHRON_OPS_CUDA_FAULT_TEXT_H_
#define ISOCHRON_OPS_CUDA_FAULT_TEXT_H_

/// The device prints a line, of a format and at least one argument, and stops for good.
#ifdef __CUDACC_RTC__
#define ISOCHRON_FAULT(format, ...)   \
  do {                                \
    printf(format "\n", __VA_ARGS__); \
    asm("trap;");                     \
  } while (false)
#else
#define ISOCHRON_FAULT(format, ...)                                                                \
  do {                                                                                             \
    using isochron::ops::element::host_fault;                                                      \
    if (*host_fault == 0) __builtin_snprintf(host_fault, sizeof(host_fault), format, __VA_ARGS__); \
  } while (false)
#endif

#endif
