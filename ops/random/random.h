// Random draws as ops. Every number is a pure function of (seed, draw, step, loop index, element): any number
// of threads draws the same ones, a replayed capture draws new ones, and the whole state is two integers.
#pragma once

#include <memory>

#include "isochron/core/tensor/tensor.h"

namespace isochron {
namespace random {

/// A stream of draws. Its state is a variable, {seed, step} in i64: an eager draw advances the step, and so
/// does each replay of a capture that draws, once however many draws it holds (those are told apart by their
/// order in the trace). Equal states give equal draws. Not for use by two threads at a time.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0);
  /// Starts over at step 0; captures drawing from this generator notice at their next call.
  void set_seed(uint64_t seed);
  /// i64(2) on the CPU, to be saved.
  Tensor state() const;
  /// Where captured functions that draw from it run. Eager draws are the CPU's in any case, but for
  /// dropout's, which live where its input does; they wait for the state. Throws kInvalidArgument once a
  /// captured function has drawn from it.
  void move_to(Device device);
  /// Continues from a saved state. Throws kShapeMismatch, kDtypeMismatch.
  void set_state(const Tensor& state);
  /// How many draws came before, and where the next one begins: for streams that are divided up. Allocate
  /// nothing on the CPU. Throw kDevice elsewhere.
  int64_t step() const;
  void seek(int64_t step);
  /// The state for the next draw: advanced, at once or (once) in the capture that is open.
  Tensor advance();

 private:
  Tensor state_;
};

/// The generator that draws use unless told otherwise.
Generator& default_generator();
/// The one seed of a program: seeds `default_generator()`, and by streams derived from it whatever else draws
/// and is given no seed of its own: the initial weights of layers built from now on
/// (nn/module/initializers.h), the order of datasets and the noise of optimizers made from now on, functions
/// of images (data/images/image_ops.h) and nn::generate. Without a call each of them begins with seed 0.
void set_seed(uint64_t seed);

}  // namespace random

/// Uniform in [low, high): 24 random bits a number in f32, 53 in f64 (the only dtypes). Throw
/// kInvalidArgument, kDtypeMismatch.
Tensor random_uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::kF32,
                      random::Generator& generator = random::default_generator());
/// Normal by Box and Muller (1958). f32 numbers stay within 6.7 standard deviations.
Tensor random_normal(const Shape& shape, double mean = 0, double stddev = 1, DType dtype = DType::kF32,
                     random::Generator& generator = random::default_generator());
/// bool: true with `probability`, of which the part below 2^-24 is cut off.
Tensor bernoulli(const Shape& shape, double probability,
                 random::Generator& generator = random::default_generator());

/// While training: each element is 0 with probability `rate`, else x / (1 - rate) (inverted dropout:
/// Srivastava et al. 2014); the gradient is masked alike. Otherwise x. Throws kInvalidArgument unless 0 <=
/// rate < 1.
Tensor dropout(const Tensor& x, double rate, bool training = true,
               random::Generator& generator = random::default_generator());

}  // namespace isochron
