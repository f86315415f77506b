// Uses the installed package as an outside program would: includes every public header, and makes calls
// that must link and return the right results.
#include <cstdio>
#include <vector>

#include "all_headers.h"

double share_of_first_loss();  // one_include.cc

/// The loss of a captured step that trains y = 2 x, after `steps` of them.
double trained_loss(int steps) {
  using namespace isochron;
  nn::Dense model(1);
  optim::Sgd optimizer({.learning_rate = 0.1});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  const Tensor x = from_vector({4, 1}, {-1, 0, 1, 2});
  const Tensor y = from_vector({4, 1}, {-2, 0, 2, 4});
  double loss = 0;
  for (int i = 0; i < steps; ++i) loss = step(x, y).item<float>();
  return loss;
}

int main() {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const isochron::TensorSpec spec{isochron::DType::kF32, isochron::Shape({2, 3})};
  const isochron::Tensor tensor = isochron::Tensor::from_external(values.data(), spec);
  if (!(trained_loss(100) < 1e-3)) return 1;
  if (!(share_of_first_loss() < 0.01)) return 1;
  if (tensor.elems() != 6 || tensor.to_vector().back() != 6.0) return 1;
  try {
    isochron::broadcast_shapes({2, 3}, {2, 4}, "consumer");
  } catch (const isochron::Error& error) {
    std::printf("%s %s\n", tensor.str().c_str(), error.what());
    return error.code() == isochron::ErrorCode::kShapeMismatch ? 0 : 1;
  }
  return 1;
}
