// Scenario `transfers`: how batches get to the step. It is slow if each batch is created in the loop and
// copied in small pieces, or decoded in the loop. It is cured if a pipeline prepares the next batches. On the
// CPU, a copy to the device is a copy in memory, and the loops report its cost on this machine. On a device,
// pieces are copied one by one from pageable memory, and the pipeline's batches are copied through a ring of
// page-locked slots.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tables/transfers.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/images/image.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/batch_plan.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::apps {
namespace {

using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int64_t kRows = 1024;
constexpr int64_t kBatch = 32;
constexpr int64_t kPictureStepsPerEpoch = kRows / kBatch;
constexpr const char* kShuffle = "shuffle";
constexpr int64_t kFeatures = 100;
constexpr int64_t kSide = 16;  // of the images

/// Two dense layers with Adam and mean squared error; each loop has its own. The first layer has enough units
/// for a step to take longer than the pipeline needs for a batch, but few enough to run on one thread: on a
/// busy machine, waiting for a second thread would disturb the loops.
struct Problem {
  explicit Problem(int64_t units)
      : model(nn::Flatten(), nn::Dense(units, nn::Activation::kRelu), nn::Dense(1)) {}
  nn::Sequential model;
  optim::Adam optimizer;
  Tensor train(const data::Element& batch) {
    const Tensor loss = nn::mean_squared_error(model(batch["x"]), batch["y"]);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }
};
constexpr int64_t kUnits = 64, kUnitsForPictures = 8;

Tensor uniform(const Shape& shape, Rng& rng) {
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.uniform());
  return result;
}

/// `fetch` returns one batch per call, and records its own phases.
void run_fetching(LoopContext& context, Device device, int64_t units,
                  const std::function<data::Element()>& fetch) {
  Problem problem(units);
  train::BatchFunctions functions =
      train::supervised(problem.model, nn::mean_squared_error, problem.optimizer);
  functions.device = device;
  train::Trainer trainer(std::move(functions));
  do {
    IterationScope iteration(context.recorder);
    const data::Element batch = fetch();
    PhaseScope compute(context.recorder, Phase::kCompute);
    trainer.train_on_batch(batch);
  } while (context.next());
}

void run_pipeline(LoopContext& context, Device device, int64_t units, data::Dataset batches) {
  Problem problem(units);
  train::BatchPlan step("train_step", true,
                        [&](const data::Element& batch) { return std::vector{problem.train(batch)}; },
                        {.plan = {.device = device}});
  step.prepare(batches);
  batches = batches.repeat();
  run_steps(context, batches, [&](const data::Element& batch) { step.call(batch); });
}

/// The number of copies per step: of rows, and on the CPU also those that join rows to a batch.
int64_t copies_a_step(Device device) { return 2 * kBatch + (device.is_cpu() ? 2 : 0); }

/// The number of copies in the loop that copies in pieces, and their total time.
struct Copies {
  int64_t count = 0;
  int64_t ns = 0;
};

/// Calls `use(row, x, y)` for each row of a batch, one after the other.
template <typename Use>
void for_each_row(std::span<const float> host, const Use& use) {
  for (size_t row = 0; row < static_cast<size_t>(kBatch); ++row) {
    const std::span<const float> values = host.subspan(row * (kFeatures + 1), kFeatures + 1);
    use(row, values.first(kFeatures), values.last(1));
  }
}

/// Copies each row of x and y separately within the CPU's memory.
data::Element gathered(std::span<const float> host) {
  std::vector<Tensor> x, y;
  for_each_row(host, [&](size_t, std::span<const float> x_row, std::span<const float> y_row) {
    x.push_back(from_span({kFeatures}, x_row));
    y.push_back(from_span({1}, y_row));
  });
  return {{"x", stack(x)}, {"y", stack(y)}};
}

Tensor on_device(Device device, const Shape& shape) {
  const TensorSpec spec{DType::kF32, shape};
  return Tensor::over(cuda::gpu(device)->allocate(spec.size_bytes(), "batch"), spec);
}

/// The same from pageable memory to a device's memory; waits for each copy.
data::Element gathered_on(Device device, std::span<const float> host) {
  const Tensor x = on_device(device, {kBatch, kFeatures}), y = on_device(device, {kBatch, 1});
  const auto put = [&](const Tensor& to, size_t row, std::span<const float> values) {
    to.storage()->write(row * values.size_bytes(), reinterpret_cast<const std::byte*>(values.data()),
                        values.size_bytes());
    cuda::gpu(device)->synchronize();
  };
  for_each_row(host, [&](size_t row, std::span<const float> x_row, std::span<const float> y_row) {
    put(x, row, x_row);
    put(y, row, y_row);
  });
  return {{"x", x}, {"y", y}};
}

