// Draws the plan of an arena: kernels in order from left to right, offsets from bottom to top, and one
// rectangle per buffer, colored by its purpose. Hovering shows the owner. PlanPicture is plain data, so that
// the picture can be drawn again from a run's record. train/callbacks/plan_picture.h makes it from a captured
// function, `isochron plan` from a file.
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
  int64_t kernels = 0;  // number of kernels
  int64_t arena_bytes = 0;
  int64_t lower_bound_bytes = 0;        // the largest sum of live bytes
  int64_t peak_kernel = 0;              // kernel with the most live bytes
  std::vector<std::string> names = {};  // of the first kernels
  std::vector<std::string> kinds = {};  // at most kMaxKinds
  std::vector<PictureBuffer> buffers = {};
  bool operator==(const PlanPicture&) const = default;

  static constexpr size_t kMaxKinds = 6;
};

/// One self-contained <svg> element, which follows the reader's light or dark mode. Buffers that would be
/// thinner than a unit of the drawing are merged with their neighbors of the same kind into one hatched
/// rectangle, which shows their number on hover. If needed, more are merged, so that at most kMaxShapes
/// shapes remain. Throws kInvalidArgument if a buffer lies outside the arena or the kernels or has an unknown
/// kind, for more kinds than kMaxKinds, for an empty arena, and for a size below 200 x 150.
std::string plan_svg(const PlanPicture& picture, const PlotSize& size = {.width = 960, .height = 480});
inline constexpr size_t kMaxShapes = 4000;

/// The live bytes of each kind at the peak kernel, in the order of `kinds`.
std::vector<int64_t> bytes_at_peak(const PlanPicture& picture);

/// A few lines: the arena, the lower bound, and what is live at the peak kernel by kind and by owner.
std::string plan_text(const PlanPicture& picture);
/// One JSON object; `indent` < 0 gives a single line.
std::string plan_json(const PlanPicture& picture, int indent = 2);
/// Parses the text of plan_json. Throws kBadFormat, naming `where`, for any other text.
PlanPicture plan_from_json(std::string_view text, std::string_view where);
/// A section of a page (page.h): the picture in sizes for desktop and phone screens, and the lines of
/// `plan_text`.
std::string plan_section(const PlanPicture& picture);

}  // namespace isochron::observe
