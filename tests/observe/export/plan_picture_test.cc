#include "isochron/observe/export/plan_picture.h"

#include <gmock/gmock.h>

#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

PlanPicture small() {
  return {.title = "a <small> plan",
          .kernels = 4,
          .arena_bytes = 4096,
          .lower_bound_bytes = 3072,
          .peak_kernel = 1,
          .names = {"matmul_0", "relu_1", "sum_2"},
          .kinds = {"activation", "workspace"},
          .buffers = {{"matmul_0", 0, 0, 3, 2048, 0},
                      {"workspace of relu_1", 1, 1, 2, 1024, 2048},
                      {"sum_2", 0, 2, 4, 1024, 3072}}};
}

size_t occurrences(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(PlanPicture, TellsOwnersOnHover) {
  const std::string svg = plan_svg(small());
  EXPECT_THAT(svg,
              AllOf(HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\""), HasSubstr("a &lt;small&gt; plan"),
                    HasSubstr("<title>matmul_0\nactivation, 2.05 KB (2048 bytes) at offset 0\nfrom kernel 0 "
                              "(matmul_0)\nto kernel 2 (sum_2)</title>"),
                    HasSubstr("class=\"k1\"><title>workspace of relu_1\n"), HasSubstr("arena: 4.10 KB"),
                    HasSubstr("lower bound: 3.07 KB"), HasSubstr("kernel at the peak: 1 (relu_1)"),
                    HasSubstr("prefers-color-scheme:dark"), Not(HasSubstr("drawn together"))));
  EXPECT_THAT(svg,
              Not(testing::AnyOf(HasSubstr("href"), HasSubstr("url("), HasSubstr("nan"), HasSubstr("inf"))));
}

TEST(PlanPicture, IsMarkupWhateverNamesHold) {
  PlanPicture picture = small();
  picture.title = "red \x1b[31m, bell \a, half a letter \xc3";
  const std::string svg = plan_svg(picture);
  EXPECT_THAT(svg, Not(testing::AnyOf(HasSubstr("\x1b"), HasSubstr("\a"), HasSubstr("\xc3"))));
  EXPECT_THAT(svg, HasSubstr("red \\x1b[31m, bell \\x07, half a letter \\xc3"));
}

TEST(PlanPicture, PlacesBuffersByTimeAndOffset) {
  // The frame of 960 x 480: from x = 62 to 948, for 4 kernels.
  const std::string svg = plan_svg(small());
  EXPECT_THAT(svg, HasSubstr("<rect x=\"62.00\""));
  EXPECT_THAT(svg, HasSubstr("width=\"664.50\"")) << "three kernels of four";
  EXPECT_THAT(svg, HasSubstr("<rect x=\"283.50\"")) << "from the second kernel on";
}

TEST(PlanPicture, WhatIsTooThinIsDrawnTogetherAndCounted) {
  PlanPicture picture = small();
  picture.kernels = 100'000;
  picture.arena_bytes = int64_t{1} << 30;
  picture.buffers.clear();
  for (int64_t i = 0; i < 100'000; ++i) {
    picture.buffers.push_back({fmt::format("op_{}", i), 0, i, i + 1, 64 + i % 3, (i % 1000) * 1024});
  }
  const std::string svg = plan_svg(picture);
  const size_t shapes = occurrences(svg, "<rect x=") - 1;  // less the legend's
  EXPECT_LE(shapes, kMaxShapes);
  EXPECT_GT(shapes, 200u);
  EXPECT_THAT(svg,
              AllOf(ContainsRegex(
                        "100000 buffers in an arena of 1.07 GB; [0-9]+ of them, too thin to tell apart, are "
                        "drawn together"),
                    HasSubstr(" buffers too thin to tell apart (activation), "), HasSubstr("\nand ")));
  EXPECT_LT(svg.size(), 4'000'000u);
}

TEST(PlanPicture, AWideThinBufferIsNotLostAmongOthers) {
  PlanPicture picture = small();
  picture.arena_bytes = 1 << 20;
  picture.buffers = {{"long and thin", 0, 0, 4, 64, 0}, {"short and thin", 0, 1, 2, 64, 64}};
  const std::string svg = plan_svg(picture);
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>long and thin\n"), HasSubstr("<title>short and thin\n")));
}

TEST(PlanPicture, TextSaysWhatIsLiveAtTheFullestKernel) {
  EXPECT_EQ(bytes_at_peak(small()), (std::vector<int64_t>{2048, 1024}));
  EXPECT_EQ(plan_text(small()),
            "3 buffers, 4 kernels, an arena of 4.10 KB: 1.3333 times the lower bound\n"
            "live at the peak, kernel 1 (relu_1): activation 2.05 KB, workspace 1.02 KB\n"
            "  matmul_0: 2.05 KB (activation)\n  workspace of relu_1: 1.02 KB (workspace)\n");
}

TEST(PlanPicture, ComesBackFromItsJson) {
  EXPECT_EQ(plan_from_json(plan_json(small()), "x"), small());
  for (const std::string bad : {"", "{}", "[1]"}) {
    EXPECT_ERROR(plan_from_json(bad, "train.json"), ErrorCode::kBadFormat, "train.json");
  }
  for (const char* number : {"1.95e+28", "2.5", "18446744073709551615"}) {
    std::string large = plan_json(small(), -1);
    large.replace(large.find("4096"), 4, number);
    EXPECT_ERROR(plan_from_json(large, "train.json"), ErrorCode::kBadFormat, "not a whole number");
  }
  PlanPicture outside = small();
  outside.buffers[0].offset = 4000;
  EXPECT_ERROR(plan_from_json(plan_json(outside), "train.json"), ErrorCode::kBadFormat,
               "buffer 'matmul_0' lives in");
}

TEST(PlanPicture, RefusesWhatIsNoPlan) {
  const auto refused = [](const std::function<void(PlanPicture&)>& change, const std::string& text) {
    PlanPicture picture = small();
    change(picture);
    EXPECT_ERROR(plan_svg(picture), ErrorCode::kInvalidArgument, text);
  };
  refused([](PlanPicture& p) { p.kernels = 0; }, "empty plan");
  refused([](PlanPicture& p) { p.arena_bytes = 0; }, "empty plan");
  refused([](PlanPicture& p) { p.buffers[1].upper = 5; }, "[1, 5) of 4 kernels");
  refused([](PlanPicture& p) { p.buffers[1].lower = 2; }, "[2, 2)");
  refused([](PlanPicture& p) { p.buffers[1].kind = 2; }, "kind 2 of 2");
  refused([](PlanPicture& p) { p.buffers[1].bytes = INT64_MAX; }, "of 4096 bytes");
  refused([](PlanPicture& p) { p.kinds.resize(7); }, "at most 6");
  EXPECT_ERROR(plan_svg(small(), {.width = 100, .height = 400}), ErrorCode::kInvalidArgument,
               "at least 200 x 150");
}

TEST(PlanPicture, TimesOfAFileMayBeHuge) {
  PlanPicture picture = small();
  picture.kernels = INT64_MAX;
  picture.buffers[2].upper = INT64_MAX;
  EXPECT_THAT(plan_svg(picture), AllOf(HasSubstr("polyline"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace isochron::observe
