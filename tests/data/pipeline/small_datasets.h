// Datasets of a few numbers, and what an epoch of one gives.
#pragma once

#include <numeric>
#include <vector>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/stages/combine.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {

inline Tensor numbers(int64_t rows) {
  const Tensor tensor = empty({DType::kI64, {rows}});
  std::iota(tensor.data<int64_t>(), tensor.data<int64_t>() + rows, 0);
  return tensor;
}

inline Dataset rows(int64_t count, const char* name = "x") {
  return Dataset(Element{{name, numbers(count)}});
}

inline std::vector<std::vector<double>> epoch_of(Dataset& dataset, int tensor = 0) {
  std::vector<std::vector<double>> result;
  for (const Element& element : dataset) result.push_back(element[tensor].to_vector());
  return result;
}
inline std::vector<double> numbers_of(Dataset dataset, int tensor = 0) {
  std::vector<double> result;
  for (const auto& list : epoch_of(dataset, tensor)) result.insert(result.end(), list.begin(), list.end());
  return result;
}

inline int64_t value(const Element& element) { return element["x"].item<int64_t>(); }

/// f32 (n): 1, 2, ..., n, for n = 1, 2, ..., count.
inline Dataset ragged(int64_t count) {
  return from_generator({"x"}, {spec_of(DType::kF32, {kAnyExtent})}, [count](uint64_t) {
    return [count, n = int64_t{0}](ElementBuffer& buffer) mutable {
      if (n == count) return false;
      ++n;
      auto* to = reinterpret_cast<float*>(buffer.room(0, {n}));
      std::iota(to, to + n, 1.0f);
      return true;
    };
  });
}

}  // namespace isochron::data
