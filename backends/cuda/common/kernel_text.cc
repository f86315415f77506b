#include "isochron/backends/cuda/common/kernel_text.h"

#include <bit>

#include "isochron/core/base/error.h"

namespace isochron::ops {

std::vector<IndexAxis> joined_axes(std::span<const IndexAxis> axes) {
  std::vector<IndexAxis> result;
  for (const IndexAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty() && result.back().stride == axis.stride * axis.extent) {
      result.back() = {result.back().extent * axis.extent, axis.stride};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

std::vector<IndexAxis> joined_axes(const Shape& shape, const Strides& strides) {
  std::vector<IndexAxis> axes;
  for (int a = 0; a < shape.rank(); ++a) axes.push_back({shape[a], strides[a]});
  return joined_axes(axes);
}

std::string offset_text(const std::string& index, const std::vector<IndexAxis>& axes,
                        std::string_view suffix) {
  std::string text;
  int64_t below = 1;  // elements of the inner axes
  for (size_t a = axes.size(); a-- > 0;) {
    const auto& [extent, stride] = axes[a];
    std::string term = below == 1 ? index : fmt::format("{} / {}{}", index, below, suffix);
    if (a > 0)
      term = fmt::format("({}) % {}{}", term, extent, suffix);  // the outermost index is in range anyway
    if (stride != 0) text += fmt::format("{}({}) * {}{}", text.empty() ? "" : " + ", term, stride, suffix);
    below *= extent;
  }
  return text.empty() ? fmt::format("0{}", suffix) : text;
}

PlaceMessage place_message(std::string_view index, const Dims& extents) {
  PlaceMessage message;
  int64_t below = 1;
  for (int axis = static_cast<int>(extents.rank()) - 1; axis >= 0; --axis) {
    message.format = fmt::format("%u{}{}", message.format.empty() ? "" : ", ", message.format);
    message.arguments.insert(
        message.arguments.begin(),
        fmt::format("static_cast<unsigned>({} / {}ull % {}ull)", index, below, extents[axis]));
    below *= extents[axis];
  }
  return message;
}

std::string_view storage_type(DType dtype) {
  constexpr std::string_view kTypes[kDTypeCount] = {"double",    "float", "float16",       "bfloat16",
                                                    "long long", "int",   "unsigned char", "bool"};
  return kTypes[static_cast<int>(dtype)];
}

std::string_view computed_type(DType dtype) { return is_half(dtype) ? "float" : storage_type(dtype); }

std::string_view moved_type(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned";
    default:
      return "unsigned long long";
  }
}

std::string exact_text(double value) {
  return fmt::format("double_of({:#x}ull)", std::bit_cast<uint64_t>(value));
}

std::string number_text(double value, DType dtype) {
  const auto narrow = [](float number) {
    return fmt::format("float_of({:#x}u)", std::bit_cast<uint32_t>(number));
  };
  switch (dtype) {
    case DType::kF64:
      return exact_text(value);
    case DType::kF32:
      return narrow(static_cast<float>(value));
    case DType::kF16:
      return narrow(static_cast<float>(float16(static_cast<float>(value))));
    case DType::kBF16:
      return narrow(static_cast<float>(bfloat16(static_cast<float>(value))));
    case DType::kBool:
      return value != 0 ? "true" : "false";
    default:
      return fmt::format("static_cast<{}>({}LL)", storage_type(dtype), static_cast<int64_t>(value));
  }
}

std::string window_text(const graph::KernelRequest& request, const SlidingWindow& window) {
  std::string text;
  for (const WindowAxis& axis : {window.depth, window.height, window.width}) {
    require(axis.before + axis.input + axis.after < int64_t{1} << 31, ErrorCode::kUnsupported,
            request.op.name, "{} with its padding is longer than its kernel counts", request.inputs[0].str());
    text += fmt::format("{}{{{}, {}, {}, {}, {}, {}}}", text.empty() ? "" : ", ", axis.input, axis.window,
                        axis.stride, axis.dilation, axis.before, axis.output);
  }
  return "{" + text + "}";
}

}  // namespace isochron::ops
