#include "isochron/observe/export/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTextHeight = 12, kLine = 16, kLeft = 62, kRight = 12, kBottom = 42;
/// Contrast of at least 3:1 against white and against nearly black, as in plots.
constexpr std::array<std::string_view, PlanPicture::kMaxKinds> kKindColors = {
    "#3987e5", "#d9730d", "#2a9d5c", "#a05be0", "#e0484d", "#1497a8"};

std::string shown_amount(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

void check(const PlanPicture& picture, const PlotSize& size) {
  const auto demand = [](bool condition, const std::string& text) {
    require(condition, ErrorCode::kInvalidArgument, "plan_svg", "{}", text);
  };
  demand(size.width >= 200 && size.height >= 150 && std::isfinite(size.width) && std::isfinite(size.height),
         fmt::format("a size of {:g} x {:g}; expected at least 200 x 150", size.width, size.height));
  demand(picture.kernels > 0 && picture.arena_bytes > 0, "an empty plan has no picture");
  demand(
      picture.kinds.size() <= PlanPicture::kMaxKinds,
      fmt::format("{} kinds; at most {} can be distinguished", picture.kinds.size(), PlanPicture::kMaxKinds));
  for (const PictureBuffer& buffer : picture.buffers) {
    const bool in_time = buffer.lower >= 0 && buffer.lower < buffer.upper && buffer.upper <= picture.kernels;
    const bool in_arena = buffer.bytes >= 0 && buffer.offset >= 0 && buffer.bytes <= picture.arena_bytes &&
                          buffer.offset <= picture.arena_bytes - buffer.bytes;
    demand(in_time && in_arena && buffer.kind >= 0 && static_cast<size_t>(buffer.kind) < picture.kinds.size(),
           fmt::format("buffer '{}' lives in [{}, {}) of {} kernels, at {} + {} of {} bytes, kind {} of {}",
                       buffer.owner, buffer.lower, buffer.upper, picture.kernels, buffer.offset, buffer.bytes,
                       picture.arena_bytes, buffer.kind, picture.kinds.size()));
  }
}

/// Maps kernels and bytes to coordinates of the drawing.
struct Frame {
  double left, top, width, height;
  double kernels, bytes;

  double x(int64_t kernel) const { return left + width * static_cast<double>(kernel) / kernels; }
  double y(int64_t offset) const { return top + height * (1 - static_cast<double>(offset) / bytes); }
};

struct Shape {
  double x0, x1, y0, y1;  // y0 above y1
  int kind;
  std::vector<const PictureBuffer*> buffers = {};  // more than one if they are merged
};

Shape shape_of(const PictureBuffer& buffer, const Frame& frame) {
  return {frame.x(buffer.lower),  frame.x(buffer.upper), frame.y(buffer.offset + buffer.bytes),
          frame.y(buffer.offset), buffer.kind,           {&buffer}};
}

/// Merges buffers thinner than `cell` into one shape if they have the same kind and their edges lie in the
/// same cells.
std::vector<Shape> merged(const PlanPicture& picture, const Frame& frame, double cell) {
  std::vector<Shape> shapes;
  std::map<std::tuple<int, int, int, int, int>, size_t> thin;  // -> shapes
  const auto at = [cell](double place) { return static_cast<int>(std::floor(place / cell)); };
  for (const PictureBuffer& buffer : picture.buffers) {
    if (buffer.bytes == 0) continue;
    Shape shape = shape_of(buffer, frame);
    if (shape.x1 - shape.x0 >= cell && shape.y1 - shape.y0 >= cell) {
      shapes.push_back(std::move(shape));
      continue;
    }
    const std::tuple key{shape.kind, at(shape.x0), at(shape.x1), at(shape.y0), at(shape.y1)};
    const auto [place, is_new] = thin.emplace(key, shapes.size());
    if (is_new) {
      shapes.push_back(std::move(shape));
      continue;
    }
    Shape& other = shapes[place->second];
    other.x0 = std::min(other.x0, shape.x0);
    other.x1 = std::max(other.x1, shape.x1);
    other.y0 = std::min(other.y0, shape.y0);
    other.y1 = std::max(other.y1, shape.y1);
    other.buffers.push_back(&buffer);
  }
  return shapes;
}

std::vector<Shape> shapes_of(const PlanPicture& picture, const Frame& frame) {
  for (double cell = 1;; cell *= 2) {
    std::vector<Shape> shapes = merged(picture, frame, cell);
    if (shapes.size() <= kMaxShapes || cell > frame.width + frame.height) return shapes;
  }
}

std::string kernel_name(const PlanPicture& picture, int64_t kernel) {
  const auto index = static_cast<size_t>(kernel);
  return index < picture.names.size() ? fmt::format("{} ({})", kernel, picture.names[index])
                                      : fmt::format("{}", kernel);
}

std::string title_of(const PlanPicture& picture, const Shape& shape) {
  const PictureBuffer& first = *shape.buffers.front();
  const std::string& kind = picture.kinds[static_cast<size_t>(shape.kind)];
  if (shape.buffers.size() == 1) {
    return fmt::format("{}\n{}, {} ({} bytes) at offset {}\nfrom kernel {}\nto kernel {}", first.owner, kind,
                       shown_amount(first.bytes), first.bytes, first.offset,
                       kernel_name(picture, first.lower), kernel_name(picture, first.upper - 1));
  }
  constexpr size_t kNamed = 6;
  std::vector<const PictureBuffer*> sorted = shape.buffers;
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const PictureBuffer* buffer) { return buffer->bytes; });
  double bytes = 0;
  for (const PictureBuffer* buffer : sorted) bytes += static_cast<double>(buffer->bytes);
  std::string text = fmt::format("{} buffers too thin to tell apart ({}), {} together:", sorted.size(), kind,
                                 shown_amount(bytes));
  for (size_t i = 0; i < std::min(sorted.size(), kNamed); ++i) {
    text += fmt::format("\n{}, {}", sorted[i]->owner, shown_amount(sorted[i]->bytes));
  }
  if (sorted.size() > kNamed) text += fmt::format("\nand {} more", sorted.size() - kNamed);
  return text;
}

