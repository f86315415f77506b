// Does my step allocate? A hand-written loop, sealed after warm-up: the first step that allocates, traces
// again or opens a file ends with an error that shows where. Here step 7 gets a batch of a different size.
#include <fmt/format.h>

#include <vector>

#include "isochron/apps/allocation_counter.h"
#include "isochron/isochron.h"

using namespace isochron;

using Step = Captured<Tensor (*)(const Tensor&, const Tensor&)>;

/// One training step, in a separate function as in a real program.
[[gnu::noinline]] float train_on(Step& step, const Tensor& features, const Tensor& targets) {
  return step(features, targets).item<float>();
}

nn::Sequential& model() {
  static nn::Sequential instance(nn::Dense(10, nn::Activation::kRelu), nn::Dense(1));
  return instance;
}
optim::Adam& optimizer() {
  static optim::Adam instance;
  return instance;
}

int main() {
  const bool heap_seen = allocations_counted();  // counts heap, threads and files; not under sanitizers
  Step step = capture(+[](const Tensor& x, const Tensor& y) {
    const Tensor loss = nn::mean_squared_error(model()(x), y);
    optimizer().minimize(loss, model().parameters());
    return loss;
  });
  const Tensor features = ones({32, 100}), targets = ones({32, 1});
  const Tensor partial_features = ones({8, 100}), partial_targets = ones({8, 1});
  for (int i = 0; i < 3; ++i) train_on(step, features, targets);  // warm-up

  Seal seal;
  int64_t done = 0;
  try {
    for (int64_t number = 1; number <= 10; ++number) {
      {
        const SealedSection section(&seal);
        const bool partial = number == 7;
        train_on(step, partial ? partial_features : features, partial ? partial_targets : targets);
      }
      seal.check("my loop", number);
      done = number;
    }
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    return done == 6 && error.code() == ErrorCode::kSealed ? 0 : 1;
  }
  fmt::print("no error, and the heap {} seen\n", heap_seen ? "was" : "was not");
  return 1;
}
