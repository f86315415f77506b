// Runs train steps of embedding tables with row-sparse gradients. bench/peers/sparse_torch.py alternates
// between this program and PyTorch. For each number read from standard input, runs that many steps and prints
// a line with their median in microseconds.
//
//   sparse_steps --optimizer sgd|adagrad|adam --tables 8 --rows 100000 --width 32 --batch 512 [--dense]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/embedding.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"

namespace {

using namespace isochron;

constexpr int kBatches = 32;  // prepared in advance

optim::Optimizer make_optimizer(const std::string& name) {
  if (name == "sgd") return optim::Sgd({.learning_rate = 0.01});
  if (name == "adagrad")
    return optim::Adagrad(
        {.learning_rate = 0.01, .initial_square_sum = 0, .epsilon = 1e-10, .epsilon_outside_root = true});
  require(name == "adam", ErrorCode::kInvalidArgument, "sparse_steps", "no optimizer '{}'", name);
  return optim::Adam({.learning_rate = 1e-3, .epsilon = 1e-8});
}

/// The same numbers as in sparse_torch.py: a linear congruential generator.
Tensor numbers(uint64_t& state, int64_t tables, int64_t batch, int64_t rows) {
  const Tensor indices = zeros({tables, batch}, DType::kI64);
  for (int64_t i = 0; i < tables * batch; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    indices.data<int64_t>()[i] = static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(rows));
  }
  return indices;
}

void run(std::map<std::string, std::string> options) {
  const int64_t tables = std::stoll(options["--tables"]), rows = std::stoll(options["--rows"]);
  const int64_t width = std::stoll(options["--width"]), batch = std::stoll(options["--batch"]);
  const bool sparse = !options.contains("--dense");
  std::deque<nn::Embedding> layers;
  std::vector<Variable> parameters;
  for (int64_t i = 0; i < tables; ++i) {
    // Constant: a step's cost doesn't depend on the values, and ten million rows are created faster this way.
    layers.emplace_back(rows, width,
                        nn::EmbeddingOptions{.initializer = nn::init::constant(0.01), .sparse = sparse});
    layers.back().build({DType::kI64, {batch}});
    parameters.push_back(layers.back().table());
  }
  optim::Optimizer optimizer = make_optimizer(options["--optimizer"]);
  const Tensor target = full({batch, width}, 1);
  auto step = capture([&](const Tensor& indices) {
    Tensor total;
    for (int64_t i = 0; i < tables; ++i) {
      const Tensor vectors = layers[static_cast<size_t>(i)](squeeze(narrow(indices, 0, i, 1), {0}));
      total = total.defined() ? total + vectors : vectors;
    }
    const Tensor loss = mean(square(total - target));
    optimizer.minimize(loss, parameters);
    return loss;
  });
  uint64_t state = 1;
  std::vector<Tensor> batches;
  for (int i = 0; i < kBatches; ++i) batches.push_back(numbers(state, tables, batch, rows));
  float loss = 0;
  size_t next = 0;
  for (int count = 0; std::cin >> count;) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      loss = step(batches[next++ % kBatches]).item<float>();
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + count / 2, times.end());
    std::printf("%.3f %.9g\n", times[static_cast<size_t>(count / 2)], loss);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--optimizer", "adam"},
                                                {"--tables", "8"},
                                                {"--rows", "100000"},
                                                {"--width", "32"},
                                                {"--batch", "512"}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    options[name] = name == "--dense" || i + 1 == argc ? "" : argv[++i];
  }
  try {
    run(std::move(options));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
