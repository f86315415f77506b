// How gradients are processed between the loss and an optimizer's rule, and after the rule: options that
// every optimizer takes as `.step`. The order is fixed:
//
//   scale the loss -> gradients -> sum over micro-batches, then over ranks -> unscale, check -> clip -> noise
//   -> update -> average
//
// All of this is part of the captured step, its numbers are slots, and options that aren't used cost nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/comm/group/group.h"
#include "isochron/graph/capture/variable.h"

namespace isochron::optim {

/// Selects parameters: any function of (const Variable&) that returns bool.
class ParameterFilter {
 public:
  using Function = std::function<bool(const Variable& parameter)>;
  /// An undefined filter.
  ParameterFilter();
  template <typename F>
  requires std::is_invocable_r_v<bool, F, const Variable&> ParameterFilter(F function)
      : function_(std::move(function)) {}
  // Defined out of line, because GCC 12 warns of uninitialized members in every list of options if they are
  // inlined.
  ParameterFilter(const ParameterFilter& other);
  ParameterFilter& operator=(const ParameterFilter& other);
  ~ParameterFilter();

  bool defined() const { return function_ != nullptr; }
  bool operator()(const Variable& parameter) const { return function_(parameter); }

 private:
  Function function_;
};

/// Decoupled weight decay: before each update, each parameter is reduced by learning rate x `rate` x
/// parameter (Loshchilov and Hutter, ICLR 2019), as in PyTorch's AdamW. With `l2`, rate x parameter is added
/// to the gradient instead, after clipping and noise, as in PyTorch's SGD and Adam; this takes another pass
/// over the parameters.
struct WeightDecay {
  double rate = 0;
  /// Which parameters decay; all if undefined. It must select at least one. Usually the parameters with two
  /// or more axes, to exclude biases and gains.
  ParameterFilter applies = {};
  bool l2 = false;
};

/// Parameters with their own learning rate or weight decay. A parameter belongs to the first group whose
/// `holds` returns true, or to no group. Every group must get at least one parameter. (To vary other numbers,
/// use a second optimizer.)
struct ParameterGroup {
  ParameterFilter holds = {};
  /// Multiplies the optimizer's learning rate. 0 freezes the parameters; moments and velocities are still
  /// updated, Rprop's step sizes stay.
  double learning_rate_factor = 1;
  std::optional<double> weight_decay = {};  // in place of the optimizer's
};

/// At most one of these may be set; 0 means none. Applied to the unscaled gradients of the whole group of
/// micro-batches.
struct Clipping {
  double value = 0;        // every element to [-value, value]
  double norm = 0;         // each gradient's norm to at most this
  double global_norm = 0;  // the norm of all gradients together (Pascanu, Mikolov, Bengio, ICML 2013)
};

/// Adds normal noise of variance eta / (1 + step)^gamma to every gradient (Neelakantan et al.: "Adding
/// Gradient Noise Improves Learning for Very Deep Networks", 2015); eta = 0: no noise. Equal seeds and steps
/// give equal noise.
struct GradientNoise {
  double eta = 0;
  double gamma = 0.55;
  /// None: derived from the seed of the process (random::set_seed) when the optimizer is made, or 0.
  std::optional<uint64_t> seed = {};
};

/// The loss is multiplied by a scale, so that small gradients don't vanish in f16, and the gradients are
/// divided by it; powers of two lose no precision. If the gradients aren't finite, the update is skipped, and
/// so is the schedule's step.
struct LossScale {
  double initial = 0;           // 0: no scaling; at most 2^126. Growth stops at 2^64
  int64_t growth_interval = 0;  // clean updates until it grows; 0: it never changes
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double minimum = 1;  // lower limit; in [2^-126, initial] if the scale changes

  /// Grows after every 2,000 clean updates and shrinks on overflow, like PyTorch's GradScaler, but with a
  /// lower initial scale (PyTorch's is 65,536).
  static LossScale dynamic(double initial = 32768) { return {.initial = initial, .growth_interval = 2000}; }
  static LossScale fixed(double scale) { return {.initial = scale}; }
};

struct StepOptions {
  std::vector<ParameterGroup> parameter_groups = {};
  /// Micro-batches per update: their gradients are summed, weighted by rows, and divided once by the number
  /// of all rows. The update equals that of the large batch up to rounding, except for random draws (dropout)
  /// and for ops that depend on the whole batch (the moments of batch normalization are those of the
  /// micro-batches). A parameter is updated if at least one of the micro-batches used it; with several ranks,
  /// the micro-batches of an update must use the same parameters.
  int64_t accumulate = 1;
  /// The ranks that train together; null: comm::world(), which is one process unless it has been joined. An
  /// update takes `accumulate` micro-batches of every rank and equals that of the large batch, as above, even
  /// if ranks have different numbers of rows. Every rank makes the same calls. Parameters must be the same on
  /// all ranks before the first step (Trainer ensures this) and stay the same, bit for bit. CPU only.
  std::shared_ptr<comm::Group> group = nullptr;
  /// Gradients are summed in the order of a binary tree over the micro-batches of an update, starting with
  /// those of rank 0. The result has the same bits however these micro-batches are split into steps and
  /// ranks. Needs log2(accumulate) sums of all gradients rather than one, and a power of two. Across ranks,
  /// this order is always used.
  bool exact_sums = false;
  /// Gradients are sent in buckets of at most about this many bytes, one exchange per bucket, starting with
  /// those of the last layers. A bucket is sent while the gradients of earlier layers are computed. The last
  /// buckets are smaller (optim/buckets.h).
  size_t bucket_bytes = size_t{1} << 20;
  LossScale loss_scale = {};
  Clipping clip = {};
  GradientNoise noise = {};
  /// Keeps an exponential moving average of every parameter: average = decay x average + (1 - decay) x
  /// parameter after each update, starting with the first update's result (Keras's use_ema). This includes
  /// parameters that the update doesn't change, such as parameters frozen later. In (0, 1); 0: none. See
  /// AveragedWeights.
  double ema_decay = 0;
  /// Lets `minimize` take a loss that depends on trainable variables that aren't among `parameters`, as when
  /// one network is trained through another, or two optimizers share a model. Without this option they are an
  /// error, because usually they belong to layers that are missing in the list of parameters.
  bool allow_untrained = false;
  /// Leaves parameters that the loss doesn't depend on and their states unchanged instead of throwing: heads
  /// that a step doesn't use. Their states are created with the others'. If ranks train together, another one
  /// may have used these parameters, so they take part with a gradient of zero. Averages are still updated.
  bool allow_unused = false;
  /// Keeps the gradients of this rank's newest micro-batch, unscaled and before clipping, for inspection
  /// between steps (Optimizer::kept_gradients). This takes memory for all of them, which the arena then can't
  /// reuse; checkpoints don't contain them.
  bool keep_gradients = false;
};

}  // namespace isochron::optim
