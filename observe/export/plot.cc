#include "isochron/observe/export/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::observe {
namespace {

constexpr double kText = 12, kTitle = 14, kTitleLine = 18;  // heights
/// Widths relative to the text height: of an average character, and of a digit in the widest common font.
constexpr double kCharacter = 0.58, kDigit = 0.65;
constexpr double kMinArea = 0.5;  // of the height, for the plot itself
constexpr double kLegendLine = 18, kSwatch = 18, kGap = 6;
/// Contrast of at least 3:1 against white and against nearly black.
constexpr std::array<const char*, 6> kColors = {"#3987e5", "#d9730d", "#2a9d5c",
                                                "#a05be0", "#e0484d", "#1497a8"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

double text_width(std::string_view text, double character = kCharacter, double height = kText) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<double>(std::ranges::count_if(text, starts)) * character * height;
}

/// The words of a title in lines no wider than `width`; a wider word gets a line of its own.
std::vector<std::string_view> title_lines(std::string_view title, double width) {
  std::vector<std::string_view> lines;
  while (!title.empty()) {
    size_t end = std::min(title.find(' '), title.size());
    while (end < title.size()) {
      const size_t next = std::min(title.find(' ', end + 1), title.size());
      if (text_width(title.substr(0, next), kCharacter, kTitle) > width) break;
      end = next;
    }
    lines.push_back(title.substr(0, end));
    title.remove_prefix(std::min(end + 1, title.size()));
  }
  return lines;
}

/// Maps numbers to coordinates along one axis.
struct Axis {
  bool logarithmic = false;
  Range range;
  double begin = 0, end = 0;
  std::vector<double> ticks;
  std::vector<std::string> labels;

  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
  double scale(double value) const { return logarithmic ? std::log10(value) : value; }
  double at(double value) const {
    // Halved so that the difference of the range's ends doesn't overflow.
    const double low = scale(range.low) / 2, high = scale(range.high) / 2;
    return begin + (end - begin) * ((scale(value) / 2 - low) / (high - low));
  }
};

/// Gives a range around a single value some width, and then widens it by `margin` of itself on both sides.
void widen(Axis& axis, double margin) {
  Range& range = axis.range;
  if (axis.logarithmic) {
    if (range.low == range.high) range = {range.low / 2, range.high * 2};
    const double factor = std::pow(range.high / range.low, margin);
    range = {std::max(range.low / factor, std::numeric_limits<double>::min()),
             std::min(range.high * factor, std::numeric_limits<double>::max())};
    return;
  }
  double half = range.high / 2 - range.low / 2;
  if (!(half > std::max(std::abs(range.low), std::abs(range.high)) * 1e-14)) {
    half = range.low == 0 ? 1 : std::abs(range.low) / 2;
    range = {range.low - half, range.high + half};
    return;
  }
  constexpr double kMax = std::numeric_limits<double>::max();
  const double more = half * (2 * margin);
  range = {std::max(range.low - more, -kMax), std::min(range.high + more, kMax)};
}

/// "1M" for a whole number of millions, else at most six digits.
std::string short_text(double value) {
  constexpr double kMillion = 1e6, kMax = 1e9;
  const bool millions = value >= kMillion && value < kMax && std::fmod(value, kMillion) == 0;
  return millions ? fmt::format("{:g}M", value / kMillion) : fmt::format("{:.6g}", value);
}

/// Labels with as many decimals as needed to distinguish neighboring ticks.
std::vector<std::string> tick_labels(const std::vector<double>& ticks, bool logarithmic) {
  std::vector<std::string> labels;
  double largest = 0, step = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < ticks.size(); ++i) {
    largest = std::max(largest, std::abs(ticks[i]));
    if (i > 0) step = std::min(step, ticks[i] - ticks[i - 1]);
  }
  const bool plain = !logarithmic && largest < 1e6 && step >= 1e-4 && std::isfinite(step);
  const int decimals = plain ? std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))) : 0;
  for (const double tick : ticks) {
    labels.push_back(plain ? fmt::format("{:.{}f}", tick, decimals) : short_text(tick));
  }
  return labels;
}

