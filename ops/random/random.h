// Random draws as ops. Every number is a pure function of (seed, draw, step, loop index, element): any number
// of threads draws the same ones, a replayed capture draws new ones, and the whole state is two integers.
#pragma once

#include <memory>

#include "isochron/core/tensor/tensor.h"

namespace isochron {
namespace random {

/// A stream of draws. Its state is a variable, {seed, step} in i64. An eager draw advances the step, and so
/// does each replay of a capture that draws: by one, regardless of the number of its draws, which are
/// distinguished by their order in the trace. Equal states give equal draws. Not for use by two threads at a
/// time. Make it outside of captured functions: one that is made in a trace starts over with every signature.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0);
  /// Starts over at step 0; captures drawing from this generator notice at their next call.
  void set_seed(uint64_t seed);
  /// i64(2) on the CPU, to be saved.
  Tensor state() const;
  /// Sets the device on which captured functions that draw from this generator run. Eager draws are always
  /// made on the CPU, except dropout's, which are made on the device of its input; eager draws wait for the
  /// state. Throws kInvalidArgument once a captured function has drawn from this generator.
  void move_to(Device device);
  /// Continues from a saved state. Throws kShapeMismatch, kDtypeMismatch.
  void set_state(const Tensor& state);
  /// `step` returns the number of steps so far, and `seek` sets the step of the next draw: for code that
  /// divides one stream among several users. On the CPU both allocate nothing; with the state on another
  /// device, they wait for it.
  int64_t step() const;
  void seek(int64_t step);
  /// Returns the state for the next draw, and advances it: at once in eager mode; in a capture once per
  /// replay.
  Tensor advance();

 private:
  Tensor state_;
};

/// The generator that draws use by default. Each thread has its own, so several can train at a time. That of
/// another thread than the main one has a stream derived from the seed and the order in which threads first
/// draw, or after set_seed in this thread, the stream that the main thread has after the same call. In the
/// function of a Dataset's map, it is one of the element being made: the numbers depend on the seed, the
/// stage, the epoch and the element alone, so they are the same with any number of workers, and nothing is
/// taken from the stream of the training thread.
Generator& default_generator();
/// The single seed of a program. Seeds `default_generator()` and, by streams derived from it, everything else
/// that draws and has no seed of its own: the initial weights of layers built from now on
/// (nn/module/initializers.h), the order of datasets, random ops in their maps, and the noise of optimizers
/// made from now on, functions of images (data/images/image_ops.h) and nn::generate. Without a call, each of
/// these starts with seed 0. In another thread than the main one, it also gives this thread initial weights
/// and orders of its own, so that programs which train in several threads, with a call in each, are
/// reproducible; random ops in maps, which run in threads of the pipeline, follow the newest call of any.
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
/// Srivastava et al. 2014); the gradient is masked alike. Otherwise x. Throws kInvalidArgument unless 0 <=
/// rate < 1.
Tensor dropout(const Tensor& x, double rate, bool training = true,
               random::Generator& generator = random::default_generator());

}  // namespace isochron
