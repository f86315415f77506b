#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kUnbounded = "prefetch or cache without a bound";
constexpr std::string_view kStarvation = "starvation by the input";
constexpr std::string_view kReadAgain = "data read again from disk";
constexpr std::string_view kTransfers = "synchronous or many small transfers";

/// The captured step of a regression on what `fetch` gives, in the phases that it opens.
RunReport run_fetching(const std::function<std::pair<Tensor, Tensor>(Recorder& recorder)>& fetch,
                       const Extent& extent = {}) {
  Regression problem;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const auto [x, y] = fetch(recorder);
        const PhaseScope compute(recorder, Phase::kCompute);
        step(x, y);
      },
      extent);
}

/// A thread that makes batches, and an unbounded queue between it and the steps.
class UnboundedPrefetch {
 public:
  UnboundedPrefetch() : thread_([this] { run(); }) {}
  ~UnboundedPrefetch() {
    stop_ = true;
    thread_.join();
  }
  Tensor next() {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (!batches_.empty()) {
          Tensor batch = std::move(batches_.front());
          batches_.pop_front();
          return batch;
        }
      }
      std::this_thread::yield();
    }
  }

 private:
  void run() {
    for (uint64_t seed = 0; !stop_; ++seed) {
      Tensor batch = normal({kBatch, 32}, seed);
      {
        const std::lock_guard lock(mutex_);
        batches_.push_back(std::move(batch));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::deque<Tensor> batches_;
  std::thread thread_;
};

RunReport prefetch_without_a_bound() {
  UnboundedPrefetch prefetch;
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        {
          const PhaseScope fetch(recorder, Phase::kDataWait);
          static_cast<void>(prefetch.next());
        }
        const PhaseScope compute(recorder, Phase::kCompute);
        compute_for(1'000'000);
      },
      {.warmup = 5, .seconds = 0.5, .most = 3000});
}

