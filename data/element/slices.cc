#include "isochron/data/element/slices.h"

#include <cstring>

namespace isochron::data {

SliceSource::SliceSource(const Element& tensors) : tensors_(tensors) {
  constexpr std::string_view kWhere = "from_tensor_slices";
  require(tensors.size() > 0, ErrorCode::kInvalidArgument, kWhere, "needs at least one tensor");
  for (int i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const std::string& name = tensors.name(i);
    static_cast<void>(tensor.raw());  // refuses undefined tensors and graph values
    require(tensor.rank() >= 1, ErrorCode::kInvalidArgument, kWhere, "'{}' is a scalar; it has no rows",
            name);
    require(tensor.contiguous(), ErrorCode::kInvalidArgument, kWhere,
            "'{}' is not contiguous; pass its contiguous() copy", name);
    require(tensor.extent(0) == tensors[0].extent(0), ErrorCode::kShapeMismatch, kWhere,
            "'{}' has {} rows, '{}' has {}; all tensors need the same first extent", tensors.name(0),
            tensors[0].extent(0), name, tensor.extent(0));
    layout_.names.push_back(name);
    layout_.specs.push_back({tensor.dtype(), Shape(tensor.shape().span().subspan(1))});
  }
  rows_ = tensors[0].extent(0);
  require(rows_ > 0, ErrorCode::kInvalidArgument, kWhere, "the dataset is empty: {} has no rows",
          tensors.str());
}

void SliceSource::read(const Position& position, std::span<std::byte* const> into) const {
  for (size_t i = 0; i < into.size(); ++i) {
    const size_t bytes = layout_.specs[i].size_bytes();
    if (bytes > 0)
      std::memcpy(into[i], first_row(static_cast<int>(i)) + static_cast<size_t>(position.row) * bytes, bytes);
  }
}

}  // namespace isochron::data
