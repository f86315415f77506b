// Variable: a tensor with changing content and a fixed address, for parameters, optimizer states, counters
// and learning rates. Captured functions refer to it by address, so changing it never requires a new capture.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/capture/settings.h"

namespace isochron {

/// While it lives, variables created on this thread are placed on `device`, wherever their initial content
/// is. Capturing a function opens such a scope for the device of the plan, so layers create their parameters
/// there.
class VariableDeviceScope {
 public:
  explicit VariableDeviceScope(Device device);
  ~VariableDeviceScope();
  VariableDeviceScope(const VariableDeviceScope&) = delete;
  VariableDeviceScope& operator=(const VariableDeviceScope&) = delete;

 private:
  std::optional<Device> before_;
};

/// A handle to shared, fixed storage; copying the handle copies no content. Converts to a Tensor of its
/// present content. The storage lives as long as any handle, tensor or plan refers to it.
class Variable {
 public:
  /// An undefined variable ("none"), which is also the state after a move. Every member except `defined`
  /// throws kInvalidArgument.
  Variable() = default;
  /// Allocates storage and fills it with a copy of `initial` immediately, also inside a capture. `name` is a
  /// path such as "dense_1/kernel". Throws kInvalidArgument for an undefined tensor, kCaptureViolation for a
  /// value of a graph, kOutOfMemory.
  Variable(const Tensor& initial, std::string name, bool trainable = true);
  /// Allocates storage and has `next` write its elements, one piece after the other; no other memory of that
  /// size is needed. Throws what `next` throws, kOutOfMemory.
  Variable(const TensorSpec& spec, const std::function<void(std::span<double> next)>& next, std::string name,
           bool trainable = true);

  bool defined() const { return static_cast<bool>(state_); }
  const std::string& name() const { return state().name; }
  /// Changes the name, for all handles. Optimizer states and nodes of captures made before keep the old name.
  void rename(std::string name) const;
  const TensorSpec& spec() const { return state().tensor.spec(); }
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  int64_t elems() const { return state().tensor.elems(); }
  size_t size_bytes() const { return state().tensor.size_bytes(); }

  /// Whether optimizers update the variable. After a change, a captured function whose trace has read this
  /// traces again.
  bool trainable() const;
  void set_trainable(bool trainable) const;

  /// A handle to the present content; stale after the next assignment outside a capture. A handle taken in a
  /// capture is stale after the next assignment in that capture.
  Tensor tensor() const { return state().tensor.refreshed(); }
  operator Tensor() const { return tensor(); }  // NOLINT: a variable reads as its content
  /// Replaces the content, like graph::assign: in eager mode, at once; in a capture, in each replay, and
  /// later reads in the same capture see the new value.
  void assign(const Tensor& value) const;
  /// The number of assignments outside captures since the first call of this function. For variables whose
  /// content decides which ops a trace records.
  const graph::Setting& assignments() const;
  Device device() const { return state().tensor.device(); }
  /// Moves the content to `device`; all handles see the move. Throws kInvalidArgument if a captured function
  /// or another tensor refers to the present memory, so move a variable before its first use. Otherwise
  /// throws like to_device.
  void move_to(Device device) const;

  /// Whether both are the same variable; equal content isn't enough.
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  struct State final : RefCounted {
    State() = default;
    ~State() override;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    std::string name;
    Tensor tensor;
    graph::Setting trainable{1};
    std::optional<graph::Setting> assignments;
  };
  State& state() const {
    if (!state_) fail_undefined();
    return *state_;
  }
  [[noreturn]] static void fail_undefined();
  Ref<State> state_;
};

/// The properties of the variable behind a tensor.
struct VariableInfo {
  std::string name;
  bool trainable = false;
  bool held = true;     // whether a Variable refers to it
  uint64_t number = 0;  // in the order in which the process made its variables, from 1
};
/// How many variables the process has made.
uint64_t variables_made();
/// nullopt if `tensor` isn't the content of a variable. A view of a part counts as its variable.
std::optional<VariableInfo> variable_behind(const Tensor& tensor);

}  // namespace isochron