/// Every batch stays in a map, under a key that is never used again.
RunReport batches_cached_by_step() {
  Regression problem;
  auto batches = problem.rows().shuffle(512).batch(kBatch).repeat().prefetch();
  auto at = batches.begin();
  std::map<int64_t, std::array<Tensor, 2>> cache;
  int64_t step = 0;
  return run_fetching(
      [&](Recorder& recorder) {
        const PhaseScope fetch(recorder, Phase::kDataWait);
        auto& kept = cache[step++];
        {
          const auto& [x, y] = *at;
          kept = std::array<Tensor, 2>{copy(x), copy(y)};
        }
        ++at;
        return std::pair<Tensor, Tensor>(kept[0], kept[1]);
      },
      {.most = 30'000});
}

/// A growing list of augmented rows, reported by a gauge; the loop has no phases.
RunReport augmented_rows_kept() {
  Regression problem;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<std::vector<float>> kept;
  int64_t bytes = 0;
  observe::RecorderOptions options = recorder_options();
  options.gauges = {{"cached_bytes", [](void* at) { return *static_cast<int64_t*>(at); }, &bytes}};
  return run_loop(
      [&](Recorder&, int64_t i) {
        const Tensor x = narrow(problem.x, 0, i % 32 * kBatch, kBatch);
        const std::span<const float> values(x.data<float>(), static_cast<size_t>(x.elems()));
        kept.emplace_back(values.begin(), values.end());
        bytes += static_cast<int64_t>(x.size_bytes());
        step(x, narrow(problem.y, 0, i % 32 * kBatch, kBatch));
      },
      {.most = 20'000}, options);
}

/// A map function that decodes for longer than the step takes, on one thread.
RunReport slow_map_in_fit() {
  Regression problem;
  auto batches = problem.rows()
                     .map([](const Tensor& x, const Tensor& y) {
                       compute_for(20'000);
                       return std::array<Tensor, 2>{x * 1.0, y};
                     })
                     .batch(kBatch)
                     .prefetch();
  train::Trainer trainer(problem.model, nn::mean_squared_error, problem.optimizer);
  Recorder recorder(recorder_options());
  trainer.fit(batches, {.epochs = 25, .recorder = &recorder, .progress = nullptr});
  recorder.sample();
  return make_report(recorder, "fit", report_options());
}

/// Random rows made on the host before every step.
RunReport made_on_the_host() {
  Rng rng(9);
  const Tensor x = zeros({kBatch, 32}), y = zeros({kBatch, 1});
  return run_fetching([&](Recorder& recorder) {
    const PhaseScope fetch(recorder, Phase::kDataWait);
    for (float& value : x.span<float>()) value = static_cast<float>(rng.normal());
    return std::pair(x, y);
  });
}

/// The shipped digits, unpacked and parsed for every batch.
RunReport file_parsed_each_step() {
  int64_t row = 0;
  return run_fetching(
      [&](Recorder& recorder) {
        const PhaseScope fetch(recorder, Phase::kDataWait);
        const data::LabelledImages all = data::load_digits().train;
        row = (row + kBatch) % 1024;
        return std::pair(reshape(narrow(all.images, 0, row, kBatch), {kBatch, 64}),
                         cast(reshape(narrow(all.labels, 0, row, kBatch), {kBatch, 1}), DType::kF32));
      },
      {.warmup = 5, .least = 100});
}

/// A file of numbers read with the standard library in each step, in no phase.
RunReport numbers_read_each_step() {
  const TempFolder folder;
  const std::filesystem::path path = folder / "rows.bin";
  const Tensor all = normal({8192, 33}, 11);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(all.raw()), static_cast<std::streamsize>(all.size_bytes()));
  const Tensor x = zeros({kBatch, 32}), y = zeros({kBatch, 1});
  std::vector<float> rows(static_cast<size_t>(all.elems()));
  return run_fetching([&](Recorder&) {
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(rows.data()), static_cast<std::streamsize>(all.size_bytes()));
    std::copy_n(rows.begin(), x.elems(), x.data<float>());
    return std::pair(x, y);
  });
}

/// Each row is copied on its own.
RunReport rows_copied_one_by_one() {
  const Tensor all = normal({1024, 32}, 12);
  const Tensor y = zeros({kBatch, 1});
  return run_fetching([&](Recorder& recorder) {
    const PhaseScope copying(recorder, Phase::kHostToDevice);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < kBatch; ++i)
      rows.push_back(from_span<float>({32}, all.span<float>().subspan(static_cast<size_t>(i) * 32, 32)));
    return std::pair(stack(rows), y);
  });
}

/// The same without phases, and with more compute.
RunReport rows_copied_in_no_phase() {
  Regression problem(1024, 32, 128);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  return run_loop([&](Recorder&, int64_t i) {
    std::vector<Tensor> rows;
    for (int64_t k = 0; k < 64; ++k) {
      const size_t row = static_cast<size_t>((i * 64 + k) % 1024);
      rows.push_back(from_span<float>({32}, problem.x.span<float>().subspan(row * 32, 32)));
    }
    step(stack(rows), narrow(problem.y, 0, 0, 64));
  });
}

}  // namespace

std::vector<Planted> planted_input() {
  return {{kUnbounded, "a queue of batches that nothing bounds", prefetch_without_a_bound},
          {kUnbounded, "every batch kept under a key of its own", batches_cached_by_step},
          {kUnbounded, "rows kept in a list, told by a gauge", augmented_rows_kept},
          {kStarvation, "a map that takes longer than the step, in fit", slow_map_in_fit},
          {kStarvation, "batches made on the host before each step", made_on_the_host},
          {kReadAgain, "the file parsed for each batch", file_parsed_each_step},
          {kReadAgain, "a file read in each step, in no phase", numbers_read_each_step},
          {kTransfers, "rows copied one by one", rows_copied_one_by_one},
          {kTransfers, "the same in no phase", rows_copied_in_no_phase}};
}

}  // namespace isochron::causes