struct Spot {
  double x, y;
};

/// Splits the line at gaps into pieces, thinned to the plot's columns.
std::vector<std::vector<Spot>> line_pieces(const PlotSeries& series, const Axis& x, const Axis& y) {
  std::vector<std::vector<Spot>> pieces;
  std::vector<Spot> column;  // spots of the present column, in order
  bool open = false;
  const auto flush = [&] {
    if (column.empty()) return;
    const auto below = [](const Spot& a, const Spot& b) { return a.y < b.y; };
    const auto [low, high] = std::minmax_element(column.begin(), column.end(), below);
    std::array<size_t, 4> kept = {0, static_cast<size_t>(low - column.begin()),
                                  static_cast<size_t>(high - column.begin()), column.size() - 1};
    std::ranges::sort(kept);
    for (size_t i = 0; i < kept.size(); ++i) {
      if (i == 0 || kept[i] != kept[i - 1]) pieces.back().push_back(column[kept[i]]);
    }
    column.clear();
  };
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!x.shows(series.x[i]) || !y.shows(series.y[i])) {
      flush();
      open = false;
      continue;
    }
    const Spot spot{x.at(series.x[i]), y.at(series.y[i])};
    if (!open) pieces.emplace_back();
    open = true;
    if (!column.empty() && std::floor(spot.x) != std::floor(column.back().x)) flush();
    column.push_back(spot);
  }
  flush();
  return pieces;
}

class Drawing {
 public:
  Drawing(const Plot& plot, const PlotSize& size)
      : plot_(plot), size_(size), title_(title_lines(plot.title, size.width)) {
    require(
        std::isfinite(size.width) && std::isfinite(size.height) && size.width >= 120 && size.height >= 100,
        ErrorCode::kInvalidArgument, "plot", "expected a size of at least 120 x 100, got {:g} x {:g}",
        size.width, size.height);
    x_.logarithmic = plot.log_x;
    y_.logarithmic = plot.log_y;
    find_ranges();
    lay_out();
  }

  const PlotSize& size() const { return size_; }

