// Where the time of a captured step goes, kernel by kernel, compared with the machine's limits:
//
//   auto step = capture(...);
//   fmt::print("{}", train::profile(step, x, y).text());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "isochron/core/tensor/device.h"
#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/step/captured.h"

namespace isochron::train {

/// The rates that a device, or the machine with compute_threads(), achieves: medians of calls that alternate
/// with the step's replays, so that other programs slow both down equally.
struct MachineLimits {
  double flops_per_ns = 0;  // of a large f32 matrix product
  double bytes_per_ns = 0;  // read and written by an f32 addition over `working_set_bytes`
  /// The same for 16-bit operands, of the dtype that the step's products have; 0 if it has no such products.
  double half_flops_per_ns = 0;
};
struct ProfiledKernel {
  std::string name;    // of its node: "dense/matmul_3"
  std::string op;      // empty for a copy
  std::string shapes;  // of its inputs
  double ns = 0;       // median
  /// The time that the limits allow: bytes divided by the bandwidth plus, except for element functions and
  /// reductions, flops divided by the rate of products (of 16-bit products if the operands are 16-bit).
  double limit_ns = 0;
  double flops = 0;
  double bytes = 0;
  bool half = false;  // whether the limit is the rate of 16-bit products
  double loss_ns() const { return ns - limit_ns; }
};

struct StepProfile {
  MachineLimits limits;
  size_t working_set_bytes = 0;         // of the plan: its arena, variables and constants
  std::vector<ProfiledKernel> kernels;  // largest loss first
  double ns() const;
  double limit_ns() const;
  /// The share of the time that the limits explain: 1 for a step that can't be faster.
  double share() const;
  /// The limits, the first `kernels` kernels, the sums by op and of all; columns aligned.
  std::string text(size_t kernels = SIZE_MAX) const;
};

struct ProfileOptions {
  int rounds =
      101;  // replays, for the medians; beside them 15 or more trials of the limits, about 1 s in all
  double seconds = 3;  // no replay begins after this time, but there are at least five
};

/// Replays the plan of the newest call of `step` and times each kernel. The arguments of that call must still
/// be alive. Afterwards, variables, optimizer states and random numbers have their previous contents; a copy
/// of them is kept meanwhile, which takes as much memory again. Views of the step's results have new content.
/// On a device each kernel is launched alone. Throws kInvalidArgument before the first call and for rounds <
/// 1, kCaptureViolation in a capture, kOutOfMemory.
StepProfile profile(CapturedFunction& step, const ProfileOptions& options = {});

/// Calls `step` with `arguments`, and profiles that call's plan. The call itself is one step of the training.
template <typename F, typename... Arguments>
requires(sizeof...(Arguments) > 0 &&
         (std::is_convertible_v<const Arguments&, const Tensor&> && ...)) StepProfile
    profile(Captured<F>& step, const Arguments&... arguments) {
  step(arguments...);
  return profile(static_cast<CapturedFunction&>(step));
}

/// The limits of a device according to its manufacturer's data sheet.
struct DataSheet {
  std::string_view name;         // as `bench --predict` takes it
  std::string_view driver_name;  // as the driver calls the device
  double flops_per_ns;           // f32 without tensor cores
  double tf32_flops_per_ns;      // matrix products on tensor cores, without sparsity
  double half_flops_per_ns;      // the same for bf16 and f16
  double bytes_per_ns;           // to and from its memory
};
/// The devices that are known, with the numbers of NVIDIA's data sheets.
std::span<const DataSheet> data_sheets();

/// The time that a step should take on a device, by a roofline model (Williams, Waterman and Patterson, 2009)
/// of its plan.
struct StepPrediction {
  const DataSheet* device = nullptr;
  double ns = 0;        // the larger of the next two
  double path_ns = 0;   // of the instructions that must run one after another, including their launches
  double work_ns = 0;   // of all instructions, if nothing but bandwidth and arithmetic took time
  double launches = 0;  // number of launches on that path
  std::string text() const;
};

/// Predicts how long the plan of the newest call, which must be made for a device, takes on the device that
/// `device` describes. Nothing is run. An instruction takes the longer of two times: its bytes divided by the
/// bandwidth, and its flops divided by the rate of its precision (for element functions and reductions, only
/// the bytes count). In addition, each of its nodes in the CUDA graph takes kNodeNs. The model ignores
/// caches, which make kernels faster, and kernels with too few blocks to fill the device, which are slower.
/// Throws kInvalidArgument before the first call; kUnsupported for a plan of the CPU.
StepPrediction predict(CapturedFunction& step, const DataSheet& device);

/// The time from one kernel of a CUDA graph to the next kernel that waits for it: 1.3 us on an H100 (Spector
/// et al., "Look Ma, No Bubbles!", 2025).
inline constexpr double kNodeNs = 1300;

}  // namespace isochron::train
