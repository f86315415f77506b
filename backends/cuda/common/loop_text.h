// Operations of loops between their bodies. Comes after element_prelude() in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_LOOP_TEXT_H_
#define ISOCHRON_OPS_CUDA_LOOP_TEXT_H_

extern "C" __global__ void set_number(long long* number, long long value) { *number = value; }

extern "C" __global__ void count_iteration(long long* iteration) { ++*iteration; }

/// Whether a loop with a bound may continue.
extern "C" __global__ void test_bound(const long long* iteration, long long bound, bool* continues) {
  *continues = *iteration < bound;
}

/// Copies to row `*index` of a stack of rows of this many bytes.
extern "C" __global__ void save_row(const unsigned char* row, unsigned char* stack, const long long* index,
                                    unsigned long long bytes) {
  unsigned char* const to = stack + static_cast<unsigned long long>(*index) * bytes;
  const unsigned long long stride = gridDim.x * static_cast<unsigned long long>(blockDim.x);
  const unsigned long long first = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
  if (bytes % 4 == 0) {
    for (unsigned long long i = first; i < bytes / 4; i += stride)
      reinterpret_cast<unsigned*>(to)[i] = reinterpret_cast<const unsigned*>(row)[i];
  } else {
    for (unsigned long long i = first; i < bytes; i += stride) to[i] = row[i];
  }
}

#endif