  std::string svg() {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" width=\"{:g}\" "
        "style=\"max-width:100%;height:auto\" role=\"img\" aria-label=\"{}\" "
        "font-family=\"system-ui,sans-serif\" font-size=\"{:g}\" fill=\"currentColor\">\n",
        size_.width, size_.height, size_.width, escape_markup(plot_.title), kText);
    for (size_t i = 0; i < title_.size(); ++i) {
      text_ += fmt::format("<text x=\"0\" y=\"{:g}\" font-size=\"{:g}\" font-weight=\"600\">{}</text>\n",
                           kTitle + static_cast<double>(i) * kTitleLine, kTitle, escape_markup(title_[i]));
    }
    text_ += legend_;
    draw_axes();
    for (const PlotMark& mark : plot_.marks) draw(mark);
    if (plot_.filled) {  // the upper areas first, so that the lower ones cover their bottom parts
      for (size_t i = plot_.series.size(); i-- > 0;) fill(plot_.series[i], color(i));
    } else {
      for (size_t i = 0; i < plot_.series.size(); ++i) draw(plot_.series[i], color(i));
    }
    return text_ + "</svg>\n";
  }

 private:
  const char* color(size_t series) const {
    const std::string& own = plot_.series[series].color;
    return own.empty() ? kColors[series % kColors.size()] : own.c_str();
  }

  void find_ranges() {
    for (const PlotSeries& series : plot_.series) {
      require(series.x.size() == series.y.size(), ErrorCode::kInvalidArgument, "plot",
              "series '{}' has {} x and {} y", series.name, series.x.size(), series.y.size());
      for (size_t i = 0; i < series.x.size(); ++i) {
        if (!x_.shows(series.x[i]) || !y_.shows(series.y[i])) continue;
        x_.range.include(series.x[i]);
        y_.range.include(series.y[i]);
      }
    }
    require(x_.range.low <= x_.range.high, ErrorCode::kInvalidArgument, "plot",
            "no series of '{}' has a point to draw (finite, and above 0 on a logarithmic axis)", plot_.title);
    widen(x_, 0.01);
    widen(y_, 0.05);
  }

  void lay_out() {
    double top = kGap + kTitleLine * static_cast<double>(title_.size());
    top = lay_out_legend(top) + (plot_.y_label.empty() ? 0 : kText + kGap) + kGap;
    const double bottom = (plot_.x_label.empty() ? 1.5 : 3) * kText + kGap;
    y_.end = top;
    y_.begin = std::max(size_.height - bottom, top + kMinArea * size_.height);
    size_.height = y_.begin + bottom;
    set_ticks(y_, static_cast<int>((y_.begin - y_.end) / (3 * kText)));
    double widest = 0;
    for (const std::string& label : y_.labels) widest = std::max(widest, text_width(label, kDigit));
    x_.begin = widest + kGap;
    x_.end = size_.width - 2 * kText;
    set_ticks(x_, static_cast<int>((x_.end - x_.begin) / (6 * kText)), plot_.whole_x);
  }

  static void set_ticks(Axis& axis, int most, bool whole = false) {
    most = std::max(2, most);
    axis.ticks = axis.logarithmic ? log_ticks(axis.range.low, axis.range.high, most)
                                  : linear_ticks(axis.range.low, axis.range.high, most);
    if (whole) std::erase_if(axis.ticks, [](double tick) { return tick != std::floor(tick); });
    axis.labels = tick_labels(axis.ticks, axis.logarithmic);
  }

  /// Lays out the entries side by side in as many lines as needed. Returns the y coordinate below them.
  double lay_out_legend(double top) {
    double x = 0, y = top;
    bool any = false;
    for (size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      if (series.name.empty()) continue;
      const double width = kSwatch + kGap + text_width(series.name) + 2 * kGap;
      if (any && x + width > size_.width) {
        x = 0;
        y += kLegendLine;
      }
      any = true;
      const double middle = y + kText / 2;
      if (plot_.filled) {
        legend_ +=
            fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\"/>\n", x,
                        middle - kText / 2, kSwatch, kText, color(i));
      } else if (series.line) {
        legend_ += fmt::format(
            "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
            "stroke-width=\"2.5\"{}/>\n",
            x, x + kSwatch, middle, middle, color(i), dashes(series));
      }
      if (series.markers) legend_ += dot({x + kSwatch / 2, middle}, color(i));
      legend_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + kSwatch + kGap,
                             middle + kText / 3, escape_markup(series.name));
      x += width;
    }
    return any ? y + kLegendLine : top;
  }

  void draw_axes() {
    const auto line = [&](double x1, double y1, double x2, double y2, double opacity) {
      text_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" "
          "stroke-opacity=\"{:g}\"/>\n",
          x1, y1, x2, y2, opacity);
    };
    const auto write = [&](double x, double y, const char* anchor, const std::string& text) {
      text_ +=
          fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill-opacity=\"0.8\">{}</text>\n",
                      x, y, anchor, escape_markup(text));
    };
    for (size_t i = 0; i < y_.ticks.size(); ++i) {
      const double y = y_.at(y_.ticks[i]);
      line(x_.begin, y, x_.end, y, 0.15);
      write(x_.begin - kGap, y + kText / 3, "end", y_.labels[i]);
    }
    for (size_t i = 0; i < x_.ticks.size(); ++i) {
      const double x = x_.at(x_.ticks[i]);
      line(x, y_.end, x, y_.begin, 0.15);
      write(x, y_.begin + 1.4 * kText, "middle", x_.labels[i]);
    }
    line(x_.begin, y_.begin, x_.end, y_.begin, 0.6);
    line(x_.begin, y_.end, x_.begin, y_.begin, 0.6);
    if (!plot_.x_label.empty()) {
      write((x_.begin + x_.end) / 2, size_.height - kText / 3, "middle", plot_.x_label);
    }
    if (!plot_.y_label.empty()) write(0, y_.end - kText, "start", plot_.y_label);
  }

  void draw(const PlotMark& mark) {
    if (!x_.shows(mark.x) || mark.x < x_.range.low || mark.x > x_.range.high) return;
    const double x = x_.at(mark.x);
    const bool left = x + kGap + text_width(mark.label) > x_.end;
    text_ += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"currentColor\" "
        "stroke-opacity=\"0.7\" stroke-dasharray=\"3 3\"/>\n"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"{5}\">{6}</text>\n",
        x, y_.begin, y_.end, left ? x - kGap : x + kGap, y_.end + kText, left ? "end" : "start",
        escape_markup(mark.label));
  }

  void draw(const PlotSeries& series, const char* with) {
    if (series.line) {
      for (const std::vector<Spot>& piece : line_pieces(series, x_, y_)) {
        text_ += fmt::format(
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"{} "
            "points=\"",
            with, dashes(series));
        for (const Spot& spot : piece) text_ += fmt::format("{:.1f},{:.1f} ", spot.x, spot.y);
        text_ += "\"/>\n";
      }
    }
    if (!series.markers) return;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!x_.shows(series.x[i]) || !y_.shows(series.y[i])) continue;
      text_ += dot({x_.at(series.x[i]), y_.at(series.y[i])}, with);
    }
  }

  void fill(const PlotSeries& series, const char* with) {
    for (const std::vector<Spot>& piece : line_pieces(series, x_, y_)) {
      text_ += fmt::format("<polygon fill=\"{}\" points=\"{:.1f},{:.1f} ", with, piece.front().x, y_.begin);
      for (const Spot& spot : piece) text_ += fmt::format("{:.1f},{:.1f} ", spot.x, spot.y);
      text_ += fmt::format("{:.1f},{:.1f}\"/>\n", piece.back().x, y_.begin);
    }
  }

  static std::string dot(const Spot& at, const char* with) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", at.x, at.y, with);
  }
  static const char* dashes(const PlotSeries& series) {
    return series.dashed ? " stroke-dasharray=\"5 3\"" : "";
  }

  const Plot& plot_;
  PlotSize size_;
  std::vector<std::string_view> title_;
  Axis x_, y_;
  std::string legend_, text_;
};

}  // namespace

