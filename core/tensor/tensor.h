// Tensor: a cheap value handle, either to a buffer (eager) or to a value of the graph being captured.
// `core` knows neither allocators nor graphs: it declares the opaque bases `Storage` (memory derives from it)
// and `ValueBase` (graph derives from it). Creation functions live in ops/shape/creation.h.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/core/base/ref.h"
#include "isochron/core/tensor/device.h"
#include "isochron/core/tensor/shape.h"

namespace isochron {

/// A block of bytes that tensors refer to.
///
/// `generation` counts how often the content was replaced as a whole (a variable assigned, a plan replayed, a
/// batch slot refilled). A tensor remembers the generation it was made under; reading it later throws kStale.
///
/// Bytes on a device other than the CPU have an address that the host must not touch.
class Storage : public RefCounted {
 public:
  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }
  /// Only one thread at a time may call this; other threads may check for staleness meanwhile.
  void next_generation() { generation_.store(generation() + 1, std::memory_order_relaxed); }
  /// For traces, in which an assignment makes earlier handles stale although the content isn't replaced yet.
  /// The caller must restore the old value.
  void set_generation(uint64_t generation) { generation_.store(generation, std::memory_order_relaxed); }
  /// Whether the content never changes, so that passes may fold it.
  bool constant() const { return constant_; }
  void set_constant() { constant_ = true; }
  /// Whether the content belongs to one call or one dataset element and is overwritten by the next.
  virtual bool overwritten() const { return false; }
  /// Who replaces the content, for the kStale text: "variable 'w'", "the next call of the captured step".
  virtual std::string owner() const { return "its owner"; }

  /// Copies between host memory and this storage's bytes from `offset` on. The host memory may be reused when
  /// the call returns. On a device the copy is ordered after all work submitted before it; `read` waits for
  /// the device.
  virtual void read(size_t offset, std::byte* to, size_t bytes) const;
  virtual void write(size_t offset, const std::byte* from, size_t bytes);

 protected:
  Storage(std::byte* data, size_t size_bytes, Device device = {})
      : data_(data), size_bytes_(size_bytes), device_(device) {}
  void rebind(std::byte* data, size_t size_bytes) {
    data_ = data;
    size_bytes_ = size_bytes;
  }

 private:
  std::byte* data_;
  size_t size_bytes_;
  std::atomic<uint64_t> generation_ = 0;
  Device device_;
  bool constant_ = false;
};

/// A value of a graph under capture; see graph/ir/graph.h.
class ValueBase : public RefCounted {};

/// What a `Tensor` points to. Immutable after construction, so handles may be shared between threads.
class TensorImpl final : public RefCounted {
 public:
  TensorImpl(TensorSpec spec, Strides strides, Ref<Storage> storage, size_t offset_bytes);
  TensorImpl(TensorSpec spec, Ref<ValueBase> value);
  ~TensorImpl() override;

  TensorSpec spec;
  Strides strides;  // elements
  bool contiguous = true;
  int64_t elems = 0;
  size_t offset_bytes = 0;
  Ref<Storage> storage;  // null for a graph value
  Ref<ValueBase> value;  // null for a buffer
};