std::string shape_markup(const PlanPicture& picture, const Shape& shape) {
  constexpr double kOutlined = 3;  // an outline would cover thinner shapes
  const double width = std::max(shape.x1 - shape.x0, 1.0), height = std::max(shape.y1 - shape.y0, 1.0);
  const std::string_view look = shape.buffers.size() > 1              ? " many"
                                : std::min(width, height) < kOutlined ? " thin"
                                                                      : "";
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "class=\"k{}{}\"><title>{}</title></rect>\n",
      shape.x0, shape.y1 - height, width, height, shape.kind, look, escape_markup(title_of(picture, shape)));
}

/// The line of live bytes. It has at most one step per unit of the drawing, which shows the maximum over that
/// unit's kernels.
std::string live_markup(const PlanPicture& picture, const Frame& frame) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // when, by how much
  for (const PictureBuffer& buffer : picture.buffers) {
    changes.emplace_back(buffer.lower, buffer.bytes);
    changes.emplace_back(buffer.upper, -buffer.bytes);
  }
  std::ranges::sort(changes);
  const double columns = std::min(frame.kernels, std::floor(frame.width));
  std::vector<int64_t> most(static_cast<size_t>(columns), 0);
  int64_t live = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    live += changes[i].second;
    const int64_t until = i + 1 < changes.size() ? changes[i + 1].first : picture.kernels;
    if (until == changes[i].first) continue;
    const auto first = static_cast<size_t>(static_cast<double>(changes[i].first) * columns / frame.kernels);
    const auto end = static_cast<size_t>(std::ceil(static_cast<double>(until) * columns / frame.kernels));
    for (size_t c = first; c < std::min(end, most.size()); ++c) most[c] = std::max(most[c], live);
  }
  std::string points;
  for (size_t c = 0; c < most.size(); ++c) {
    for (const size_t edge : {c, c + 1}) {
      points += fmt::format("{:.2f},{:.2f} ", frame.left + frame.width * static_cast<double>(edge) / columns,
                            frame.y(most[c]));
    }
  }
  return fmt::format("<polyline points=\"{}\" class=\"live\"/>\n", points);
}

