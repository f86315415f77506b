// Element: the unit that a dataset yields, such as a row or a batch; a few named tensors.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/tensor/signature.h"

namespace isochron::data {

/// The row of an element that is made from no row, or from an unknown one.
inline constexpr int64_t kNoRow = -1;

inline constexpr int kMaxElementTensors = 8;
inline constexpr size_t kMaxElementNames = 65'536;

/// In a signature: an extent that differs from element to element.
inline constexpr int64_t kAnyExtent = -1;

/// A spec whose extents may be kAnyExtent. Throws kInvalidArgument for other negative ones and beyond rank 8.
TensorSpec spec_of(DType dtype, std::initializer_list<int64_t> extents);

/// Named tensors in a fixed order, stored inline so that handling elements never allocates. Names are kept
/// once in the process, at most kMaxElementNames different ones.
class Element {
 public:
  Element() {}  // not "= default", which would zero the storage of the fields
  Element(const Element& other) {
    for (; size_ < other.size_; ++size_) std::construct_at(field(size_), *other.field(size_));
  }
  Element(Element&& other) noexcept { take(other); }
  Element& operator=(const Element& other) {
    if (this != &other) *this = Element(other);
    return *this;
  }
  Element& operator=(Element&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~Element() { clear(); }
  /// Throws kInvalidArgument for a repeated name or more than kMaxElementTensors.
  Element(std::initializer_list<std::pair<std::string_view, Tensor>> fields);

  int size() const { return size_; }
  /// By name. Throws kInvalidArgument listing the names.
  Tensor& operator[](std::string_view name) { return named(name)->tensor; }
  const Tensor& operator[](std::string_view name) const { return named(name)->tensor; }
  Tensor& operator[](const char* name) { return (*this)[std::string_view(name)]; }
  const Tensor& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  /// By position, which must lie in [0, size()). Throws kOutOfRange.
  Tensor& operator[](int index) { return field(checked(index))->tensor; }
  const Tensor& operator[](int index) const { return field(checked(index))->tensor; }
  const std::string& name(int index) const { return *field(checked(index))->name; }
  bool contains(std::string_view name) const;
  /// Appends a tensor. Throws kInvalidArgument for a repeated name or more than kMaxElementTensors.
  void add(std::string_view name, Tensor tensor);

  bool has(const Signature& signature) const;
  Signature signature() const;
  /// "images: f32(32, 8, 8, 1), labels: i64(32)".
  std::string str() const;

 private:
  struct Field {
    const std::string* name;
    Tensor tensor;
  };

  Field* field(int index) { return std::launder(reinterpret_cast<Field*>(fields_)) + index; }
  const Field* field(int index) const {
    return std::launder(reinterpret_cast<const Field*>(fields_)) + index;
  }
  Field* named(std::string_view name) { return field(index_of(name)); }
  const Field* named(std::string_view name) const { return field(index_of(name)); }
  int index_of(std::string_view name) const;
  int checked(int index) const {
    if (index < 0 || index >= size_) [[unlikely]]
      throw_out_of_range(index);
    return index;
  }
  [[noreturn]] void throw_out_of_range(int index) const;
  /// Moves the fields of `other` into this element, which must be empty.
  void take(Element& other) noexcept {
    for (int i = 0; i < other.size_; ++i) {
      std::construct_at(field(i), std::move(*other.field(i)));
      std::destroy_at(other.field(i));
    }
    size_ = std::exchange(other.size_, 0);
  }
  void clear() noexcept {
    while (size_ > 0) std::destroy_at(field(--size_));
  }

  /// Storage for kMaxElementTensors fields; only the first `size_` are constructed.
  alignas(Field) std::byte fields_[kMaxElementTensors * sizeof(Field)];
  int size_ = 0;
};

}  // namespace isochron::data
