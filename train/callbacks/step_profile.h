// Where the time of a captured step goes, kernel by kernel, beside what the machine could do:
//
//   auto step = capture(...);
//   fmt::print("{}", train::profile(step, x, y).text());
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "isochron/core/tensor/device.h"
#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/step/captured.h"

namespace isochron::train {

/// What the machine reaches with compute_threads(), or a device: medians of calls made in turns with the
/// step's replays, so that other programs slow both down alike.
struct MachineLimits {
  double flops_per_ns = 0;  // of a large f32 matrix product
  double bytes_per_ns = 0;  // read and written by an f32 addition over `working_set_bytes`
  /// Of the same product of 16-bit operands, of the dtype that was asked for; 0 where none was.
  double half_flops_per_ns = 0;
};
struct ProfiledKernel {
  std::string name;    // of its node: "dense/matmul_3"
  std::string op;      // empty for a copy
  std::string shapes;  // of its inputs
  double ns = 0;       // median
  /// The shortest time that the limits allow: bytes over the bandwidth, and for all but element functions and
  /// reductions flops over the rate of products, of 16-bit ones where the operands are.
  double limit_ns = 0;
  double flops = 0;
  double bytes = 0;
  bool half = false;  // held against products of 16-bit operands
  double loss_ns() const { return ns - limit_ns; }
};

struct StepProfile {
  MachineLimits limits;
  size_t working_set_bytes = 0;         // of the plan: its arena, variables and constants
  std::vector<ProfiledKernel> kernels;  // largest loss first
  double ns() const;
  double limit_ns() const;
  /// What part of the time the limits explain: 1 for a step that can't be faster.
  double share() const;
  /// The limits, the first `kernels` kernels, the sums by op and of all; columns aligned.
  std::string text(size_t kernels = SIZE_MAX) const;
};

struct ProfileOptions {
  int rounds =
      101;  // replays, for the medians; beside them 15 or more trials of the limits, about 1 s in all
  double seconds = 3;  // no further one begins after so long, but for the first five
};

/// Replays the plan of the newest call of `step`, whose arguments must be alive, each kernel timed by itself.
/// Variables, optimizer states and random numbers are as before afterwards; what they take is held twice
/// meanwhile. Views of the step's results have new content. On a device each kernel is launched alone. Throws
/// kInvalidArgument before the first call, for rounds < 1 and within a capture; kOutOfMemory.
StepProfile profile(CapturedFunction& step, const ProfileOptions& options = {});

/// Calls `step` with `arguments`, and profiles that call's plan. The call itself is one step of the training.
template <typename F, typename... Arguments>
requires(sizeof...(Arguments) > 0 &&
         (std::is_convertible_v<const Arguments&, const Tensor&> && ...)) StepProfile
    profile(Captured<F>& step, const Arguments&... arguments) {
  step(arguments...);
  return profile(static_cast<CapturedFunction&>(step));
}

}  // namespace isochron::train