std::string text_markup(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_markup(text));
}

/// "2.5 MB": `bytes` in the unit that fits `whole_bytes`.
std::string tick_text(double bytes, int64_t whole_bytes) {
  constexpr std::pair<double, std::string_view> kUnits[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}};
  for (const auto& [size, unit] : kUnits) {
    if (static_cast<double>(whole_bytes) >= size) return fmt::format("{:g} {}", bytes / size, unit);
  }
  return "0";
}

std::string axes_markup(const PlanPicture& picture, const Frame& frame) {
  std::string text;
  const double right = frame.left + frame.width, bottom = frame.top + frame.height;
  for (const double tick : linear_ticks(0, static_cast<double>(picture.kernels),
                                        std::max(2, static_cast<int>(frame.width / 80)))) {
    if (tick != std::floor(tick)) continue;
    text += text_markup(frame.x(static_cast<int64_t>(tick)), bottom + kLine, "middle",
                        fmt::format("{:.0f}", tick));
  }
  text += text_markup(frame.left + frame.width / 2, bottom + 2 * kLine, "middle",
                      "kernel, in the order of the step");
  for (const double tick : linear_ticks(0, static_cast<double>(picture.arena_bytes),
                                        std::max(2, static_cast<int>(frame.height / 45)))) {
    const double y = frame.y(static_cast<int64_t>(tick));
    text += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"grid\"/>\n",
                        frame.left, right, y, y);
    text += text_markup(frame.left - 6, y + kTextHeight / 3, "end", tick_text(tick, picture.arena_bytes));
  }
  return text;
}

/// Marks for the arena, the lower bound and the kernel at the peak.
std::string marks_markup(const PlanPicture& picture, const Frame& frame) {
  const double right = frame.left + frame.width,
               peak = frame.x(picture.peak_kernel) + 0.5 * frame.width / frame.kernels;
  const auto line = [](double x0, double y0, double x1, double y1, const std::string& title) {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
        "class=\"mark\"><title>{}</title></line>\n",
        x0, y0, x1, y1, escape_markup(title));
  };
  return line(frame.left, frame.top, right, frame.top, "arena: " + shown_amount(picture.arena_bytes)) +
         line(frame.left, frame.y(picture.lower_bound_bytes), right, frame.y(picture.lower_bound_bytes),
              "lower bound: " + shown_amount(picture.lower_bound_bytes)) +
         line(peak, frame.top, peak, frame.top + frame.height,
              "kernel at the peak: " + kernel_name(picture, picture.peak_kernel));
}

/// The legend: the kinds that occur, with their colors, in as many lines as needed. Moves `y` to its last
/// line.
std::string legend_markup(const PlanPicture& picture, double width, double& y) {
  std::string text;
  double x = kLeft;
  const auto entry = [&](const std::string& mark, const std::string& words) {
    const double needed = 18 + 0.58 * kTextHeight * static_cast<double>(words.size()) + 14;
    if (x > kLeft && x + needed > width - kRight) {
      x = kLeft;
      y += kLine;
    }
    text += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">{}<text x=\"18\" y=\"0\">{}</text></g>\n",
                        x, y, mark, escape_markup(words));
    x += needed;
  };
  for (size_t kind = 0; kind < picture.kinds.size(); ++kind) {
    const bool there = std::ranges::any_of(picture.buffers, [&](const PictureBuffer& buffer) {
      return static_cast<size_t>(buffer.kind) == kind;
    });
    if (there) {
      entry(fmt::format("<rect x=\"0\" y=\"-10\" width=\"12\" height=\"12\" class=\"k{}\"/>", kind),
            picture.kinds[kind]);
    }
  }
  entry("<line x1=\"0\" x2=\"13\" y1=\"-4\" y2=\"-4\" class=\"live\"/>", "live bytes");
  entry("<line x1=\"0\" x2=\"13\" y1=\"-4\" y2=\"-4\" class=\"mark\"/>",
        "arena, lower bound, kernel at the peak");
  return text;
}

