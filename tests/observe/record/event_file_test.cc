#include "isochron/observe/record/event_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "isochron/core/files/record_file.h"
#include "isochron/core/files/written_files.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

using testing::HasSubstr;

std::vector<std::string> records_of(const EventFile& file) {
  std::vector<std::string> records;
  RecordReader reader(file.path());
  std::vector<std::byte> record;
  while (reader.next(record)) {
    records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  }
  return records;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

TEST(HistogramSummary, CountsEveryFiniteNumberOnce) {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i % 100));
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  values.push_back(std::numeric_limits<float>::infinity());
  const HistogramSummary summary = summarize(values);
  EXPECT_EQ(summary.count, 1000);
  EXPECT_EQ(summary.min, 0);
  EXPECT_EQ(summary.max, 99);
  EXPECT_EQ(summary.sum, 49500);
  EXPECT_EQ(summary.limits.size(), static_cast<size_t>(HistogramSummary::kMaxBuckets));
  EXPECT_EQ(summary.limits.back(), 99);
  EXPECT_EQ(sum(summary.counts), 1000);
  EXPECT_TRUE(std::is_sorted(summary.limits.begin(), summary.limits.end()));
}

TEST(HistogramSummary, EqualNumbersAndNoneAtAll) {
  const std::vector<double> equal(5, 2.5), none = {std::nan("")};
  EXPECT_EQ(summarize(equal).limits, std::vector<double>{2.5});
  EXPECT_EQ(summarize(equal).counts, std::vector<double>{5});
  EXPECT_EQ(summarize(none).count, 0);
  EXPECT_TRUE(summarize(none).limits.empty());
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(sum(summarize(std::vector<double>{-huge, 0, huge}).counts), 3) << "whose range is no number";
}

TEST(EventFile, WritesOneRecordAThing) {
  const TempFolder folder;
  EventFile file(folder.path());
  file.histogram("weights/a", 3, summarize(std::vector<float>{1, 2, 3}));
  file.graph({{"x", "input", {}, {{DType::kF32, {2, 3}}}, {}}, {"y", "exp", {"x"}, {}, {{"axis", "1"}}}});
  file.scalar("loss", 4, 0.5);
  file.flush();
  const std::vector<std::string> records = records_of(file);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_THAT(records[1], HasSubstr("weights/a"));
  EXPECT_THAT(records[2], testing::AllOf(HasSubstr("_output_shapes"), HasSubstr("exp"), HasSubstr("axis")));
  EXPECT_THAT(records[3], testing::AllOf(HasSubstr("loss"), testing::Not(HasSubstr("exp"))));
}

TEST(EventFile, OneThatHoldsAGraphAloneIsNoLog) {
  const TempFolder folder;
  const int64_t before = written_files();
  EventFile graph(folder.path()), log(folder.path());
  graph.graph({{"x", "input", {}, {}, {}}});
  log.scalar("loss", 1, 0.5);
  log.scalar("loss", 2, 0.4);
  EXPECT_EQ(files_left(FileKind::kEvents, before).written, 1);
}

TEST(EventFile, AVeryLargeGraphIsCutAndSaysSo) {
  const TempFolder folder;
  GraphListing nodes(EventFile::kMaxGraphNodes + 5, ListedNode{"n", "op", {}, {}, {}});
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].name = fmt::format("n{}", i);
  EventFile file(folder.path());
  file.graph(nodes);
  file.flush();
  const std::string graph = records_of(file)[1];
  EXPECT_THAT(graph, testing::AllOf(HasSubstr("further_nodes"), HasSubstr("n19999"),
                                    testing::Not(HasSubstr("n20000"))));
}

}  // namespace
}  // namespace isochron::observe
