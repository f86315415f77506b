// Measures three properties of pipelines: how close kAutotune comes to the best fixed setting, which is found
// by trying all of them; whether the resident set stays flat over many elements; and the cost of resuming an
// iteration.
//   pipeline_figures [SECONDS_EACH] [MILLIONS_OF_ELEMENTS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/memory/allocators/buffer.h"

namespace {

using namespace isochron;
using namespace isochron::data;

constexpr int64_t kRows = 20'000, kWidth = 100;

Dataset rows() {
  const Tensor x = empty({DType::kF32, {kRows, kWidth}});
  Rng rng(1);
  for (float& value : x.span<float>()) value = static_cast<float>(rng.uniform());
  return Dataset(Element{{"x", x}});
}

/// A map function of adjustable length, which makes `passes` passes over a row.
IntoFunction work(int passes) {
  return [passes](const Element& input, ElementBuffer& output, const Position&) {
    const std::span<const float> from = input["x"].span<float>();
    auto* to = reinterpret_cast<float*>(output.room(0));
    std::copy(from.begin(), from.end(), to);
    for (int pass = 0; pass < passes; ++pass) {
      for (int64_t i = 0; i < kWidth; ++i) to[i] = to[i] * 0.999f + 0.001f / (1 + to[i]);
    }
  };
}

struct Setting {
  int64_t parallel, ahead;
};

Dataset pipeline(int passes, const Setting& setting) {
  return rows()
      .map_into({"x"}, {{DType::kF32, {kWidth}}}, work(passes), {.parallel = setting.parallel})
      .shuffle(1000)
      .batch(32)
      .repeat()
      .prefetch(setting.ahead);
}

/// A pipeline whose batches are consumed for some time per call, so that several pipelines can take turns.
class Measured {
 public:
  Measured(std::string name, Dataset dataset)
      : name_(std::move(name)), dataset_(std::move(dataset)), at_(dataset_.begin()) {}
  const std::string& name() const { return name_; }
  void run(double seconds, bool count) {
    const int64_t began = now_ns(), end = began + static_cast<int64_t>(seconds * 1e9);
    int64_t elems = 0;
    for (; now_ns() < end; ++at_) elems += (*at_)["x"].extent(0);
    if (count) rates_.push_back(static_cast<double>(elems) / static_cast<double>(now_ns() - began) * 1e9);
  }
  double median_rate() {
    std::ranges::sort(rates_);
    return rates_[rates_.size() / 2];
  }

 private:
  std::string name_;
  Dataset dataset_;
  Dataset::Iterator at_;
  std::vector<double> rates_;
};

void compare(const char* what, int passes, double seconds) {
  std::vector<std::unique_ptr<Measured>> all;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  for (int64_t parallel = 1; parallel <= cores; ++parallel) {
    for (int64_t ahead : {1, 2, 4, 8, 16}) {
      all.push_back(std::make_unique<Measured>(fmt::format("{} threads, {} ahead", parallel, ahead),
                                               pipeline(passes, {parallel, ahead})));
    }
  }
  all.push_back(std::make_unique<Measured>("kAutotune", pipeline(passes, {kAutotune, kAutotune})));
  all.back()->run(2, false);  // lets it settle
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& one : all) one->run(seconds / kRounds, true);
  }
  size_t best = 0;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i]->median_rate() > all[best]->median_rate()) best = i;
  }
  const double autotuned = all.back()->median_rate(), fixed = all[best]->median_rate();
  fmt::print("{:24} best of {}: {} at {:.0f} ns a row; kAutotune {:.0f} ns: {:.1f} % of its rate\n", what,
             all.size() - 1, all[best]->name(), 1e9 / fixed, 1e9 / autotuned, 100 * autotuned / fixed);
}

double resident_mb() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * 4096e-6;
}

void watch_memory(int64_t millions) {
  Dataset dataset = pipeline(0, {2, kAutotune});
  auto at = dataset.begin();
  const int64_t total = millions * 1'000'000;
  double first = 0;
  for (int64_t elems = 0, next = total / 10; elems < total; ++at) {
    elems += (*at)["x"].extent(0);
    if (elems < next) continue;
    if (first == 0) first = resident_mb();
    fmt::print("{:>12} rows: resident {:.2f} MB\n", elems, resident_mb());
    next += total / 10;
  }
  fmt::print("growth from the first tenth to the end: {:+.2f} MB\n", resident_mb() - first);
}

/// Stops a dataset in the middle and resumes there as another process would, with a new dataset object.
void go_on(const char* what, const std::function<Dataset()>& make, int64_t elems) {
  constexpr int kTimes = 21;
  std::vector<double> save_ms, resume_ms;
  std::string state;
  for (int i = 0; i < kTimes; ++i) {
    Dataset stopped = make(), resumed = make();
    auto at = stopped.begin();
    for (int64_t e = 1; e < elems; ++e) ++at;
    int64_t began = now_ns();
    state = stopped.state();
    save_ms.push_back(static_cast<double>(now_ns() - began) * 1e-6);
    began = now_ns();
    const auto again = resumed.resume(state);
    resume_ms.push_back(static_cast<double>(now_ns() - began) * 1e-6);
    ++at;
    if ((*at)["x"].to_vector() != (*again)["x"].to_vector()) fmt::print("{}: another element\n", what);
  }
  std::ranges::sort(save_ms);
  std::ranges::sort(resume_ms);
  fmt::print("{:36} state of {} bytes made in {:.2f} ms; next batch {:.2f} ms after its reading\n", what,
             state.size(), save_ms[kTimes / 2], resume_ms[kTimes / 2]);
}

void go_on() {
  const Tensor x = empty({DType::kF32, {1'000'000, 1}});
  for (int64_t i = 0; i < x.elems(); ++i) x.span<float>()[static_cast<size_t>(i)] = static_cast<float>(i);
  const Dataset million(Element{{"x", x}});
  const auto batches = [](const Dataset& rows) {
    return rows.batch(32, {.drop_remainder = true}).repeat().prefetch();
  };
  go_on(
      "1,000,000 rows in any order", [&] { return batches(million.shuffle(1'000'000)); }, 20'000);
  go_on(
      "shuffle(1000) of rows", [&] { return batches(million.shuffle(1000)); }, 20'000);
  const auto stream = [&] { return million.filter([](const Element&) { return true; }); };
  go_on(
      "shuffle(1000) of a stream", [&] { return batches(stream().shuffle(1000)); }, 500);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  const int64_t millions = argc > 2 ? std::atoll(argv[2]) : 10;
  if (seconds <= 0 || millions < 1) {
    fmt::print(stderr, "usage: pipeline_figures [SECONDS_EACH] [MILLIONS_OF_ELEMENTS]\n");
    return 2;
  }
  compare("cheap map", 0, seconds);
  compare("map of about 1 us", 10, seconds);
  compare("map of about 20 us", 200, seconds);
  watch_memory(millions);
  go_on();
}