class Tensor {
 public:
  /// An undefined tensor: "no value".
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl)
      : impl_(std::move(impl)), generation_(impl_->storage ? impl_->storage->generation() : 0) {}
  /// A contiguous tensor in `storage`, beginning at `offset_bytes`. Throws kOutOfRange if it doesn't fit.
  static Tensor over(Ref<Storage> storage, const TensorSpec& spec, size_t offset_bytes = 0);
  /// A tensor over memory owned by the caller, which must outlive it; any strides, in elements. Throws
  /// kShapeMismatch unless there is one stride per axis, kInvalidArgument for an address that is null (if
  /// there are elements) or not a multiple of the dtype's size, kOverflow for strides that reach beyond any
  /// memory.
  static Tensor from_external(void* data, const TensorSpec& spec, const Strides& strides);
  static Tensor from_external(void* data, const TensorSpec& spec);
  /// A tensor that stands for a graph value.
  static Tensor of_value(Ref<ValueBase> value, const TensorSpec& spec);

  bool defined() const { return static_cast<bool>(impl_); }
  // On an undefined tensor, the members below throw kInvalidArgument, except is_value(), impl(), generation()
  // and str(). item() throws kShapeMismatch.
  const TensorSpec& spec() const { return checked().spec; }
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  int rank() const { return shape().rank(); }
  int64_t extent(int64_t axis) const { return shape()[normalize_axis(axis, rank(), "extent")]; }
  int64_t elems() const { return checked().elems; }
  size_t size_bytes() const { return static_cast<size_t>(elems()) * dtype_size(dtype()); }
  const Strides& strides() const { return checked().strides; }
  bool contiguous() const { return checked().contiguous; }
  /// For a graph value, this is the CPU, because its plan isn't made yet.
  Device device() const { return storage() ? impl_->storage->device() : Device{}; }

  /// True while this tensor stands for a value of a graph under capture (it has no content yet).
  bool is_value() const { return impl_ && impl_->value; }
  const Ref<ValueBase>& value() const { return checked().value; }
  const Ref<Storage>& storage() const { return checked().storage; }
  const Ref<TensorImpl>& impl() const { return impl_; }
  uint64_t generation() const { return generation_; }
  /// The same tensor seen at the storage's present generation: a fresh handle on a variable.
  Tensor refreshed() const { return checked(), Tensor(impl_); }
  void refresh() { generation_ = storage() ? impl_->storage->generation() : 0; }
  bool stale() const { return storage() && impl_->storage->generation() != generation_; }

  /// Address of the first element. Throws kInvalidArgument for an undefined tensor, kCaptureViolation for a
  /// graph value, kStale when the content has been replaced, kDevice for a tensor that isn't in host memory.
  std::byte* raw() const {
    if (!impl_ || !impl_->storage || impl_->storage->generation() != generation_ ||
        !impl_->storage->device().is_cpu()) [[unlikely]]
      throw_unreadable();
    return impl_->storage->data() + impl_->offset_bytes;
  }
  /// Copies all bytes of a contiguous tensor, on any device, to the host and waits for the copy. Throws
  /// kCaptureViolation and kStale as `raw`.
  void read(std::byte* to) const;
  /// Like `raw`, but for a tensor on any device. The address is for that device's kernels and copies; the
  /// host must not read it.
  std::byte* device_address() const {
    if (!impl_ || !impl_->storage || impl_->storage->generation() != generation_) [[unlikely]]
      throw_unreadable();
    return impl_->storage->data() + impl_->offset_bytes;
  }
  /// Typed address of a contiguous tensor. Throws as `raw`, kDtypeMismatch, and kInvalidArgument when
  /// strided.
  template <typename T>
  T* data() const {
    if (!impl_ || impl_->spec.dtype != dtype_of<T> || !impl_->contiguous) [[unlikely]]
      throw_not_typed(dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  /// The elements of a contiguous tensor. Throws as `data`.
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(elems())};
  }
  /// The single element, converted to `T`: whole numbers exactly, fractions cut off. If the tensor is on a
  /// device other than the CPU, waits for that device, as `to_vector` and `str` do. Throws kShapeMismatch
  /// unless there is exactly one element, kOutOfRange if `T` is an integer type that can't hold it.
  template <typename T>
  T item() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const int64_t value = item_i64();
      if (!std::in_range<T>(value)) [[unlikely]]
        throw_out_of_range();
      return static_cast<T>(value);
    } else {
      return static_cast<T>(item_f64());
    }
  }
  /// All elements in row-major order, converted to double; any strides. Throws as `raw`.
  std::vector<double> to_vector() const;
  /// Shape, dtype and the first elements, for people.
  std::string str() const;

 private:
  const TensorImpl& checked() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();
  [[noreturn]] void throw_unreadable() const;
  [[noreturn]] void throw_not_typed(DType wanted) const;
  [[noreturn]] void throw_out_of_range() const;
  double item_f64() const;
  int64_t item_i64() const;

  Ref<TensorImpl> impl_;
  uint64_t generation_ = 0;
};

}  // namespace isochron
