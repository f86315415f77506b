// Every op call goes through here. The call runs now (eager) or becomes a node of the graph (capturing).
#pragma once

#include <span>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::graph {

/// Sees every eager call on this thread while installed; the gradient tape is such an observer.
class ApplyObserver {
 public:
  virtual ~ApplyObserver() = default;
  virtual void on_apply(const OpDef& op, const Attributes& attributes, std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs) = 0;
};
/// Installs `observer` on this thread. Several may be installed at once, because tapes nest.
void push_observer(ApplyObserver* observer);
void remove_observer(ApplyObserver* observer);
/// Whether an observer is installed on this thread.
bool observed();

/// While it lives, observers of this thread see nothing. Used for updates, which tapes don't need.
class UnobservedScope {
 public:
  UnobservedScope();
  ~UnobservedScope();
  UnobservedScope(const UnobservedScope&) = delete;
  UnobservedScope& operator=(const UnobservedScope&) = delete;
};

/// Calls `op`. Throws like its shape rule, naming the op. Strided inputs are made contiguous first.
std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes = {});
/// Like `apply`, for ops with one result.
Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, Attributes attributes = {});
/// Runs the call now, whether or not a capture or a tape is active. The kernel is kept for the next call of
/// the same op on the same shapes (graph/capture/apply_eager.cc). On the CPU, a result computed from
/// constants only is a constant.
///
/// A call with inputs on a device runs on that device, and its results are there; constants and single
/// elements on the CPU are copied to it. The call returns once its work is in the device's stream. The first
/// call with given shapes compiles the kernel. Throws kDevice for inputs on different devices, kUnsupported
/// for an op that has neither a kernel for the device nor a decomposition.
std::vector<Tensor> apply_eager(const OpDef& op, std::span<const Tensor> inputs,
                                const Attributes& attributes);

/// Replaces the content of `target` (a variable's tensor) with `value`. In eager mode, it does so at once,
/// and the two may be on different devices. In a capture, each replay does so, and later reads in the same
/// capture see the new value. Handles taken before the call become stale (in a capture, until the end of the
/// trace). A replay that throws may have performed some of its assignments. Throws kShapeMismatch,
/// kDtypeMismatch; kInvalidArgument for an undefined operand or a constant target; kUnsupported for a strided
/// target when eager, and in the bodies of `cond` and loops; kCaptureViolation for a target that is a graph
/// value.
void assign(const Tensor& target, const Tensor& value);

/// A contiguous tensor with the same elements; `tensor` itself if it is already contiguous.
Tensor contiguous(const Tensor& tensor);
/// A copy on the same device that nothing else writes to. No gradient flows through it. Throws
/// kInvalidArgument for an undefined tensor. Throws kCaptureViolation in a capture, because the copy would be
/// made only once, during the trace; in a capture use stop_gradient(), which returns the content of each
/// call.
Tensor copy(const Tensor& tensor);
namespace internal {
/// Like copy(), but allowed in a capture: for content that is the same in every call.
Tensor copy_now(const Tensor& tensor);
}  // namespace internal
/// A contiguous tensor with the same elements on `device`; `tensor` itself if it is already one. Waits for
/// the copy. No gradient flows through it. Throws kCaptureViolation for an undefined tensor and for a value
/// of a graph, kUnsupported if there is no such device, kOutOfMemory.
Tensor to_device(const Tensor& tensor, Device device);

/// The most entries that the per-thread cache of eager kernels may hold; the least recently used one is
/// replaced.
inline constexpr int kEagerCacheEntries = 1024;
/// Clears this thread's cache, and unloads the code of its kernels for devices.
void clear_eager_kernels();

}  // namespace isochron::graph

namespace isochron {
// Functions that programs call without the inner namespace.
using graph::contiguous;
using graph::copy;
using graph::to_device;
}  // namespace isochron
