#include "isochron/memory/planner/plan_csv.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "isochron/core/base/error.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::HasSubstr;

/// A file that goes with the test.
class PlanCsv : public testing::Test {
 protected:
  ~PlanCsv() override { std::filesystem::remove(path_); }
  BufferTable read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return read_buffers_csv(path_);
  }
  void expect_rejected(const std::string& content, const std::string& text) {
    try {
      read(content);
      ADD_FAILURE() << "accepted: " << content;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadFormat);
      EXPECT_THAT(error.what(), HasSubstr(text)) << content;
      EXPECT_EQ(error.where(), path_.string());
    }
  }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("isochron_plan_{}.csv", ::getpid());
};

TEST_F(PlanCsv, RoundTrips) {
  const BufferTable table = read("id,lower,upper,size\na,0,2,100\nb,1,3,64\nc,2,4,100\n");
  const MemoryPlan plan = plan_memory(table.requests);
  std::ostringstream out;
  write_plan_csv(out, table, plan);
  const BufferTable again = read(out.str());
  EXPECT_EQ(again.ids, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(again.requests[2].size_bytes, 100u);
  EXPECT_EQ(out.str().substr(0, 27), "id,lower,upper,size,offset\n");
  EXPECT_EQ(plan.arena_bytes, 192u);
}

TEST_F(PlanCsv, ColumnsComeInAnyOrderWithOthersBetween) {
  const BufferTable table = read("# made by hand\r\nsize, note ,upper,id,lower\r\n\r\n 8 ,x,5,first, 2\r\n");
  ASSERT_EQ(table.ids, std::vector<std::string>{"first"});
  EXPECT_EQ(table.requests[0].lower, 2);
  EXPECT_EQ(table.requests[0].upper, 5);
  EXPECT_EQ(table.requests[0].size_bytes, 8u);
}

TEST_F(PlanCsv, LastLineNeedsNoNewline) { EXPECT_EQ(read("id,lower,upper,size\na,0,1,2").ids.size(), 1u); }

TEST_F(PlanCsv, AByteOrderMarkIsNoPartOfTheFirstName) {
  EXPECT_EQ(read("\xef\xbb\xbfid,lower,upper,size\na,0,1,2\n").ids.size(), 1u);
}

TEST_F(PlanCsv, HeaderAloneIsAnEmptyTable) { EXPECT_TRUE(read("id,lower,upper,size\n").ids.empty()); }

TEST_F(PlanCsv, RejectsWithTheLine) {
  const std::string header = "id,lower,upper,size\n";
  expect_rejected("", "is empty");
  expect_rejected("\n\n# nothing\n", "is empty");
  expect_rejected("id,lower,upper\n", "line 1 lacks the column 'size'");
  expect_rejected("id,lower,upper,size,id\n", "line 1 names the column 'id' twice");
  expect_rejected(header + "a,0,1,2\nb,0,1\n", "line 3 has 3 fields, the header has 4");
  expect_rejected(header + "a,0,1,2,3\n", "line 2 has 5 fields");
  expect_rejected(header + "a,0,one,2\n", "line 2 has upper 'one'");
  expect_rejected(header + "a,0,1,2.5\n", "line 2 has size '2.5'");
  expect_rejected(header + "a,0,1,\n", "line 2 has size ''");
  expect_rejected(header + "a,0,1,-4\n", "line 2 has size '-4'");
  expect_rejected(header + "a,-1,1,4\n", "line 2 has lower '-1'");
  expect_rejected(header + "a,0,1,99999999999999999999\n", "does not fit 63 bits");
  expect_rejected(header + "a,3,3,4\n", "line 2 has lower 3 and upper 3");
  expect_rejected(header + "a,0,1,4\n\nb,0,1,4\na,0,1,4\n", "line 5 repeats the id 'a' of line 2");
  expect_rejected(header + ",0,1,4\n", "line 2 has no id");
  expect_rejected(std::string(1000, 'x') + std::string(1, '\0') + "\n", "lacks the column 'id'");
}

TEST_F(PlanCsv, MissingFileIsAnIoError) {
  try {
    read_buffers_csv("/nowhere/buffers.csv");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
  }
}

TEST_F(PlanCsv, AFileWithoutEndIsRefused) {
  EXPECT_ERROR(read_buffers_csv("/dev/zero"), ErrorCode::kBadFormat,
               "[/dev/zero] has more than the limit of 268435456 bytes");
}

TEST_F(PlanCsv, HostileSizesAreOverflow) {
  const BufferTable table =
      read("id,lower,upper,size\na,0,9,9223372036854775807\nb,0,9,9223372036854775807\n");
  try {
    plan_memory(table.requests);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOverflow);
  }
}

TEST_F(PlanCsv, DescriptionNamesTheOwnersAtThePeak) {
  const BufferTable table = read("id,lower,upper,size\nweights,0,9,1000\nsmall,4,5,64\nlate,8,9,10\n");
  const std::string text = describe_plan(table.requests, plan_memory(table.requests), table.ids);
  EXPECT_THAT(text, HasSubstr("arena            1088 bytes"));
  EXPECT_THAT(text, HasSubstr("ratio            1.0000"));
  EXPECT_THAT(text, HasSubstr("alignment waste  24 bytes"));
  EXPECT_THAT(text, HasSubstr("weights"));
}

}  // namespace
}  // namespace isochron
