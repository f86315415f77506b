// Plots: round ticks, what is drawn and what is left out, and text that cannot break out of the drawing.
#include "isochron/observe/export/plot.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pointwise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Plot plot_of(std::vector<double> x, std::vector<double> y) {
  return {.title = "", .x_label = "", .y_label = "", .series = {{.name = "", .x = x, .y = y}}};
}

/// The points of every line, in the drawing's units.
std::vector<std::vector<std::pair<double, double>>> lines_of(const std::string& svg) {
  std::vector<std::vector<std::pair<double, double>>> lines;
  const std::string begin = "points=\"";
  for (size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at)) {
    at += begin.size();
    std::istringstream points(svg.substr(at, svg.find('"', at) - at));
    lines.emplace_back();
    double x, y;
    for (char comma; points >> x >> comma >> y;) lines.back().emplace_back(x, y);
  }
  return lines;
}

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_THAT(linear_ticks(0, 10, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(-1.3, 1.3, 4), ElementsAre(-1, 0, 1));
  EXPECT_THAT(linear_ticks(349.8, 375.2, 6), ElementsAre(350, 355, 360, 365, 370, 375));
  EXPECT_THAT(linear_ticks(0.00012, 0.00031, 3), Pointwise(DoubleNear(1e-12), {2e-4, 3e-4}));
  EXPECT_THAT(linear_ticks(2, 2, 5), IsEmpty());
  EXPECT_THAT(linear_ticks(0, kInfinity, 5), IsEmpty());
}

TEST(Ticks, AreNeverTooManyNorOutsideForAnyRange) {
  for (double low : {-1e300, -3.7, 0.0, 1e-300, 12345.678}) {
    for (double width : {1e-3, 0.7, 13.0, 1e9, 1e300}) {
      for (int most : {2, 5, 12}) {
        const std::vector<double> ticks = linear_ticks(low, low + width, most);
        EXPECT_LE(ticks.size(), static_cast<size_t>(most) + 1) << low << " " << width;
        for (double tick : ticks) {
          EXPECT_GE(tick, low - width * 1e-6);
          EXPECT_LE(tick, low + width * (1 + 1e-6));
        }
      }
    }
  }
}

TEST(Ticks, OfLogarithmsArePowersOfTen) {
  EXPECT_THAT(log_ticks(0.5, 2000, 8), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(log_ticks(1e-12, 1e12, 5), testing::SizeIs(testing::Le(6)));
  EXPECT_THAT(log_ticks(3, 60, 8), ElementsAre(5, 10, 20, 50)) << "fewer than two powers";
  EXPECT_THAT(log_ticks(6.1, 6.4, 4), testing::SizeIs(testing::Ge(2)));
  EXPECT_THAT(log_ticks(0, 10, 5), IsEmpty());
}

TEST(PlotSvg, HasTitleAxesLegendAndOneLineASeries) {
  Plot plot = plot_of({1, 2, 3}, {10, 30, 20});
  plot.title = "Speed";
  plot.x_label = "threads";
  plot.y_label = "steps a second";
  plot.series[0].name = "ours";
  plot.series.push_back({.name = "theirs", .x = {1, 3}, .y = {5, 6}, .markers = true, .dashed = true});
  const std::string svg = plot_svg(plot);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg "), HasSubstr("Speed"), HasSubstr("threads"),
                         HasSubstr("steps a second"), HasSubstr(">ours<"), HasSubstr(">theirs<")));
  EXPECT_EQ(count_of(svg, "<polyline"), 2u);
  EXPECT_EQ(count_of(svg, "<circle"), 3u) << "two points and the legend";
  EXPECT_EQ(count_of(svg, "<svg"), count_of(svg, "</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(PlotSvg, HigherValuesLieHigherAndLaterOnesFurtherRight) {
  const auto lines = lines_of(plot_svg(plot_of({0, 1, 2}, {1, 3, 2})));
  ASSERT_EQ(lines.size(), 1u);
  const auto& at = lines[0];
  ASSERT_EQ(at.size(), 3u);
  EXPECT_LT(at[0].first, at[1].first);
  EXPECT_LT(at[1].second, at[2].second);
  EXPECT_LT(at[2].second, at[0].second);
  EXPECT_NEAR(at[1].first - at[0].first, at[2].first - at[1].first, 0.2);
}

TEST(PlotSvg, WholeAxesHaveNoFractions) {
  Plot plot = plot_of({1, 2}, {10, 20});
  EXPECT_THAT(plot_svg(plot), HasSubstr(">1.2<"));
  plot.whole_x = true;
  EXPECT_THAT(plot_svg(plot), AllOf(HasSubstr(">1<"), HasSubstr(">2<"), Not(HasSubstr(">1."))));
}

TEST(PlotSvg, MillionsHaveShortLabels) {
  Plot plot = plot_of({1, 2e8}, {1, 2});
  plot.log_x = true;
  EXPECT_THAT(plot_svg(plot),
              AllOf(HasSubstr(">10000<"), HasSubstr(">1M<"), HasSubstr(">100M<"), Not(HasSubstr("e+"))));
  plot = plot_of({0, 1e7}, {1, 2});
  EXPECT_THAT(plot_svg(plot), AllOf(HasSubstr(">2M<"), HasSubstr(">0<"), Not(HasSubstr("e+"))));
  plot = plot_of({0, 2e10}, {1, 2});
  EXPECT_THAT(plot_svg(plot), HasSubstr(">1e+10<"));
}

TEST(PlotSvg, MarksStandWithinTheAxisAlone) {
  Plot plot = plot_of({1, 1000}, {1, 2});
  plot.log_x = true;
  plot.marks = {{10, "ten & more"}, {1e6, "beyond"}, {999, "at the right"}};
  const std::string svg = plot_svg(plot);
  EXPECT_THAT(svg,
              AllOf(HasSubstr(">ten &amp; more<"), HasSubstr(">at the right<"), Not(HasSubstr("beyond"))));
  EXPECT_EQ(count_of(svg, "stroke-dasharray=\"3 3\""), 2u);
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"end\">at the right"));
}

