// Uses the installed package as a stranger would: every public header, and calls
// that must link and give their results.
#include <cstdio>
#include <vector>

#include "all_headers.h"

int main() {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const isochron::TensorSpec spec{isochron::DType::kF32, isochron::Shape({2, 3})};
  const isochron::Tensor tensor = isochron::Tensor::from_external(values.data(), spec);
  if (tensor.elems() != 6 || tensor.to_vector().back() != 6.0) return 1;
  try {
    isochron::broadcast_shapes({2, 3}, {2, 4}, "consumer");
  } catch (const isochron::Error& error) {
    std::printf("%s %s\n", tensor.str().c_str(), error.what());
    return error.code() == isochron::ErrorCode::kShapeMismatch ? 0 : 1;
  }
  return 1;
}
