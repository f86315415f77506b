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

/// What planning needs to know of an element: one spec a tensor, in the element's order.
using Signature = std::vector<TensorSpec>;

/// Named tensors in a fixed order, stored inline so that handling elements never allocates (names of up to 15
/// bytes included).
class Element {
 public:
  Element() = default;
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
  const std::string& name(int index) const { return names_[checked(index)]; }
  bool contains(std::string_view name) const;
  /// Appends a tensor. Throws kInvalidArgument for a repeated name or more than kMaxElementTensors.
  void add(std::string_view name, Tensor tensor);

  bool has(const Signature& signature) const;
  Signature signature() const;
  /// "images: f32(32, 8, 8, 1), labels: i64(32)".
  std::string str() const;

 private:
  size_t index_of(std::string_view name) const;
  size_t checked(int index) const;

  std::array<std::string, kMaxElementTensors> names_;
  std::array<Tensor, kMaxElementTensors> tensors_;
  int size_ = 0;
};

}  // namespace isochron::data
