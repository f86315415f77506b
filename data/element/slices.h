// Rows of tensors: the source of `from_tensor_slices`.
#pragma once

#include "isochron/data/element/source.h"

namespace isochron::data {

class SliceSource final : public RowSource {
 public:
  /// See Dataset's constructor.
  explicit SliceSource(const Element& tensors);

  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return rows_; }
  void read(const Position& position, std::span<std::byte* const> into) const override;
  std::byte* first_row(int index) const override { return tensors_[index].raw(); }

 private:
  Element tensors_;
  Layout layout_;
  int64_t rows_ = 0;
};

}  // namespace isochron::data
