// What may happen to the gradients between the loss and an optimizer's rule, and around it: options that
// every optimizer takes as `.step`. The order is fixed:
//
//   scale the loss -> gradients -> sum over micro-batches, then over ranks -> unscale, check -> clip -> noise
//   -> update -> average
//
// All of it belongs to the captured step, its numbers are slots, and what isn't asked for costs nothing.
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

/// Which parameters: any function of (const Variable&) that says yes or no.
class ParameterFilter {
 public:
  using Function = std::function<bool(const Variable& parameter)>;
  /// No filter at all.
  ParameterFilter();
  template <typename F>
  requires std::is_invocable_r_v<bool, F, const Variable&> ParameterFilter(F function)
      : function_(std::move(function)) {}
  // Out of line: inlined, they make GCC 12 warn of uninitialized members in every list of options.
  ParameterFilter(const ParameterFilter& other);
  ParameterFilter& operator=(const ParameterFilter& other);
  ~ParameterFilter();

  bool defined() const { return function_ != nullptr; }
  bool operator()(const Variable& parameter) const { return function_(parameter); }

 private:
  Function function_;
};

/// Decoupled weight decay: parameters lose the share learning rate x `rate` of themselves before each update
/// (Loshchilov and Hutter, ICLR 2019).
struct WeightDecay {
  double rate = 0;
  /// Which parameters decay; all where undefined. Must hold for one at least. Commonly those with two axes or
  /// more, sparing biases and gains.
  ParameterFilter applies = {};
};

/// Parameters that learn at a pace of their own. A parameter belongs to the first group whose `holds` is
/// true, and to none otherwise; every group must get one at least. (Other numbers than these want another
/// rule: a second optimizer.)
struct ParameterGroup {
  ParameterFilter holds = {};
  double learning_rate_factor = 1;          // of the optimizer's learning rate; 0 keeps them as they are
  std::optional<double> weight_decay = {};  // in place of the optimizer's
};

/// At most one of these; 0 is none. On the gradients of the whole group of micro-batches, unscaled.
struct Clipping {
  double value = 0;        // every element to [-value, value]
  double norm = 0;         // each gradient's norm to at most this
  double global_norm = 0;  // the norm of all gradients together (Pascanu, Mikolov, Bengio, ICML 2013)
};

/// Normal noise of variance eta / (1 + step)^gamma added to every gradient (Neelakantan et al.: "Adding
/// Gradient Noise Improves Learning for Very Deep Networks", 2015); 0 is none. Equal seeds and steps draw
/// equal noise.
struct GradientNoise {
  double eta = 0;
  double gamma = 0.55;
  /// None: derived from the seed of the process (random::set_seed) when the optimizer is made, or 0.
  std::optional<uint64_t> seed = {};
};

/// The loss is multiplied by a number, so that small gradients don't vanish in f16, and the gradients are
/// divided by it; powers of two lose nothing. Where they aren't finite, the update is left out, and so is the
/// schedule's step.
struct LossScale {
  double initial = 0;           // 0: no scaling; at most 2^126. It grows to 2^64 at most
  int64_t growth_interval = 0;  // clean updates until it grows; 0: it never changes
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double minimum = 1;  // it falls no further; in [2^-126, initial] where it changes

  /// Grows after every 2,000 clean updates, falls on overflow: PyTorch's GradScaler, with a lower start (its
  /// own is 65,536).
  static LossScale dynamic(double initial = 32768) { return {.initial = initial, .growth_interval = 2000}; }
  static LossScale fixed(double scale) { return {.initial = scale}; }
};

struct StepOptions {
  std::vector<ParameterGroup> groups = {};
  /// Micro-batches an update: their gradients are summed, weighted by rows, divided once by all rows. The
  /// update is that of the large batch to rounding, apart from what looks at a batch as a whole (batch
  /// normalization's moments are those of the micro-batches) and from random draws (dropout).
  int64_t accumulate = 1;
  /// The ranks that train together; null: comm::world(), which is one process unless it was joined. An update
  /// takes `accumulate` micro-batches of every rank, and is that of the large batch as above, also where they
  /// have different numbers of rows. Every rank makes the same calls. Parameters must be the same on all
  /// ranks before the first step (Trainer sees to it) and stay so, bit for bit. On the CPU.
  std::shared_ptr<comm::Group> group = nullptr;
  /// Gradients are added up in the order of a binary tree over the micro-batches of an update, those of rank
  /// 0 first: the same bits for every split of as many micro-batches into steps and ranks. Takes
  /// log2(accumulate) sums of all gradients rather than one, and wants a power of two. Over ranks the order
  /// is this one anyway.
  bool exact_sums = false;
  /// Gradients travel in buckets of about so many bytes at most, each in one exchange, those of the last
  /// layers first: a bucket is on its way while the gradients of the layers before are computed. The last
  /// ones are smaller (optim/buckets.h).
  size_t bucket_bytes = size_t{1} << 20;
  LossScale loss_scale = {};
  Clipping clip = {};
  GradientNoise noise = {};
  /// Keeps an exponential moving average of every parameter: average = decay x average + (1 - decay) x
  /// parameter after each update, starting at the first update's result (Keras's use_ema); also of parameters
  /// that the update leaves as they are, such as those frozen since. In (0, 1); 0: none. See AveragedWeights.
  double average_decay = 0;
  /// Lets `minimize` take a loss that reaches trainable variables which it isn't given, as when one network
  /// is trained through another, or two optimizers share a model. Without, they are an error: mostly they are
  /// layers that the list of parameters forgot.
  bool allow_untrained = false;
  /// Leaves parameters that the loss doesn't depend on as they are, with their states, in place of an error:
  /// heads that a step doesn't use. Their states are made with the others', and the step count, hence Adam's
  /// bias correction, is one for all. Where micro-batches are accumulated or ranks train together, another
  /// one may have used them, so there they take part with a gradient of zero. Averages go on.
  bool allow_unused = false;
  /// Keeps the gradients of this rank's newest micro-batch, unscaled and before clipping, for looking at
  /// between steps (Optimizer::kept_gradients). Takes their bytes, and they leave the arena's reuse;
  /// checkpoints don't hold them.
  bool keep_gradients = false;
};

}  // namespace isochron::optim