std::string style() {
  std::string text =
      ".plan{--ink:#1b1f24;--paper:#ffffff;--line:#d5d9de}"
      "@media(prefers-color-scheme:dark){.plan{--ink:#e4e7eb;--paper:#14171b;--line:#3a414a}}"
      ".plan text{fill:var(--ink);font:12px system-ui,sans-serif}.plan "
      ".grid{stroke:var(--line);stroke-width:.5}"
      ".plan rect{stroke:var(--paper);stroke-width:.4}.plan rect:hover{stroke:var(--ink);stroke-width:1.5}"
      ".plan .thin{stroke:none}.plan .many{fill-opacity:.55;stroke:none}"
      ".plan .live{fill:none;stroke:var(--ink);stroke-width:1;pointer-events:none}"
      ".plan .mark{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 4}";
  for (size_t kind = 0; kind < kKindColors.size(); ++kind) {
    text += fmt::format(".plan .k{}{{fill:{}}}", kind, kKindColors[kind]);
  }
  return text;
}

Json json_of(const PlanPicture& picture) {
  Json buffers = Json::array();
  for (const PictureBuffer& buffer : picture.buffers) {
    buffers.push_back({buffer.owner, buffer.kind, buffer.lower, buffer.upper, buffer.bytes, buffer.offset});
  }
  return {{"title", picture.title},
          {"kernels", picture.kernels},
          {"arena_bytes", picture.arena_bytes},
          {"lower_bound_bytes", picture.lower_bound_bytes},
          {"peak_kernel", picture.peak_kernel},
          {"names", picture.names},
          {"kinds", picture.kinds},
          {"buffers", std::move(buffers)}};
}

std::vector<const PictureBuffer*> live_at_peak(const PlanPicture& picture) {
  std::vector<const PictureBuffer*> live;
  for (const PictureBuffer& buffer : picture.buffers) {
    const bool there = buffer.lower <= picture.peak_kernel && picture.peak_kernel < buffer.upper;
    if (there && buffer.bytes > 0) live.push_back(&buffer);
  }
  std::ranges::stable_sort(live, std::ranges::greater(),
                           [](const PictureBuffer* buffer) { return buffer->bytes; });
  return live;
}

}  // namespace

std::string plan_svg(const PlanPicture& picture, const PlotSize& size) {
  check(picture, size);
  double top = 2 * kLine + 4;
  const std::string legend = legend_markup(picture, size.width, top);
  top += kLine * 0.75;
  const Frame frame{.left = kLeft,
                    .top = top,
                    .width = size.width - kLeft - kRight,
                    .height = std::max(size.height - top - kBottom, 40.0),
                    .kernels = static_cast<double>(picture.kernels),
                    .bytes = static_cast<double>(picture.arena_bytes)};
  const double height = frame.top + frame.height + kBottom;
  std::string shapes;
  size_t together = 0;
  for (const Shape& shape : shapes_of(picture, frame)) {
    shapes += shape_markup(picture, shape);
    if (shape.buffers.size() > 1) together += shape.buffers.size();
  }
  const std::string merged_text =
      together > 0 ? fmt::format("; {} of them, too thin to tell apart, are drawn together", together) : "";
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plan\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "style=\"max-width:{0:.0f}px;width:100%;height:auto;background:var(--paper)\">\n<style>{2}</style>\n"
      "<title>{3}</title>\n<desc>{4} buffers in an arena of {5}{6}</desc>\n{7}{8}{9}{10}{11}{12}</svg>\n",
      size.width, height, style(), escape_markup(picture.title), picture.buffers.size(),
      shown_amount(picture.arena_bytes), merged_text,
      fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" style=\"font-weight:600\">{}</text>\n", kLeft, kLine,
                  escape_markup(picture.title)),
      legend, axes_markup(picture, frame), shapes, live_markup(picture, frame), marks_markup(picture, frame));
}