/// In every step, creates a batch of random numbers on the host and copies each of its rows separately.
void copied_in_pieces(LoopContext& context, Device device, Copies& copies) {
  Rng rng(1);
  std::vector<float> host(static_cast<size_t>(kBatch * (kFeatures + 1)));
  run_fetching(context, device, kUnits, [&] {
    {
      PhaseScope making(context.recorder, Phase::kDataWait);
      for (float& value : host) value = static_cast<float>(rng.uniform());
    }
    PhaseScope copying(context.recorder, Phase::kHostToDevice);
    const int64_t began_ns = now_ns();
    data::Element batch = device.is_cpu() ? gathered(host) : gathered_on(device, host);
    copies.count += copies_a_step(device);
    copies.ns += now_ns() - began_ns;
    return batch;
  });
}

/// At the beginning of an epoch, all rows are shuffled one by one and copied to the tensors from which
/// batches are taken. So the first step of each epoch is a spike.
void shuffled_at_once(LoopContext& context, Device device) {
  Rng rng(1);
  std::vector<std::array<Tensor, 2>> rows;
  for (int64_t i = 0; i < kRows; ++i) rows.push_back({uniform({kFeatures}, rng), uniform({1}, rng)});
  Tensor x, y;
  Ref<Storage> x_slot, y_slot;
  int64_t row = 0;
  // The batch's rows of `from`. On a device they are always copied to the same memory, `slot`.
  const auto cut = [&](const Tensor& from, Ref<Storage>& slot) {
    if (device.is_cpu()) return copy(narrow(from, 0, row, kBatch));
    const TensorSpec spec{from.dtype(), {kBatch, from.extent(1)}};
    if (!slot) slot = cuda::gpu(device)->allocate(spec.size_bytes(), "batch");
    const size_t row_bytes = spec.size_bytes() / kBatch;
    graph::assign(Tensor::over(slot, spec),
                  Tensor::over(from.storage(), spec, static_cast<size_t>(row) * row_bytes));
    return Tensor::over(slot, spec);
  };
  run_fetching(context, device, kUnits, [&] {
    if (row == 0) {
      PhaseScope shuffle(context.recorder, Phase::kDataWait, kShuffle);
      for (size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[rng.below(i + 1)]);
      std::vector<Tensor> all_x, all_y;
      for (const auto& [one_x, one_y] : rows) {
        all_x.push_back(copy(one_x));
        all_y.push_back(copy(one_y));
      }
      x = to_device(stack(all_x), device);
      y = to_device(stack(all_y), device);
    }
    PhaseScope cutting(context.recorder, Phase::kDataWait);
    data::Element batch{{"x", cut(x, x_slot)}, {"y", cut(y, y_slot)}};
    row = (row + kBatch) % kRows;
    return batch;
  });
}

void from_slices(LoopContext& context, Device device) {
  Rng rng(1);
  const data::Dataset rows({{"x", uniform({kRows, kFeatures}, rng)}, {"y", uniform({kRows, 1}, rng)}});
  run_pipeline(context, device, kUnits, rows.shuffle(1000).batch(kBatch).prefetch());
}

/// PNG files in memory, of noise on a slope, and a target each.
struct Pictures {
  std::vector<std::string> files;
  Tensor targets;

  Pictures() {
    Rng rng(2);
    targets = uniform({kRows, 1}, rng);
    Tensor image = empty({DType::kU8, {kSide, kSide, 3}});
    for (int64_t i = 0; i < kRows; ++i) {
      int64_t at = 0;
      for (uint8_t& value : image.span<uint8_t>()) value = static_cast<uint8_t>(at++ / 16 + rng.below(32));
      files.push_back(data::encode_png(image));
    }
  }
  void decode(int64_t row, std::span<float> into) const {
    std::array<std::byte, kSide * kSide * 3> pixels;
    const std::string& file = files[static_cast<size_t>(row)];
    data::decode_image(std::as_bytes(std::span(file)), 3, pixels, "picture");
    std::ranges::transform(pixels, into.begin(),
                           [](std::byte pixel) { return static_cast<float>(pixel) / 255.0F; });
  }
};

void decoded_in_the_loop(LoopContext& context, Device device) {
  const Pictures pictures;
  int64_t row = 0;
  run_fetching(context, device, kUnitsForPictures, [&] {
    PhaseScope fetch(context.recorder, Phase::kDataWait);
    const Tensor x = empty({DType::kF32, {kBatch, kSide, kSide, 3}});
    const size_t elems = static_cast<size_t>(x.elems() / kBatch);
    for (size_t i = 0; i < static_cast<size_t>(kBatch); ++i) {
      pictures.decode(row + static_cast<int64_t>(i), x.span<float>().subspan(i * elems, elems));
    }
    const Tensor y = copy(narrow(pictures.targets, 0, row, kBatch));
    row = (row + kBatch) % kRows;
    return data::Element{{"x", x}, {"y", y}};
  });
}

