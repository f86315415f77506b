#include "isochron/observe/record/trace.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "isochron/core/telemetry/event.h"
#include "isochron/observe/export/kernel_table.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constinit TraceLabel kStep(TraceCategory::kStep, "step");
constinit TraceLabel kCall(TraceCategory::kCall, "train step");
constinit TraceLabel kOther(TraceCategory::kCall, "evaluation");

uint32_t kernel(const std::string& name, double flops) {
  return trace_name(TraceCategory::kKernel, name, {name.substr(0, name.find('_')), "(2, 2)", flops, 64});
}

void call(const TraceLabel& function, int first_calls) {
  const TraceSpan span(function);
  for (int i = 0; i < first_calls; ++i) const TraceSpan inner(kernel("matmul_1", 16));
  const TraceSpan last(kernel("add_2", 4));
}

json written(const TraceRecorder& recorder) {
  const TempFolder folder;
  recorder.write(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  return json::parse(file);
}

TEST(TraceRecorder, WritesSpansCountersAndEvents) {
  TraceRecorder recorder;
  recorder.start();
  {
    const TraceSpan span(kStep, 12);
    call(kCall, 1);
  }
  recorder.sample_memory();
  emit({EventKind::kCheckpoint, "cp-1", "written \"whole\"", 0, 2500});
  recorder.stop();
  emit({EventKind::kCheckpoint, "cp-2", "after the recording"});
  const json document = written(recorder);
  std::vector<std::string> kinds;
  for (const json& event : document["traceEvents"]) {
    kinds.push_back(event["ph"].get<std::string>() + " " + event["name"].get<std::string>());
  }
  EXPECT_THAT(kinds, ElementsAre("M process_name", "M thread_name", "M thread_sort_index", "X matmul_1",
                                 "X add_2", "X train step", "X step", "C bytes in use", "C bytes reserved",
                                 "C resident bytes", "i checkpoint"));
  const json& events = document["traceEvents"];
  EXPECT_EQ(events[3]["args"], json({{"op", "matmul"}, {"shapes", "(2, 2)"}, {"flops", 16}, {"bytes", 64}}));
  EXPECT_EQ(events[6]["args"]["step"], 12);
  EXPECT_LE(events[6]["ts"].get<double>(), events[3]["ts"].get<double>());
  EXPECT_GT(events[9]["args"]["value"].get<int64_t>(), 1'000'000);
  EXPECT_EQ(events[10]["args"]["text"], "written \"whole\"");
  EXPECT_EQ(events[10]["args"]["took_us"], 2.5);
  EXPECT_EQ(document["otherData"]["lost_events"], "0");
}

TEST(TraceRecorder, SaysWhatItLost) {
  TraceRecorder recorder({.events_per_thread = 4});
  recorder.start();
  for (int i = 0; i < 9; ++i) const TraceSpan span(kStep, i);
  for (size_t i = 0; i < TraceRecorder::kMaxMarks + 2; ++i) emit({EventKind::kNotice, "n", "text"});
  recorder.stop();
  const json document = written(recorder);
  EXPECT_EQ(document["otherData"]["lost_events"], "5");
  EXPECT_EQ(document["otherData"]["dropped_marks"], "2");
}

TEST(TraceRecorder, TheFileMustBeWritable) {
  TraceRecorder recorder;
  EXPECT_ERROR(recorder.write("/nowhere/trace.json"), ErrorCode::kIo, "/nowhere");
}

TEST(KernelTable, AddsUpTheCallsOfOneFunction) {
  TraceRecorder recorder;
  recorder.start();
  call(kCall, 2);
  call(kOther, 1);
  call(kCall, 2);
  recorder.stop();
  const KernelTable table = kernel_table(recorder, "train step");
  EXPECT_EQ(table.steps, 2);
  ASSERT_EQ(table.rows.size(), 2u);
  double inside = 0, share = 0;
  for (const KernelRow& row : table.rows) {
    EXPECT_EQ(row.calls, row.op == "matmul" ? 4 : 2);
    EXPECT_EQ(row.flops, row.op == "matmul" ? 16 : 4);
    EXPECT_EQ(row.shapes, "(2, 2)");
    inside += row.ns_per_step;
    share += row.share;
  }
  EXPECT_GE(table.rows[0].ns_per_step, table.rows[1].ns_per_step);
  EXPECT_DOUBLE_EQ(inside + table.between_ns_per_step, table.ns_per_step);
  EXPECT_NEAR(share, inside / table.ns_per_step, 1e-9);
  EXPECT_EQ(kernel_table(recorder, "prediction").steps, 0);
}

TEST(KernelTable, LeavesOutACallThatTheRingHasInPart) {
  TraceRecorder recorder({.events_per_thread = 5});
  recorder.start();
  call(kCall, 2);  // 4 events; the second call leaves about one of them
  call(kCall, 2);
  recorder.stop();
  const KernelTable table = kernel_table(recorder, "train step");
  EXPECT_EQ(table.steps, 1);
  for (const KernelRow& row : table.rows) EXPECT_EQ(row.calls, row.op == "matmul" ? 2 : 1);
}

TEST(KernelTable, ReadsAsTextJsonAndHtml) {
  KernelTable table;
  table.function = "train <step>";
  EXPECT_THAT(kernel_table_text(table), HasSubstr("no call of 'train <step>' was recorded"));
  EXPECT_THAT(kernel_table_section(table), HasSubstr("No call of train &lt;step&gt; was recorded"));
  table.steps = 10;
  table.ns_per_step = 4000;
  table.between_ns_per_step = 400;
  table.rows = {{"dense/matmul_1", "matmul", "(2, 3) (3, 4)", 10, 3000, 3000, 0.75, 48000, 6000},
                {"copy of output", "", "", 10, 600, 600, 0.15, 0, 60}};
  const std::string text = kernel_table_text(table, 1);
  EXPECT_THAT(text, HasSubstr("3.00 us  75.0%     10      16.0      2.0  dense/matmul_1 (2, 3) (3, 4)"));
  EXPECT_THAT(text, HasSubstr("1 further kernels"));
  EXPECT_THAT(text, HasSubstr("10.0%"));
  EXPECT_THAT(text, HasSubstr("copy\n"));
  KernelTable latin = table;
  latin.function = "schr\xe4g";
  EXPECT_EQ(json::parse(kernel_table_json(latin))["function"], "schr\xef\xbf\xbdg");
  const json parsed = json::parse(kernel_table_json(table));
  EXPECT_EQ(parsed["kernels"][0]["ns_per_step"], 3000);
  EXPECT_EQ(parsed["between_ns_per_step"], 400);
  const KernelTable again = parse_kernel_table(kernel_table_json(table, -1), "kernels.json");
  EXPECT_EQ(kernel_table_json(again), kernel_table_json(table));
  for (const char* damaged : {"", "{}", "[]", R"({"function": 1})"}) {
    EXPECT_ERROR(parse_kernel_table(damaged, "kernels.json"), ErrorCode::kBadFormat, "kernels.json");
  }
  const std::string html = kernel_table_section(table);
  EXPECT_THAT(html, HasSubstr("<td title=\"(2, 3) (3, 4)\">dense/matmul_1</td><td>3.00 us</td><td>75.0 %"));
  EXPECT_THAT(html, HasSubstr("10.0 % of that is between kernels"));
}

}  // namespace
}  // namespace isochron::observe
