// Every op call goes through here: it runs now (eager), or becomes a node of the graph (capturing).
#pragma once

#include <span>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::graph {

/// Sees every eager call on this thread while installed; the gradient tape is one.
class ApplyObserver {
 public:
  virtual ~ApplyObserver() = default;
  virtual void on_apply(const OpDef& op, const Attributes& attributes, std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs) = 0;
};
/// Installs `observer` on this thread (tapes nest).
void push_observer(ApplyObserver* observer);
void remove_observer(ApplyObserver* observer);
/// True while some observer listens on this thread.
bool observed();

/// While it lives, observers of this thread see nothing: for updates, which tapes have no use for.
class UnobservedScope {
 public:
  UnobservedScope();
  ~UnobservedScope();
  UnobservedScope(const UnobservedScope&) = delete;
  UnobservedScope& operator=(const UnobservedScope&) = delete;
};

/// Calls `op`. Throws what its shape rule throws, naming the op. Strided inputs are made contiguous first.
std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes = {});
/// The same for ops with one result.
Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, Attributes attributes = {});
/// Runs now, whether or not a capture or a tape is active, by a kernel that is kept for the next call of the
/// same op on the same shapes (graph/capture/apply_eager.cc). On the CPU, what is computed of constants alone
/// is a constant.
///
/// A call whose inputs live on a device runs there, and so do the results; constants and single elements on
/// the CPU are copied there. It returns once its work is in the device's stream; the first one of its shapes
/// compiles the kernel. Throws kDevice for inputs on different devices, kUnsupported for an op that the
/// device has no kernel for.
std::vector<Tensor> apply_eager(const OpDef& op, std::span<const Tensor> inputs,
                                const Attributes& attributes);

/// Replaces the content of `target` (a variable's tensor) by `value`. Eager: at once; the two may live on
/// different devices. Capturing: in each replay, and later reads in the same capture see the new value.
/// Handles taken before are stale; when capturing, until the end of the trace. A replay that throws may have
/// done some of its assignments.
/// Throws kShapeMismatch, kDtypeMismatch; kInvalidArgument for an undefined operand or a constant target;
/// kUnsupported for a strided target when eager, and in the bodies of `cond` and loops; kCaptureViolation for
/// a target that is a graph value.
void assign(const Tensor& target, const Tensor& value);

/// A contiguous tensor with the same elements; `tensor` itself when it is one already.
Tensor contiguous(const Tensor& tensor);
/// A copy on the same device that nothing else writes to. Throws kInvalidArgument for an undefined tensor.
/// Throws kCaptureViolation in a capture, where the copy would be made only once, during the trace; use
/// stop_gradient() there, which gives each call's content.
Tensor copy(const Tensor& tensor);
namespace internal {
/// The same, also in a capture: of what is to be the same in every call.
Tensor copy_now(const Tensor& tensor);
}  // namespace internal
/// A contiguous tensor with the same elements on `device`; `tensor` itself where it is one already. Waits for
/// the copy. Throws kCaptureViolation for an undefined tensor and for a value of a graph, kUnsupported where
/// there is no such device, kOutOfMemory.
Tensor to_device(const Tensor& tensor, Device device);

/// Entries the per-thread cache of eager kernels may hold.
inline constexpr int kEagerCacheEntries = 256;
/// Forgets this thread's, and unloads the code of those for devices.
void clear_eager_kernels();

}  // namespace isochron::graph

namespace isochron {
// What programs call by its plain name.
using graph::contiguous;
using graph::copy;
using graph::to_device;
}  // namespace isochron
