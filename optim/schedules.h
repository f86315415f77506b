// Learning rates that change from step to step. A schedule is a function of the number of steps done, written
// in ops, so an optimizer computes it inside its captured step: no host read, no new capture, and a resumed
// run continues where it stopped. Every optimizer takes a schedule wherever it takes a learning rate:
//
//   optim::Adam optimizer({.learning_rate = optim::warmup(500, optim::cosine(1e-3, 20'000))});
//
// Steps count from 0: `at(0)` is the rate of the first step. All arithmetic is in f64; host and captured step
// run the same ops. The functions here throw kInvalidArgument for arguments outside the ranges that they
// name; rates must be finite and >= 0.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::optim {

class Schedule {
 public:
  /// Maps the number of steps done, f64 (), to the rate, f64 (), in ops.
  using Function = std::function<Tensor(const Tensor& step)>;

  /// Always `rate`; `.learning_rate = 1e-3` makes such a schedule. The rate may be changed between steps.
  Schedule(double rate);
  /// A user-defined schedule.
  explicit Schedule(Function function);

  bool constant() const { return function_ == nullptr; }
  /// The rate of the step that follows `steps_done` steps.
  double at(int64_t steps_done) const;
  /// The same in ops. steps_done: () of any numeric dtype; the result is f64 (). Throws kShapeMismatch,
  /// kDtypeMismatch if a user-defined schedule returns something else.
  Tensor operator()(const Tensor& steps_done) const;

 private:
  double rate_ = 0;
  Function function_;
};

/// initial x factor^floor(step / every). every >= 1, factor >= 0.
Schedule step_decay(double initial, int64_t every, double factor);
/// rates[0] up to and including step boundaries[0], then rates[1] up to boundaries[1], and so on; Keras's
/// definition. There is one boundary fewer than rates, and boundaries are strictly increasing.
Schedule piecewise(std::vector<int64_t> boundaries, std::vector<double> rates);
/// initial x factor^(step / steps). steps >= 1, factor >= 0.
Schedule exponential(double initial, int64_t steps, double factor);
/// Half a cosine from `initial` down to final_share x initial at `steps`; constant after that (Loshchilov and
/// Hutter: "SGDR", ICLR 2017). steps >= 1, final_share in [0, 1].
Schedule cosine(double initial, int64_t steps, double final_share = 0);
/// Repeats the cosine, as in that paper: each period is `period_factor` times as long as the one before and
/// starts `height_factor` times as high. period_factor >= 1, height_factor >= 0. Keras's definition.
Schedule cosine_restarts(double initial, int64_t first_steps, double period_factor = 2,
                         double height_factor = 1, double final_share = 0);
/// (initial - final) (1 - step / steps)^power + final, and `final` from `steps` on; with `cycle`, `steps` is
/// replaced with its next multiple. steps >= 1, power >= 0. Keras's definition.
Schedule polynomial(double initial, int64_t steps, double final, double power = 1, bool cycle = false);
struct OneCycleOptions {
  double warm_share = 0.3;
  double initial_share = 1.0 / 25;
  double final_share = 1.0 / 250'000;
};
/// From peak x initial_share up to peak over the first `warm_share` of `steps`, then down to peak x
/// final_share, both by half a cosine (Smith and Topin: "Super-Convergence", 2018). PyTorch's definition and
/// defaults, without its cycle of momentum. warm_share x steps > 1, warm_share < 1.
Schedule one_cycle(double peak, int64_t steps, const OneCycleOptions& options = {});
/// initial x sqrt(steps / (steps + step)). After a warm-up of `steps` steps, this is the schedule of Vaswani
/// et al.: "Attention Is All You Need", NeurIPS 2017: peak x sqrt(steps / t), with t counted from the start.
/// steps >= 1.
Schedule inverse_sqrt(double initial, int64_t steps);
/// Rises linearly from after.at(0) / steps to after.at(0) in the first `steps` steps (Goyal et al. 2017),
/// then follows `after` from its beginning. steps >= 0; 0 is `after` itself.
Schedule warmup(int64_t steps, Schedule after);

/// Schedules one after the other, each from its own beginning: phases[i] from step starts[i - 1] on, the
/// first from step 0 (PyTorch's SequentialLR). There is one start fewer than phases, and starts are > 0 and
/// strictly increasing. For a second phase of training: sequence({first, cosine(1e-2, 500)}, {steps_so_far}).
Schedule sequence(std::vector<Schedule> phases, std::vector<int64_t> starts);

}  // namespace isochron::optim
