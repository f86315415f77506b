// Random draws as ops. Every number is a pure function of (seed, draw, step, loop index, element). So the
// numbers don't depend on the number of threads, each replay of a capture draws new ones, and the whole state
// is two integers.
#pragma once

#include <memory>

#include "isochron/core/tensor/tensor.h"

namespace isochron {
namespace random {

/// A stream of draws. Its state is a variable, {seed, step} in i64. Each eager draw advances the step by one.
/// Each replay of a capture that draws also advances it by one, regardless of the number of draws, which are
/// distinguished by their order in the trace. Equal states give equal draws. Not thread-safe. Create
/// generators outside captured functions: one created in a trace starts over with every signature.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0);
  /// Starts over at step 0. Captures that draw from this generator use the new seed from their next call on.
  void set_seed(uint64_t seed);
  /// The state as i64 (2) on the CPU, for saving.
  Tensor state() const;
  /// Sets the device on which captured functions that draw from this generator run. Eager draws are always
  /// made on the CPU, except dropout's, which are made on the device of its input; eager draws wait for the
  /// state. Throws kInvalidArgument once a captured function has drawn from this generator.
  void move_to(Device device);
  /// Continues from a saved state. Throws kShapeMismatch, kDtypeMismatch.
  void set_state(const Tensor& state);
  /// For code that divides one stream among several users: `step` returns the number of steps so far, `seek`
  /// sets it. If the state is on the CPU, neither allocates memory; on another device, both wait for the
  /// device.
  int64_t step() const;
  void seek(int64_t step);
  /// Returns the state for the next draw, and advances it: at once in eager mode; in a capture once per
  /// replay.
  Tensor advance();

 private:
  Tensor state_;
};

/// The generator that draws use by default. Each thread has its own, so several threads can train at the same
/// time. In threads other than the main thread, its stream is derived from the seed and the order in which
/// threads first draw; after a call of set_seed in the thread, it is the stream that the main thread would
/// have after the same call. In the function of a Dataset's map, it belongs to the element being made: the
/// numbers depend only on the seed, the stage, the epoch and the element. So they are the same with any
/// number of workers, and the stream of the training thread doesn't advance.
Generator& default_generator();
/// Sets the seed of the whole program. It seeds `default_generator()` and, through derived streams,
/// everything else that draws and has no seed of its own: the initial weights of layers built from now on
/// (nn/module/initializers.h), the order of datasets, random ops in their maps, the noise of optimizers
/// created from now on, image functions (data/images/image_ops.h) and nn::generate. Without a call, each of
/// these starts with seed 0. A call in a thread other than the main thread also sets the seed of this
/// thread's initial weights and dataset orders, so programs that train in several threads, with a call in
/// each, are reproducible. Random ops in maps run in threads of the pipeline and use the most recent call of
/// any thread.
void set_seed(uint64_t seed);

}  // namespace random

/// Uniform in [low, high): 24 random bits per number in f32, 53 in f64 (the only dtypes). The functions below
/// throw kInvalidArgument, kDtypeMismatch, and kOutOfRange for a draw with too many elements.
Tensor random_uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::kF32,
                      random::Generator& generator = random::default_generator());
/// Normal by Box and Muller (1958). f32 numbers stay within 6.7 standard deviations.
Tensor random_normal(const Shape& shape, double mean = 0, double stddev = 1, DType dtype = DType::kF32,
                     random::Generator& generator = random::default_generator());
/// bool: true with `probability`, which is rounded down to a multiple of 2^-24.
Tensor bernoulli(const Shape& shape, double probability,
                 random::Generator& generator = random::default_generator());

/// While training: each element is 0 with probability `rate`, else x / (1 - rate) (inverted dropout:
/// Srivastava et al. 2014); the gradient gets the same mask. If not `training`: returns x. Throws
/// kInvalidArgument unless 0 <= rate < 1.
Tensor dropout(const Tensor& x, double rate, bool training = true,
               random::Generator& generator = random::default_generator());

}  // namespace isochron
