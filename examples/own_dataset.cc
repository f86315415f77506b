// A custom dataset: a CSV file becomes named tensors, `map` makes the elements that the model needs, and a
// step takes them by name.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "isochron/isochron.h"

using namespace isochron;

// What a garden thermometer might have written: temperatures in Celsius and in Fahrenheit.
std::filesystem::path write_measurements() {
  std::string text = "celsius,fahrenheit\n";
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const double celsius = 60 * rng.uniform() - 20;
    text += fmt::format("{:.2f},{:.2f}\n", celsius, celsius * 9 / 5 + 32);
  }
  const auto path = std::filesystem::temp_directory_path() / "isochron_own_dataset.csv";
  write_file_atomically(path, text);
  return path;
}

int main() {
  const auto path = write_measurements();
  const data::CsvTable table = data::read_csv(path, {.header = true});
  std::filesystem::remove(path);
  data::Dataset rows = data::from_tensor_slices({{"row", table.values}});

  // `map` takes an element, here a whole batch, and returns another one, whose names and shapes may differ.
  const auto by_name = [&](const data::Element& batch) {
    const auto column = [&](const char* name) {
      return cast(narrow(batch["row"], 1, table.column(name), 1) / 50.0, DType::kF32);
    };
    return data::Element{{"celsius", column("celsius")}, {"fahrenheit", column("fahrenheit")}};
  };
  data::Dataset batches = rows.shuffle(500).batch(10).map(by_name).prefetch();

  nn::Dense line(1);
  optim::Adam optimizer({.learning_rate = 0.1});
  train::Trainer trainer({.train = [&](const data::Element& batch) {
    const Tensor loss = nn::mean_squared_error(line(batch["celsius"]), batch["fahrenheit"]);
    optimizer.minimize(loss, line.parameters());
    return loss;
  }});
  trainer.fit(batches, {.epochs = 12});
  const double factor = line.kernel().tensor().item<double>(),
               offset = 50 * line.bias().tensor().item<double>();
  fmt::print("learned: fahrenheit = {:.3f} celsius + {:.2f}\n", factor, offset);
  return std::abs(factor - 1.8) < 0.01 && std::abs(offset - 32) < 0.1 ? 0 : 1;
}