TEST(PlotSvg, EqualFactorsAreEqualDistancesOnALogarithmicAxis) {
  Plot plot = plot_of({0, 1, 2}, {1, 10, 100});
  plot.log_y = true;
  const auto at = lines_of(plot_svg(plot))[0];
  EXPECT_NEAR(at[0].second - at[1].second, at[1].second - at[2].second, 0.2);
}

TEST(PlotSvg, LongLabelsOfTheUpwardAxisHaveRoom) {
  constexpr double kDigitWidth = 0.636 * 12;  // of DejaVu Sans, the widest that is common
  Plot plot = plot_of({0, 1}, {1, 10000});
  plot.log_y = true;
  const std::string svg = plot_svg(plot);
  const size_t label = svg.find(">10000<");
  ASSERT_NE(label, std::string::npos);
  const size_t x = svg.rfind("x=\"", label) + 3;
  EXPECT_GE(std::stod(svg.substr(x)), 5 * kDigitWidth);
}

TEST(PlotSvg, LongTitlesTakeLinesEnough) {
  Plot plot = plot_of({1, 2}, {1, 2});
  plot.title = "Where the time of an iteration goes, over the whole of a very long run of many steps";
  const auto lines = [&](double width) {
    return count_of(plot_svg(plot, {.width = width, .height = 300}), "font-weight=\"600\"");
  };
  EXPECT_EQ(lines(1000), 1U);
  EXPECT_EQ(lines(358), 2U);
  EXPECT_GT(lines(150), 4U);
}

TEST(PlotSvg, LeavesOutWhatHasNoPlaceAndInterruptsTheLine) {
  EXPECT_EQ(lines_of(plot_svg(plot_of({0, 1, 2, 3, 4}, {1, 2, NAN, 3, kInfinity}))).size(), 2u);
  Plot plot = plot_of({0, 1, 2, 3}, {1, 0, 5, 6});
  plot.log_y = true;
  EXPECT_EQ(lines_of(plot_svg(plot)).size(), 2u);
}

TEST(PlotSvg, ManyPointsBecomeFewWithTheSamePeaks) {
  std::vector<double> x, y;
  for (int i = 0; i < 200'000; ++i) {
    x.push_back(i);
    y.push_back(i == 123'456 ? 100 : std::sin(i * 0.1));
  }
  const auto lines = lines_of(plot_svg(plot_of(x, y), {.width = 400, .height = 200}));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LE(lines[0].size(), 4u * 400);
  double highest = 1e9;
  for (const auto& point : lines[0]) highest = std::min(highest, point.second);
  EXPECT_LT(highest, 40) << "the one peak is still there";
}

TEST(PlotSvg, OneValueAndExtremeValuesHaveAPlace) {
  for (const std::vector<double>& y :
       {std::vector<double>{5}, {0, 0}, {-1.7e308, 1.7e308}, {1e-300, 2e-300}, {1, 1 + 1e-15}}) {
    std::vector<double> x(y.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    const std::string svg = plot_svg(plot_of(x, y));
    EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
    const auto lines = lines_of(svg);
    for (const auto& point : lines[0]) {
      EXPECT_GE(point.second, 0);
      EXPECT_LE(point.second, 320);
    }
  }
}

TEST(PlotSvg, TextCannotBreakOut) {
  Plot plot = plot_of({1, 2}, {1, 2});
  plot.title = "a<script>\"&'";
  plot.series[0].name = "</svg>";
  const std::string svg = plot_svg(plot);
  EXPECT_THAT(svg, AllOf(HasSubstr("a&lt;script&gt;&quot;&amp;&#39;"), Not(HasSubstr("<script"))));
  EXPECT_EQ(count_of(svg, "</svg>"), 1u);
}

TEST(PlotSvg, RejectsWhatCannotBeDrawn) {
  EXPECT_ERROR(plot_svg(plot_of({}, {})), ErrorCode::kInvalidArgument, "has a point to draw");
  EXPECT_ERROR(plot_svg(plot_of({1, 2}, {NAN, kInfinity})), ErrorCode::kInvalidArgument, "point to draw");
  EXPECT_ERROR(plot_svg(plot_of({1, 2}, {1})), ErrorCode::kInvalidArgument, "has 2 x and 1 y");
  EXPECT_ERROR(plot_svg(plot_of({1}, {1}), {.width = 10, .height = 200}), ErrorCode::kInvalidArgument,
               "at least 120 x 100");
}

TEST(PlotSvg, FillsPartsOfAWholeFromTheTopOneDown) {
  Plot plot{.title = "parts", .filled = true};
  plot.series.push_back({.name = "low", .x = {0, 1}, .y = {1, 2}});
  plot.series.push_back({.name = "high", .x = {0, 1}, .y = {3, 5}});
  const std::string svg = plot_svg(plot);
  const size_t first = svg.find("<polygon"), second = svg.find("<polygon", first + 1);
  ASSERT_NE(second, std::string::npos);
  EXPECT_EQ(svg.find("<polyline"), std::string::npos);
  const auto color_at = [&](size_t at) { return svg.substr(svg.find("fill=\"", at) + 6, 7); };
  const size_t low_swatch = svg.find("<rect"), high_swatch = svg.find("<rect", low_swatch + 1);
  EXPECT_EQ(color_at(first), color_at(high_swatch)) << "the upper is drawn first";
  EXPECT_EQ(color_at(second), color_at(low_swatch));
}

}  // namespace
}  // namespace isochron::observe