std::string plot_svg(const Plot& plot, const PlotSize& size) { return Drawing(plot, size).svg(); }

std::string svg_file(const Plot& plot, const PlotSize& size) {
  constexpr double kMargin = 12;
  Drawing drawing(plot, size);
  const auto& [width, height] = drawing.size();
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\">\n"
      "<style>:root {{ color: #1b1f24; background: #ffffff; }}\n"
      "@media (prefers-color-scheme: dark) {{ :root {{ color: #e4e7eb; background: #14171b; }} }}</style>\n"
      "<svg x=\"{2:g}\" y=\"{2:g}\" width=\"{3:g}\" height=\"{4:g}\">\n{5}</svg>\n</svg>\n",
      width + 2 * kMargin, height + 2 * kMargin, kMargin, width, height, drawing.svg());
}

std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char c : escape_for_terminal(text)) {  // XML has no control characters either
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::vector<double> linear_ticks(double low, double high, int most) {
  std::vector<double> ticks;
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) return ticks;
  most = std::max(2, most);
  const double rough = high / most - low / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    const double finer = factor * power;
    if (std::floor(high / finer) - std::ceil(low / finer) + 1 <= most) step = finer;
  }
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  if (!std::isfinite(first) || !std::isfinite(last) || !(step > 0) || last - first > 2.0 * most) return ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i == 0 ? 0 : i * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high, int most) {
  if (!(low > 0) || !(low < high) || !std::isfinite(high)) return {};
  most = std::max(2, most);
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  std::vector<double> ticks;
  if (last - first + 1 >= 2) {
    const int stride = (last - first) / most + 1;
    for (int power = first; power <= last; power += stride) ticks.push_back(std::pow(10.0, power));
    return ticks;
  }
  for (int power = first - 1; power <= last + 1; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if (tick >= low && tick <= high) ticks.push_back(tick);
    }
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(low, high, most);
}

}  // namespace isochron::observe
