// Line plots as SVG: a few series over common axes, with ticks at round numbers, a grid, a legend and a
// title. Axes and text take the color of their surroundings (currentColor); the series' colors are legible on
// light and dark backgrounds.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace isochron::observe {

/// Points (x[i], y[i]) in order. A point is left out, and interrupts the line, if it isn't finite or isn't
/// above 0 on a logarithmic axis.
struct PlotSeries {
  std::string name = {};  // in the legend; empty: not in the legend
  std::vector<double> x = {};
  std::vector<double> y = {};
  bool line = true;
  bool markers = false;  // a dot at every point
  bool dashed = false;
  std::string color = {};  // "#3987e5"; empty: the next color of the plot's palette
};

/// A dashed vertical line with a label. Left out if x lies outside the range of the series.
struct PlotMark {
  double x = 0;
  std::string label = {};
};

struct Plot {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  bool log_x = false;
  bool log_y = false;
  bool whole_x = false;  // ticks at whole numbers only: epochs, threads
  bool filled = false;   // fills between each line and the previous one (stacked areas, summed by the caller)
  std::vector<PlotSeries> series = {};
  std::vector<PlotMark> marks = {};
};

/// Size in units of the drawing; text is 12 units high. If title and legend leave less than half of the
/// height for the plot, the drawing becomes higher by what is missing.
struct PlotSize {
  double width = 760;
  double height = 320;
};

/// One self-contained <svg> element of at most `size`, which shrinks with its container. If a line has more
/// points than the plot has columns, only the first, lowest, highest and last point of each column are drawn,
/// which gives the same picture (M4: Jugel et al., "A Visualization-Oriented Time Series Data Aggregation",
/// VLDB 2014). Throws kInvalidArgument if there is no point to draw, if x and y have different lengths, or
/// for a size that is below 120 x 100 or not finite.
std::string plot_svg(const Plot& plot, const PlotSize& size = {});

/// The same as a separate file, with a background that follows the reader's light or dark mode. Throws like
/// `plot_svg`.
std::string svg_file(const Plot& plot, const PlotSize& size = {});

/// `text` with &, <, > and quotes as entities.
std::string escape_markup(std::string_view text);

/// Round numbers within [low, high]: multiples of 1, 2 or 5 times a power of ten, at most `most` (>= 2) of
/// them where the range allows (Heckbert, "Nice Numbers for Graph Labels", Graphics Gems 1990). Empty unless
/// low < high.
std::vector<double> linear_ticks(double low, double high, int most);
/// The same for a logarithmic axis, 0 < low < high: powers of ten, or some of them if there are more than
/// `most`. If the range contains fewer than two powers of ten, 2 and 5 times these are added; if there are
/// still too few, the ticks are linear.
std::vector<double> log_ticks(double low, double high, int most);

}  // namespace isochron::observe
