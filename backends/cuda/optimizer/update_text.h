// Optimizer updates of generated kernels: all parameters of a call in one launch. Comes after
// element_prelude(), update_numbers.h and update_functors-inl.h in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_UPDATE_TEXT_H_
#define ISOCHRON_OPS_CUDA_UPDATE_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

template <unsigned kCount>
struct Addresses {
  void* at[kCount];
};

/// Which of `count` parameters a block works on, by the first block of each.
ISOCHRON_SCALAR unsigned parameter_of(const unsigned* first_block, unsigned count, unsigned block) {
  unsigned low = 0, high = count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// This thread's part of the elements [begin, end), kEach at a time.
template <template <class> class RuleOf, typename T, int kEach>
ISOCHRON_SCALAR void update_parts(const UpdateNumbers& numbers, void* const* at, unsigned long long begin,
                                  unsigned long long end) {
  using M = ScalarMath<T>;
  using Rule = RuleOf<M>;
  using Part = Pack<T, kEach>;
  const Rule rule(numbers);
  const T parameter_factor = M::set(numbers.parameter_factor), factor = M::set(numbers.gradient_factor);
  void* const* to = at + 2 + Rule::kStates;
  for (unsigned long long i = begin / kEach + threadIdx.x; i < end / kEach; i += kUpdateThreads) {
    Part parameter = static_cast<const Part*>(at[0])[i];
    const Part gradient = static_cast<const Part*>(at[1 + Rule::kStates])[i];
    Part states[Rule::kStates + 1];
    for (int k = 0; k < Rule::kStates; ++k) states[k] = static_cast<const Part*>(at[1 + k])[i];
    for (int e = 0; e < kEach; ++e) {
      T s[Rule::kStates + 1];
      for (int k = 0; k < Rule::kStates; ++k) s[k] = states[k].of[e];
      parameter.of[e] = rule(parameter.of[e] * parameter_factor, gradient.of[e] * factor, s);
      for (int k = 0; k < Rule::kStates; ++k) states[k].of[e] = s[k];
    }
    static_cast<Part*>(to[0])[i] = parameter;
    for (int k = 0; k < Rule::kStates; ++k) static_cast<Part*>(to[1 + k])[i] = states[k];
  }
}

/// This thread's part of a block's elements from `begin` on. `at`: parameter, states, gradient, and where the
/// new parameter and the new states go.
template <template <class> class RuleOf, typename T>
ISOCHRON_SCALAR void update_elements(const UpdateNumbers& numbers, void* const* at, unsigned long long begin,
                                     unsigned long long elems) {
  constexpr int kTensors = 3 + 2 * RuleOf<ScalarMath<T>>::kStates;
  constexpr int kWide = 16 / sizeof(T);
  const unsigned long long block_end = begin + kUpdateBlock;
  const unsigned long long end = block_end < elems ? block_end : elems;
  bool aligned = true;
  for (int k = 0; k < kTensors; ++k)
    aligned = aligned && reinterpret_cast<unsigned long long>(at[k]) % 16 == 0;
  const unsigned long long wide_end = aligned ? end - end % kWide : begin;
  update_parts<RuleOf, T, kWide>(numbers, at, begin, wide_end);
  update_parts<RuleOf, T, 1>(numbers, at, wide_end, end);
}

/// This block's part of the listed rows of a table, which has rows of `row_elems` elements. `values`: their
/// gradients, `elems` elements in all; `rows`: their numbers.
template <template <class> class RuleOf, typename T>
ISOCHRON_SCALAR void update_listed_rows(const UpdateNumbers& numbers, T* parameter, T* const* states,
                                        const T* values, const long long* rows, unsigned long long row_elems,
                                        unsigned long long elems) {
  using M = ScalarMath<T>;
  using Rule = RuleOf<M>;
  const Rule rule(numbers);
  const T parameter_factor = M::set(numbers.parameter_factor), factor = M::set(numbers.gradient_factor);
  const unsigned long long begin = blockIdx.x * static_cast<unsigned long long>(kUpdateBlock);
  for (unsigned long long i = begin + threadIdx.x; i < begin + kUpdateBlock && i < elems;
       i += kUpdateThreads) {
    const unsigned long long row = static_cast<unsigned long long>(rows[i / row_elems]);
    const unsigned long long at = row * row_elems + i % row_elems;
    T s[Rule::kStates + 1];
    for (int k = 0; k < Rule::kStates; ++k) s[k] = states[k][at];
    parameter[at] = rule(parameter[at] * parameter_factor, values[i] * factor, s);
    for (int k = 0; k < Rule::kStates; ++k) states[k][at] = s[k];
  }
}

/// A level of tree_accumulate: whether it holds a sum says `set`. It is added to `total` where that goes on,
/// and takes it where there is room; `placed`: a level took it, or none has to.
template <typename T>
ISOCHRON_SCALAR void add_level(T& total, const T& before, T& after, bool set, bool due, bool& placed) {
  const T held = before;
  if (set && (due || !placed)) total += held;
  const bool takes = !set && !placed;
  after = takes ? total : held;
  placed = placed || takes;
}

/// The last block to finish increments the step count, because other blocks may read the count until then.
ISOCHRON_SCALAR void count_step(const long long* step, long long* counted, unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(arrived, 1u) != gridDim.x - 1) return;
  *arrived = 0;
  *counted = *step + 1;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
