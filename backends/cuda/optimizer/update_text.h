// Optimizer updates of generated kernels: all parameters of a call in one launch. Behind element_prelude(),
// update_numbers.h and update_functors-inl.h in their text.
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

/// This thread's part of the elements from `begin` on. `at`: parameter, states, gradient, and where the new
/// parameter and the new states go.
template <template <class> class RuleOf, typename T>
ISOCHRON_SCALAR void update_elements(const UpdateNumbers& numbers, void* const* at, unsigned long long begin,
                                     unsigned long long elems) {
  using M = ScalarMath<T>;
  using Rule = RuleOf<M>;
  const Rule rule(numbers);
  const T parameter_factor = M::set(numbers.parameter_factor), factor = M::set(numbers.gradient_factor);
  for (unsigned long long i = begin + threadIdx.x; i < begin + kUpdateBlock && i < elems;
       i += kUpdateThreads) {
    T s[Rule::kStates + 1];
    for (int k = 0; k < Rule::kStates; ++k) s[k] = static_cast<const T*>(at[1 + k])[i];
    const T p = rule(static_cast<const T*>(at[0])[i] * parameter_factor,
                     static_cast<const T*>(at[1 + Rule::kStates])[i] * factor, s);
    void* const* to = at + 2 + Rule::kStates;
    static_cast<T*>(to[0])[i] = p;
    for (int k = 0; k < Rule::kStates; ++k) static_cast<T*>(to[1 + k])[i] = s[k];
  }
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

/// The last block that is done counts the step, for until then others may read it where the count goes.
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