std::vector<int64_t> bytes_at_peak(const PlanPicture& picture) {
  std::vector<int64_t> bytes(picture.kinds.size(), 0);
  for (const PictureBuffer* buffer : live_at_peak(picture))
    bytes[static_cast<size_t>(buffer->kind)] += buffer->bytes;
  return bytes;
}

std::string plan_text(const PlanPicture& picture) {
  constexpr size_t kOwners = 5;
  const double bound = static_cast<double>(std::max<int64_t>(picture.lower_bound_bytes, 1));
  std::string text = fmt::format("{} buffers, {} kernels, an arena of {}: {:.4f} times the lower bound\n",
                                 picture.buffers.size(), picture.kernels, shown_amount(picture.arena_bytes),
                                 static_cast<double>(picture.arena_bytes) / bound);
  text += fmt::format("live at the peak, kernel {}:", kernel_name(picture, picture.peak_kernel));
  const std::vector<int64_t> bytes = bytes_at_peak(picture);
  bool any = false;
  for (size_t kind = 0; kind < bytes.size(); ++kind) {
    if (bytes[kind] == 0) continue;
    text += fmt::format("{} {} {}", any ? "," : "", picture.kinds[kind], shown_amount(bytes[kind]));
    any = true;
  }
  text += "\n";
  const std::vector<const PictureBuffer*> live = live_at_peak(picture);
  for (size_t i = 0; i < std::min(live.size(), kOwners); ++i) {
    text += fmt::format("  {}: {} ({})\n", live[i]->owner, shown_amount(live[i]->bytes),
                        picture.kinds[static_cast<size_t>(live[i]->kind)]);
  }
  if (live.size() > kOwners) text += fmt::format("  and {} more\n", live.size() - kOwners);
  return text;
}

std::string plan_json(const PlanPicture& picture, int indent) {
  return json_of(picture).dump(indent, ' ', false, Json::error_handler_t::replace);
}

PlanPicture plan_from_json(std::string_view text, std::string_view where) {
  try {
    const Json json = parse_json<Json>(text);
    PlanPicture picture{.title = json.at("title").get<std::string>(),
                        .kernels = count_of(json.at("kernels"), "kernels"),
                        .arena_bytes = count_of(json.at("arena_bytes"), "arena_bytes"),
                        .lower_bound_bytes = count_of(json.at("lower_bound_bytes"), "lower_bound_bytes"),
                        .peak_kernel = count_of(json.at("peak_kernel"), "peak_kernel"),
                        .names = json.at("names").get<std::vector<std::string>>(),
                        .kinds = json.at("kinds").get<std::vector<std::string>>()};
    for (const Json& buffer : json.at("buffers")) {
      const auto number = [&](size_t place) { return count_of(buffer.at(place), "a buffer's number"); };
      const int64_t kind = std::min<int64_t>(number(1), PlanPicture::kMaxKinds);  // kMaxKinds: invalid
      picture.buffers.push_back({buffer.at(0).get<std::string>(), static_cast<int>(kind), number(2),
                                 number(3), number(4), number(5)});
    }
    check(picture, {.width = 960, .height = 480});
    return picture;
  } catch (const Error& error) {
    fail(ErrorCode::kBadFormat, where, "contains no plan: {}", error.what());
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where, "expected the plan that plan_json writes: {}", complaint(error));
  }
}

std::string plan_section(const PlanPicture& picture) {
  return fmt::format(
      "<h3>The memory plan</h3>\n<figure>\n<div class=\"wide\">{}</div>\n<div "
      "class=\"narrow\">{}</div>\n</figure>\n"
      "<pre>{}</pre>\n",
      plan_svg(picture, {.width = 768, .height = 460}), plan_svg(picture, {.width = 358, .height = 420}),
      escape_markup(plan_text(picture)));
}

}  // namespace isochron::observe
