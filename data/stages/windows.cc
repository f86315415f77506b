#include "isochron/data/stages/windows.h"

#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/element/source.h"

namespace isochron::data {
namespace {

constexpr std::string_view kFromWindows = "from_windows";

class WindowRows final : public RowSource {
 public:
  WindowRows(const Tensor& series, const WindowOptions& options) : series_(series), options_(options) {
    rows_ = window_count(series.extent(0), options);
    step_bytes_ = series.size_bytes() / static_cast<size_t>(series.extent(0));
    add("window", options.length);
    if (options.horizon > 0) add("target", options.horizon);
  }
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return rows_; }
  uint64_t fingerprint() const override {
    Fingerprint print;
    print.add("windows").add(series_.extent(0)).add(options_.length).add(options_.horizon);
    return print.add(options_.stride).add(options_.dilation).value();
  }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    const std::byte* from = series_.raw() + static_cast<size_t>(position.row * options_.stride) * step_bytes_;
    copy(from, options_.length, into[0]);
    if (options_.horizon == 0) return;
    const auto span = static_cast<size_t>(options_.length * options_.dilation);
    copy(from + span * step_bytes_, options_.horizon, into[1]);
  }

 private:
  void add(const char* name, int64_t steps) {
    Shape shape{steps};
    for (int axis = 1; axis < series_.rank(); ++axis) shape.push_back(series_.extent(axis));
    layout_.names.emplace_back(name);
    layout_.specs.push_back({series_.dtype(), shape});
  }
  void copy(const std::byte* from, int64_t steps, std::byte* to) const {
    const size_t apart = static_cast<size_t>(options_.dilation) * step_bytes_;
    if (options_.dilation == 1) {
      std::memcpy(to, from, static_cast<size_t>(steps) * step_bytes_);
      return;
    }
    for (int64_t i = 0; i < steps; ++i, from += apart, to += step_bytes_) std::memcpy(to, from, step_bytes_);
  }

  Tensor series_;
  WindowOptions options_;
  Layout layout_;
  int64_t rows_ = 0;
  size_t step_bytes_ = 0;
};

}  // namespace

int64_t window_count(int64_t steps, const WindowOptions& options) {
  require(options.length >= 1 && options.horizon >= 0 && options.stride >= 1 && options.dilation >= 1,
          ErrorCode::kInvalidArgument, kFromWindows,
          "length, stride and dilation must be >= 1 and the horizon >= 0, got {}, {}, {} and {}",
          options.length, options.stride, options.dilation, options.horizon);
  const int64_t held = checked_add(options.length, options.horizon, kFromWindows);
  const int64_t span =
      checked_add(checked_mul(held - 1, options.dilation, kFromWindows), int64_t{1}, kFromWindows);
  return steps < span ? 0 : (steps - span) / options.stride + 1;
}

Dataset from_windows(const Tensor& series, const WindowOptions& options) {
  static_cast<void>(series.raw());
  require(series.rank() >= 1, ErrorCode::kInvalidArgument, kFromWindows, "the series is a scalar");
  require(series.contiguous(), ErrorCode::kInvalidArgument, kFromWindows,
          "the series is not contiguous; pass its contiguous() copy");
  require(window_count(series.extent(0), options) > 0, ErrorCode::kInvalidArgument, kFromWindows,
          "{} steps are too few for a window of {} and a target of {}", series.extent(0), options.length,
          options.horizon);
  return Dataset(std::make_shared<WindowRows>(series, options));
}

}  // namespace isochron::data