void decoded_once(LoopContext& context, Device device) {
  const auto pictures = std::make_shared<Pictures>();
  const Tensor numbers = empty({DType::kI64, {kRows}});
  for (int64_t i = 0; i < kRows; ++i) numbers.span<int64_t>()[static_cast<size_t>(i)] = i;
  const auto decode = [pictures](const data::Element& row, data::ElementBuffer& result,
                                 const data::Position&) {
    auto* x = reinterpret_cast<float*>(result.room(0));
    pictures->decode(row["number"].item<int64_t>(), {x, static_cast<size_t>(kSide * kSide * 3)});
    std::memcpy(result.room(1), row["y"].raw(), row["y"].size_bytes());
  };
  const data::Dataset rows({{"number", numbers}, {"y", pictures->targets}});
  const data::Dataset decoded =
      rows.map_into({"x", "y"}, {{DType::kF32, {kSide, kSide, 3}}, {DType::kF32, {1}}}, decode,
                    {.parallel = data::kAutotune});
  run_pipeline(context, device, kUnitsForPictures, decoded.cache().shuffle(1000).batch(kBatch).prefetch());
}

}  // namespace

Scenario transfers_scenario(Device device) {
  constexpr const char* kSlices = "tensor slices, prefetched";
  constexpr const char* kDecodedOnce = "decoded once, prefetched";
  const auto copies = std::make_shared<Copies>();
  Scenario scenario;
  scenario.name = "transfers";
  scenario.complaint = "execution slows progressively, waiting for its batches";
  scenario.loops = {
      {.name = "made and copied in the loop",
       .what = "random batches made on the host and copied row by row, then train_on_batch",
       .against = kSlices,
       .iterations_per_epoch = kPictureStepsPerEpoch,
       .expected = {.slow = true, .cause = "synchronous or many small transfers"},
       .run =
           [copies, device](LoopContext& context) {
             *copies = {};
             copied_in_pieces(context, device, *copies);
           },
       .notes =
           [copies, device] {
             const double each = static_cast<double>(copies->ns) / static_cast<double>(copies->count);
             return std::vector<std::string>{fmt::format(
                 "{} copies per step, {:.0f} ns each, {}", copies_a_step(device), each,
                 device.is_cpu() ? "including the allocation of its tensor; the CPU has no device to wait for"
                                 : "from pageable memory, including the wait for the copy")};
           }},
      {.name = "shuffled at once each epoch",
       .what = "all rows shuffled and copied at the start of each epoch, then cut into batches",
       .against = kSlices,
       .iterations_per_epoch = kPictureStepsPerEpoch,
       .expected = {.spike_period = static_cast<int>(kPictureStepsPerEpoch), .spike_label = kShuffle},
       .run = [device](LoopContext& context) { shuffled_at_once(context, device); }},
      {.name = kSlices,
       .what = "from_tensor_slices, shuffle(1000), batch, prefetch",
       .cured = true,
       .iterations_per_epoch = kPictureStepsPerEpoch,
       .expected = {.no_allocations = true},
       .run = [device](LoopContext& context) { from_slices(context, device); }},
      {.name = "decoded in the loop",
       .what = "preprocessing inside the loop: 32 PNG files of 16 x 16 decoded before every step",
       .against = kDecodedOnce,
       .iterations_per_epoch = kPictureStepsPerEpoch,
       .expected = {.slow = true, .cause = "starvation by the input"},
       .run = [device](LoopContext& context) { decoded_in_the_loop(context, device); }},
      {.name = kDecodedOnce,
       .what = "preprocessing outside the loop: the same files decoded once by the pipeline's threads, then "
               "cached",
       .against = kDecodedOnce,
       .cured = true,
       .iterations_per_epoch = kPictureStepsPerEpoch,
       .expected = {.no_allocations = true},
       .run = [device](LoopContext& context) { decoded_once(context, device); }},
  };
  scenario.tables = {[device](double) { return culprits_table(device); },
                     [device](double seconds) { return checks_table(device, seconds); }};
  scenario.summary =
      "Making a batch in the loop and copying it row by row makes the step wait for work that could have "
      "been done earlier. Decoding files in the loop is the same with more work; the loop below it decodes "
      "them in the pipeline instead. Shuffling everything at once makes one step of each epoch long. A "
      "pipeline does all of this on other threads while the previous step runs.";
  return scenario;
}

}  // namespace isochron::apps
