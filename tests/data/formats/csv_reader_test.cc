// CSV files row by row. csv_test.cc tests what a field may look like: both readers share the scanner.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/data/formats/csv.h"
#include "support/damage.h"
#include "support/expect_error.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;
using Rows = std::vector<std::vector<double>>;

class CsvRows : public testing::Test {
 protected:
  Rows read(const std::string& content, const CsvOptions& options = {}) {
    write_quickly(path_, content);
    CsvReader reader(path_, options);
    Rows rows;
    std::vector<double> row(reader.columns());
    while (reader.next(row)) rows.push_back(row);
    return rows;
  }
  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "table.csv";
};

TEST_F(CsvRows, AreThoseOfTheTable) {
  std::string content;
  for (int i = 0; i < 5000; ++i) content += fmt::format("{},\"{}\",{}\r\n", i, -i, i * 0.5);
  for (const std::string& stored : {content, packed(content)}) {
    const Rows rows = read(stored);
    ASSERT_EQ(rows.size(), 5000u);
    EXPECT_THAT(rows[4999], ElementsAre(4999, -4999, 2499.5));
    EXPECT_EQ(read_csv(path_).values.to_vector()[14999], 2499.5);
  }
}

TEST_F(CsvRows, GiveTheColumnsThatWereAskedFor) {
  const std::string content = "name,x,y\nann,1,2\n\"b, c\",3,4\n";
  EXPECT_EQ(read(content, {.header = true, .columns = {"y", "x"}}), (Rows{{2, 1}, {4, 3}}));
  EXPECT_EQ(read("ann,1,2\nbob,3,4\n", {.columns = {"2"}}), (Rows{{2}, {4}}));
  const CsvTable table = read_csv(path_, {.columns = {"1", "1"}});
  EXPECT_THAT(table.values.to_vector(), ElementsAre(1, 1, 3, 3));
  EXPECT_ERROR(read(content, {.header = true}), ErrorCode::kBadFormat, "line 2, column 1: expected a number");
  EXPECT_ERROR(read(content, {.header = true, .columns = {"z"}}), ErrorCode::kBadFormat,
               "no column 'z'; the columns are: name, x, y");
  EXPECT_ERROR(read("1,2\n", {.columns = {"2"}}), ErrorCode::kBadFormat, "without a header they are 0 to 1");
  EXPECT_ERROR(read("1,2\n", {.columns = {"-1"}}), ErrorCode::kBadFormat, "no column '-1'");
}

TEST_F(CsvRows, GiveOtherFieldsAsText) {
  write_quickly(path_, "name,x\nann,1\n\"b, \"\"c\"\"\",3\n");
  CsvReader reader(path_, {.header = true, .columns = {"x"}});
  EXPECT_THAT(reader.names(), ElementsAre("x"));
  double x = 0;
  ASSERT_TRUE(reader.next({&x, 1}));
  EXPECT_EQ(reader.text(0), "ann");
  ASSERT_TRUE(reader.next({&x, 1}));
  EXPECT_EQ(reader.text(0), "b, \"c\"");
  EXPECT_EQ(x, 3);
  EXPECT_ERROR(reader.text(2), ErrorCode::kOutOfRange, "no column 2");
  write_quickly(path_, "name,x\nann,1\nbob,many\n");
  CsvReader texts(path_, {.header = true, .columns = {"x"}});
  std::vector<std::string> names;
  while (texts.next_row()) names.emplace_back(texts.text(texts.column("name")));
  EXPECT_THAT(names, ElementsAre("ann", "bob")) << "no field need be a number";
  EXPECT_ERROR(texts.column("y"), ErrorCode::kBadFormat, "the columns are: name, x");
  double two[2];
  EXPECT_ERROR(reader.next(two), ErrorCode::kInvalidArgument, "rows have 1 numbers");
}

