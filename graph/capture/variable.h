// Variable: a tensor whose content changes and whose address doesn't: parameters, optimizer states, counters,
// learning rates. Captured functions refer to it by address, so changing it never means capturing again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// While it lives, variables created on this thread live on `device`, wherever their initial content is.
/// Capturing a function opens one for the device of the plan, so layers create their parameters on that
/// device.
class VariableDeviceScope {
 public:
  explicit VariableDeviceScope(Device device);
  ~VariableDeviceScope();
  VariableDeviceScope(const VariableDeviceScope&) = delete;
  VariableDeviceScope& operator=(const VariableDeviceScope&) = delete;

 private:
  std::optional<Device> before_;
};

/// A handle on shared, fixed storage; copying the handle copies no content. Stands for its present content
/// wherever a Tensor is taken. The storage lives as long as any handle, tensor or plan refers to it.
class Variable {
 public:
  /// An undefined variable: "none", as one that was moved from is. What is asked of it but `defined` throws
  /// kInvalidArgument.
  Variable() = default;
  /// Storage of its own, filled with a copy of `initial`; made at once, also inside a capture. `name` is a
  /// path such as "dense_1/kernel". Throws kInvalidArgument for an undefined tensor, kCaptureViolation for a
  /// value of a graph, kOutOfMemory.
  Variable(const Tensor& initial, std::string name, bool trainable = true);

  bool defined() const { return static_cast<bool>(state_); }
  const std::string& name() const { return state().name; }
  /// Another name, for all handles. What was made under the old one keeps it: optimizer states, nodes of
  /// captures.
  void rename(std::string name) const;
  const TensorSpec& spec() const { return state().tensor.spec(); }
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  int64_t elems() const { return state().tensor.elems(); }
  size_t size_bytes() const { return state().tensor.size_bytes(); }

  /// Whether optimizers change it. Takes effect for captures made afterwards.
  bool trainable() const { return state().trainable; }
  void set_trainable(bool trainable) const;

  /// A handle on the present content; stale after the next assignment outside a capture. One that is taken in
  /// a capture is stale after the next assignment in it.
  Tensor tensor() const { return state().tensor.refreshed(); }
  operator Tensor() const { return tensor(); }  // NOLINT: reads as its content
  /// As graph::assign: eager, replaces the content at once; in a capture, in each replay, and later reads in
  /// the same capture see the new value.
  void assign(const Tensor& value) const;
  Device device() const { return state().tensor.device(); }
  /// Moves the content to `device`, where all handles find it. Throws kInvalidArgument where a captured
  /// function or another tensor refers to where it is now: move it before it is first used. Throws as
  /// to_device.
  void move_to(Device device) const;

  /// The same variable, not equal content.
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  struct State final : RefCounted {
    std::string name;
    Tensor tensor;
    bool trainable = true;
  };
  State& state() const {
    if (!state_) fail_undefined();
    return *state_;
  }
  [[noreturn]] static void fail_undefined();
  Ref<State> state_;
};

/// What a tensor tells of the variable whose content it is.
struct VariableInfo {
  std::string name;
  bool trainable = false;
};
/// None where `tensor` is no variable's content. A view of a part counts as its variable.
std::optional<VariableInfo> variable_behind(const Tensor& tensor);

}  // namespace isochron
