// Element: what a dataset yields, one row or one batch: a few named tensors.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/tensor.h"

namespace isochron::data {

inline constexpr int kMaxElementTensors = 8;
inline constexpr size_t kMaxElementNames = 65'536;

/// In a signature: an extent that differs from element to element.
inline constexpr int64_t kAnyExtent = -1;

/// What planning needs to know of an element: one spec a tensor, in the element's order.
using Signature = std::vector<TensorSpec>;
/// A spec whose extents may be kAnyExtent. Throws kInvalidArgument for other negative ones and beyond rank 8.
TensorSpec spec_of(DType dtype, std::initializer_list<int64_t> extents);

/// Named tensors in a fixed order, stored inline so that handling elements never allocates. Names are kept
/// once in the process, at most kMaxElementNames different ones.
class Element {
 public:
  Element() = default;
  Element(const Element& other) : size_(other.size_) {
    for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
      names_[i] = other.names_[i];
      tensors_[i] = other.tensors_[i];
    }
  }
  Element(Element&& other) noexcept : size_(std::exchange(other.size_, 0)) {
    for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
      names_[i] = other.names_[i];
      tensors_[i] = std::move(other.tensors_[i]);
    }
  }
  Element& operator=(const Element& other) {
    if (this != &other) *this = Element(other);
    return *this;
  }
  Element& operator=(Element&& other) noexcept {
    const int size = std::exchange(other.size_, 0);
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      names_[i] = other.names_[i];
      tensors_[i] = std::move(other.tensors_[i]);
    }
    for (int i = size; i < size_; ++i) tensors_[static_cast<size_t>(i)] = Tensor();
    size_ = size;
    return *this;
  }
  ~Element() = default;
  /// Throws kInvalidArgument for a repeated name or more than kMaxElementTensors.
  Element(std::initializer_list<std::pair<std::string_view, Tensor>> fields);

  int size() const { return size_; }
  /// By name. Throws kInvalidArgument listing the names.
  Tensor& operator[](std::string_view name) { return tensors_[index_of(name)]; }
  const Tensor& operator[](std::string_view name) const { return tensors_[index_of(name)]; }
  Tensor& operator[](const char* name) { return (*this)[std::string_view(name)]; }
  const Tensor& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  /// By position, which must lie in [0, size()). Throws kOutOfRange.
  Tensor& operator[](int index) { return tensors_[checked(index)]; }
  const Tensor& operator[](int index) const { return tensors_[checked(index)]; }
  const std::string& name(int index) const { return *names_[checked(index)]; }
  bool contains(std::string_view name) const;
  /// Appends a tensor. Throws kInvalidArgument for a repeated name or more than kMaxElementTensors.
  void add(std::string_view name, Tensor tensor);

  bool has(const Signature& signature) const;
  Signature signature() const;
  /// "images: f32(32, 8, 8, 1), labels: i64(32)".
  std::string str() const;

 private:
  size_t index_of(std::string_view name) const;
  size_t checked(int index) const {
    if (index < 0 || index >= size_) [[unlikely]]
      throw_out_of_range(index);
    return static_cast<size_t>(index);
  }
  [[noreturn]] void throw_out_of_range(int index) const;

  std::array<const std::string*, kMaxElementTensors> names_{};
  std::array<Tensor, kMaxElementTensors> tensors_;
  int size_ = 0;
};

}  // namespace isochron::data