TEST_F(CsvRows, EmptyLinesAreRowsUnlessNothingFollows) {
  const CsvOptions options = {.missing = MissingValue::kNan};
  const Rows rows = read("1\n\n\r\n2\n\n\r\n\r", options);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(std::isnan(rows[1][0]) && std::isnan(rows[2][0]));
  EXPECT_EQ(rows[3][0], 2);
  EXPECT_ERROR(read("1,2\n\n3,4\n"), ErrorCode::kBadFormat, "line 2: expected 2 columns, got 1");
}

TEST_F(CsvRows, AreFoundAgainAtTheirPosition) {
  const std::string content = "\xef\xbb\xbfx,y\n1,2\r\n\"3\",\"4\"\n\n\n5,\"6\n\"\n7,8\n\n";
  const CsvOptions options = {.header = true, .missing = MissingValue::kNan, .columns = {"x"}};
  for (const std::string& stored : {content, packed(content)}) {
    write_quickly(path_, stored);
    CsvReader reader(path_, options);
    std::vector<CsvPosition> positions;
    std::vector<double> values;
    for (double x = 0;;) {
      positions.push_back(reader.position());
      try {
        if (!reader.next({&x, 1})) break;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("expected 2 columns, got 1"));
        x = -1;  // one of the two empty lines
      }
      values.push_back(x);
    }
    EXPECT_THAT(values, ElementsAre(1, 3, -1, -1, 5, 7));
    for (const size_t i : {5, 0, 3, 4, 1, 2}) {
      CsvReader other(path_, options);
      for (CsvReader* at : {&reader, &other}) {
        at->seek(positions[i]);
        double x = 0;
        if (values[i] < 0) {
          EXPECT_ERROR(at->next({&x, 1}), ErrorCode::kBadFormat,
                       fmt::format("line {}: expected 2", positions[i].line));
        } else {
          ASSERT_TRUE(at->next({&x, 1}));
          EXPECT_EQ(x, values[i]);
        }
        EXPECT_EQ(at->position().line, positions[i + 1].line);
      }
    }
    EXPECT_EQ(positions[5].line, 8) << "a field in quotes may hold newlines";
  }
}

TEST_F(CsvRows, KeepCarriageReturnsInsideQuotes) {
  write_quickly(path_, "\"a\r\",1\r\n\"b\",\"2\"\r\n");
  CsvReader reader(path_, {.columns = {"1"}});
  double x = 0;
  ASSERT_TRUE(reader.next({&x, 1}));
  EXPECT_EQ(reader.text(0), "a\r");
}

TEST_F(CsvRows, TooLongAreErrors) {
  const CsvOptions options = {.max_row_bytes = 100};
  const std::string most = std::string(49, '1') + "," + std::string(49, '2');
  EXPECT_EQ(read(most + "\n" + most, options).size(), 2u);
  EXPECT_ERROR(read("1,2\n" + most + "00\n", options), ErrorCode::kBadFormat,
               "line 2 has more than 100 bytes");
  EXPECT_ERROR(read("1,2\n\"" + std::string(200, '\n'), options), ErrorCode::kBadFormat, "max_row_bytes");
  EXPECT_ERROR(read(std::string(200, ','), options), ErrorCode::kBadFormat, "max_row_bytes");
  EXPECT_ERROR(read(std::string(200, '\r'), options), ErrorCode::kBadFormat, "max_row_bytes");
}

TEST_F(CsvRows, TruncatedOrFlippedNeverCrash) {
  const std::string whole = "x,y\n1,\"2\"\n3,4\r\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    try {
      EXPECT_LE(read(whole.substr(0, size), {.header = true}).size(), 2u);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadFormat) << error.what();
    }
  }
  EXPECT_GT(count_refused_flips(whole, [&](const std::string& text) { read(text, {.header = true}); }), 20u);
  const std::string zipped = packed(whole);
  expect_truncation_errors(
      zipped, [&](const std::string& text) { read(text, {.header = true}); }, ErrorCode::kBadFormat);
}

}  // namespace
}  // namespace isochron::data
