// The plan of an arena as a picture: kernels in their order from left to right, offsets from bottom to top,
// one rectangle a buffer, colored by what it is for; what owns it is told on hover. Made from plain data, so
// that it can be drawn again from what a run has written (train/callbacks/plan_picture.h takes it from a
// captured function, `isochron plan` from a file).
//
// JSON: {title, kernels, arena_bytes, lower_bound_bytes, peak_kernel, names: [kernel], kinds: [name],
// buffers: [[owner, kind, lower, upper, bytes, offset]]}.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/export/plot.h"

namespace isochron::observe {

struct PictureBuffer {
  std::string owner;
  int kind = 0;       // index of PlanPicture::kinds
  int64_t lower = 0;  // live in [lower, upper), in kernels
  int64_t upper = 0;
  int64_t bytes = 0;
  int64_t offset = 0;
  bool operator==(const PictureBuffer&) const = default;
};

struct PlanPicture {
  std::string title;
  int64_t kernels = 0;  // the end of time
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;        // the most that is live at once
  int64_t peak_kernel = 0;              // when it is
  std::vector<std::string> names = {};  // of kernels; may be fewer than there are
  std::vector<std::string> kinds = {};  // at most kMaxKinds
  std::vector<PictureBuffer> buffers = {};
  bool operator==(const PlanPicture&) const = default;

  static constexpr size_t kMaxKinds = 6;
};

/// One <svg> element, self-contained, light or dark as its reader's system is. Buffers that would be thinner
/// than a unit of the drawing are drawn together with their neighbors of the same kind, hatched, with their
/// number on hover; so many that at most kMaxShapes shapes remain. Throws kInvalidArgument for buffers
/// outside of time and arena or with a kind that isn't there, more kinds than kMaxKinds, an empty arena, and
/// a size below 200 x 150.
std::string plan_svg(const PlanPicture& picture, const PlotSize& size = {.width = 960, .height = 480});
inline constexpr size_t kMaxShapes = 4000;

/// How many bytes of each kind are live at the fullest kernel, in the order of `kinds`.
std::vector<int64_t> bytes_at_peak(const PlanPicture& picture);

/// Arena and bound, and what is live at the fullest kernel by kind and by owner: a few lines.
std::string plan_text(const PlanPicture& picture);
/// One JSON object; `indent` < 0 gives a single line.
std::string plan_json(const PlanPicture& picture, int indent = 2);
/// The inverse. Throws kBadFormat, naming `where`, for anything else.
PlanPicture plan_from_json(std::string_view text, std::string_view where);
/// For a page (page.h): the picture for a desk and for a phone, and the lines of `plan_text`.
std::string plan_section(const PlanPicture& picture);

}  // namespace isochron::observe
