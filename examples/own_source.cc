// A data source of your own, as a map-style Dataset of PyTorch with __len__ and __getitem__: windows of a
// file of samples, read when they are needed. Shuffling, batching, prefetching and resuming come with it.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "isochron/isochron.h"

using namespace isochron;

constexpr int64_t kLength = 8;  // samples of a window

class SampleWindows final : public data::RowSource {
 public:
  explicit SampleWindows(std::filesystem::path file)
      : file_(std::move(file)),
        windows_(static_cast<int64_t>(std::filesystem::file_size(file_) / sizeof(float)) - kLength) {}

  const data::Layout& layout() const override { return layout_; }
  int64_t rows() const override { return windows_; }
  // May run on several threads at once, so each call opens the file for itself.
  void read(const data::Position& position, std::span<std::byte* const> into) const override {
    std::ifstream samples(file_, std::ios::binary);
    samples.seekg(position.row * static_cast<int64_t>(sizeof(float)));
    samples.read(reinterpret_cast<char*>(into[0]), kLength * sizeof(float));
    samples.read(reinterpret_cast<char*>(into[1]), sizeof(float));
    if (!samples)
      throw std::runtime_error(file_.string() + ": cannot read");  // reported with epoch and element
  }
  // A checkpoint of a run on one file isn't resumed on another.
  uint64_t fingerprint() const override { return std::hash<std::string>{}(file_.filename().string()); }

 private:
  std::filesystem::path file_;
  int64_t windows_;
  data::Layout layout_{{"window", "next"}, {{DType::kF32, {kLength}}, {DType::kF32, {1}}}};
};

int main() {
  const auto path = std::filesystem::temp_directory_path() / "isochron_own_source.f32";
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 4000; ++i) {
      const float sample = static_cast<float>(std::sin(0.3 * i) + 0.5 * std::sin(0.7 * i));
      file.write(reinterpret_cast<const char*>(&sample), sizeof sample);
    }
  }
  data::Dataset batches =
      data::Dataset(std::make_shared<SampleWindows>(path)).shuffle(1000).batch(32).prefetch(2);

  nn::Dense line(1);  // the next sample of two sines is a linear function of those before
  optim::Adam optimizer({.learning_rate = 0.02});
  train::Trainer trainer({.train = [&](const data::Element& batch) {
    const Tensor loss = nn::mean_squared_error(line(batch["window"]), batch["next"]);
    optimizer.minimize(loss, line.parameters());
    return loss;
  }});
  const train::History history = trainer.fit(batches, {.epochs = 10});
  std::filesystem::remove(path);
  return history.last()["loss"] < 1e-3 ? 0 : 1;
}
