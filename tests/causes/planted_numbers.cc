#include <immintrin.h>

#include <cmath>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kSubnormals = "subnormal numbers";
constexpr std::string_view kNan = "NaN";

/// Scope in which this thread computes with subnormals, the default for a thread.
class KeepSubnormals {
 public:
  KeepSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~0x8040U); }    // flush, denormals are zero
  ~KeepSubnormals() { _mm_setcsr((before_ & ~0x3FU) | (_mm_getcsr() & 0x3FU)); }  // what was noted stays
  KeepSubnormals(const KeepSubnormals&) = delete;
  KeepSubnormals& operator=(const KeepSubnormals&) = delete;

 private:
  unsigned before_;
};

/// A filter in the loop whose state has decayed to subnormal numbers.
RunReport filter_dies_away() {
  const KeepSubnormals keep;
  std::vector<float> state(256, 1e-38F);
  return run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    // Enough sweeps that all iterations are timed, even on processors that handle subnormals at full speed.
    for (int sweep = 0; sweep < 1000; ++sweep) {
      for (float& value : state) value = value * 0.999F + 1e-42F;
      asm volatile("" : : "r"(state.data()) : "memory");
    }
  });
}

/// Weights that decay by hand, in double precision, between captured steps.
RunReport weights_decay() {
  Regression problem(64);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<double> weights(512, 3e-308);
  return run_loop([&](Recorder& recorder, int64_t i) {
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      step(problem.x, problem.y);
    }
    const PhaseScope update(recorder, Phase::kUpdate);
    const KeepSubnormals keep;
    for (double& weight : weights) weight *= i % 2 == 0 ? 0.25 : 4;
    asm volatile("" : : "r"(weights.data()) : "memory");
  });
}

/// A learning rate under which the loss leaves all numbers.
RunReport diverges() {
  Regression problem(64);
  problem.optimizer = optim::Sgd({.learning_rate = 1e6});
  double loss = 0;
  return run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    loss = problem.train_eager(problem.x, problem.y).item<float>();
  });
}

/// A fit that ends as soon as its loss isn't a number.
RunReport fit_ends_by_nan() {
  Regression problem;
  problem.x.span<float>()[40] = std::nanf("");
  auto batches = problem.rows().shuffle(1024).batch(32).prefetch();
  train::Trainer trainer(problem.model, nn::mean_squared_error, problem.optimizer);
  Recorder recorder(recorder_options());
  train::TerminateOnNaN ends;
  trainer.fit(
      batches,
      {.epochs = 50, .callbacks = {&ends}, .recorder = &recorder, .report_every = 1, .progress = nullptr});
  return make_report(recorder, "fit", report_options());
}

}  // namespace

std::vector<Planted> planted_numbers() {
  return {{kSubnormals, "a filter whose state dies away", filter_dies_away},
          {kSubnormals, "weights that decay by hand, in double precision", weights_decay},
          {kNan, "a loss that leaves all numbers", diverges},
          {kNan, "a fit that ends by it", fit_ends_by_nan}};
}

}  // namespace isochron::causes
