#include "isochron/data/formats/csv.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "isochron/core/files/file.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

class Csv : public testing::Test {
 protected:
  CsvTable read(std::string_view text, const CsvOptions& options = {}) {
    write_file_atomically(path_, text);
    return read_csv(path_, options);
  }
  void write_gzip(const std::string& text) {
    gzFile file = gzopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    ASSERT_EQ(gzclose(file), Z_OK);
  }
  std::string bytes() {
    const auto content = read_file(path_);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "table.csv";
};

TEST_F(Csv, ReadsRowsOfNumbers) {
  const CsvTable table = read("1,2.5,-3e2\n4, 5 ,+6\n");
  EXPECT_EQ(table.values.spec(), (TensorSpec{DType::kF64, {2, 3}}));
  EXPECT_THAT(table.values.to_vector(), ElementsAre(1, 2.5, -300, 4, 5, 6));
  EXPECT_TRUE(table.names.empty());
}

TEST_F(Csv, ReadsHeaderCrlfQuotesAndTheByteOrderMark) {
  const CsvTable table = read("\xef\xbb\xbf\"a,\"\"b\"\"\nx\";c\r\n\"1\";2\r\n3;\"4\"\r\n\r\n",
                              {.header = true, .separator = ';'});
  EXPECT_THAT(table.names, ElementsAre("a,\"b\"\nx", "c"));
  EXPECT_THAT(table.values.to_vector(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(table.column("c"), 1);
  EXPECT_ERROR(table.column("d"), ErrorCode::kBadFormat, "no column 'd'");
}

TEST_F(Csv, TextsOfACategoryBecomeNumbers) {
  const std::string text = "id, city ,size\n1, Rome,2\n2,\"New York\",NA\n3,Rome ,?\n4,,5\n";
  CsvOptions options{.header = true,
                     .missing = MissingValue::kNan,
                     .missing_texts = {"NA", "?"},
                     .columns = {"city", "size"},
                     .categories = {{"city", {"Rome", "New York"}}}};
  const auto number = [](double x) { return std::isnan(x) ? -1 : x; };
  const auto numbers = [&](const CsvTable& table) {
    std::vector<double> values = table.values.to_vector();
    std::ranges::transform(values, values.begin(), number);
    return values;
  };
  EXPECT_THAT(numbers(read(text, options)), ElementsAre(0, 2, 1, -1, 0, -1, -1, 5));
  EXPECT_THAT(csv_categories(std::vector{path_}, "city", options), ElementsAre("New York", "Rome"));
  EXPECT_THAT(csv_categories(std::vector{path_, path_}, "size", options), ElementsAre("2", "5"));
  options.missing = MissingValue::kError;
  EXPECT_ERROR(read("id,city,size\n1,,3\n", options), ErrorCode::kBadFormat,
               "line 2, column 2: no value, expected a category");
  EXPECT_ERROR(read("id,city,size\n1,Rome,NA\n", options), ErrorCode::kBadFormat,
               "line 2, column 3: no value, expected a number");
  EXPECT_ERROR(read("id,city,size\n1,Oslo,3\n", options), ErrorCode::kBadFormat,
               "line 2, column 2: 'Oslo' is none of the 2 categories of this column: 'New York', 'Rome'");
  options.unknown_categories = true;
  EXPECT_THAT(read("id,city,size\n1,Oslo,3\n2,New York,4\n", options).values.to_vector(),
              ElementsAre(2, 3, 1, 4));
  EXPECT_THAT(read("a;1\nb;2\n", {.separator = ';', .categories = {{"0", {"b", "a"}}}}).values.to_vector(),
              ElementsAre(1, 1, 0, 2))
      << "columns without names have numbers";
}

TEST_F(Csv, ReadsIntoTheDtypeThatIsAskedFor) {
  const CsvTable table = read("0.1,2\n3,16777217\n", {.dtype = DType::kF32});
  EXPECT_EQ(table.values.spec(), (TensorSpec{DType::kF32, {2, 2}}));
  EXPECT_THAT(table.values.to_vector(), ElementsAre(0.1F, 2, 3, 16777216));
  EXPECT_ERROR(read("1e39\n", {.dtype = DType::kF32}), ErrorCode::kBadFormat, "expected a finite number");
  EXPECT_ERROR(read("1\n", {.dtype = DType::kI64}), ErrorCode::kInvalidArgument, "as f64 or f32, not as i64");
}

TEST_F(Csv, CategoriesMustFitTheFile) {
  const auto with = [&](const std::string& column, std::vector<std::string> texts) {
    return read("x,y\n1,a\n", {.header = true, .columns = {"y"}, .categories = {{column, std::move(texts)}}});
  };
  EXPECT_ERROR(with("y", {"a", "b", "a"}), ErrorCode::kInvalidArgument,
               "column 'y' has the category 'a' twice");
  EXPECT_ERROR(with("x", {"1"}), ErrorCode::kInvalidArgument,
               "categories are given for column 'x', which isn't among those to read");
  EXPECT_ERROR(with("z", {"1"}), ErrorCode::kBadFormat, "no column 'z'; the columns are: x, y");
  EXPECT_ERROR(csv_categories(std::vector{path_}, "z", {.header = true}), ErrorCode::kBadFormat,
               "no column 'z'");
  EXPECT_ERROR(csv_categories({}, "x"), ErrorCode::kInvalidArgument, "empty");
}

TEST_F(Csv, TextAfterAClosingQuoteIsAnError) {
  EXPECT_ERROR(read("1,2\n\"1\"2,3\n"), ErrorCode::kBadFormat, "line 2: text follows the quote");
  EXPECT_THAT(read("\"1\",\"2\"\r\n\"3\",4").values.to_vector(), ElementsAre(1, 2, 3, 4));
}

TEST_F(Csv, TwoColumnsOfOneNameAreAnError) {
  EXPECT_ERROR(read("date,co2,co2\n1,2,3\n", {.header = true}), ErrorCode::kBadFormat,
               "two columns are called 'co2'");
}

TEST_F(Csv, LastLineNeedsNoNewline) { EXPECT_THAT(read("1\n2").values.to_vector(), ElementsAre(1, 2)); }

TEST_F(Csv, NumbersBeyondTheRangeOfDoubles) {
  EXPECT_THAT(read("1e-999").values.to_vector(), ElementsAre(0));
  EXPECT_ERROR(read("1e999"), ErrorCode::kBadFormat, "'1e999'");
}

TEST_F(Csv, ShortAndLongRowsNameTheLine) {
  EXPECT_ERROR(read("1,2\n3\n"), ErrorCode::kBadFormat, "table.csv] line 2: expected 2 columns, got 1");
  EXPECT_ERROR(read("1,2\n3,4,5\n"), ErrorCode::kBadFormat, "line 2: expected 2 columns, got 3");
  EXPECT_ERROR(read("a,b\n\"1\n\",2\n3\n", {.header = true}), ErrorCode::kBadFormat, "line 2, column 1");
  EXPECT_ERROR(read("\"a\nb\",c\n1\n", {.header = true}), ErrorCode::kBadFormat,
               "line 3: expected 2 columns");
}

TEST_F(Csv, TextWhereANumberBelongsNamesThePlace) {
  EXPECT_ERROR(read("1,2\n3,four\n"), ErrorCode::kBadFormat,
               "line 2, column 2: expected a number, got 'four'");
  EXPECT_ERROR(read("x,y\n1,2\n"), ErrorCode::kBadFormat, "is the first row a header?");
  EXPECT_ERROR(read("1,2x\n"), ErrorCode::kBadFormat, "'2x'");
  EXPECT_ERROR(read("1,+-2\n"), ErrorCode::kBadFormat, "'+-2'");
  EXPECT_ERROR(read(std::string_view("1,2\0\n", 5)), ErrorCode::kBadFormat, "column 2");
  EXPECT_ERROR(read("1,\"2\n"), ErrorCode::kBadFormat, "never closes");
}

TEST_F(Csv, MissingValuesFollowThePolicy) {
  EXPECT_ERROR(read("1,2\n3,\n"), ErrorCode::kBadFormat, "line 2, column 2: no value, expected a number");
  EXPECT_ERROR(read("1,2\n3,a\x1b[2J\n"), ErrorCode::kBadFormat, "got 'a\\x1b[2J'");
  const auto values = read("1,2\n ,4\n", {.missing = MissingValue::kNan}).values.to_vector();
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], 4);
}

TEST_F(Csv, NonFiniteTextIsAnErrorUnlessAllowed) {
  for (const char* text : {"nan", "inf", "-inf"}) {
    EXPECT_ERROR(read(text), ErrorCode::kBadFormat, "line 1, column 1: expected a finite number");
  }
  const auto values = read("nan,-inf", {.allow_non_finite = true}).values.to_vector();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], -INFINITY);
}

TEST_F(Csv, NothingToReadIsAnError) {
  EXPECT_ERROR(read(""), ErrorCode::kBadFormat, "no row");
  EXPECT_ERROR(read("\n\n"), ErrorCode::kBadFormat, "no row");
  EXPECT_ERROR(read("a,b\n", {.header = true}), ErrorCode::kBadFormat, "no row");
  EXPECT_ERROR(read_csv(folder_ / "none.csv"), ErrorCode::kIo, "none.csv");
}

TEST_F(Csv, ReadsGzip) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + "\n";
  write_gzip(text);
  const CsvTable table = read_csv(path_);
  ASSERT_EQ(table.rows(), 50000);
  EXPECT_EQ(table.values.to_vector()[49999], 49999);
  EXPECT_ERROR(read_csv(path_, {.limit_bytes = 200000}), ErrorCode::kBadFormat,
               "more than the limit of 200000");
}

TEST_F(Csv, ReadsGzipOfSeveralMembers) {
  write_gzip("1\n");
  std::string both = bytes();
  write_gzip("2\n");
  both += bytes();
  EXPECT_THAT(read(both).values.to_vector(), ElementsAre(1, 2));
}

TEST_F(Csv, GzipTruncatedAnywhereIsAnError) {
  write_gzip("1,2\n3,4\n5,6\n");
  const std::string whole = bytes();
  for (size_t size = 2; size < whole.size(); ++size) {
    EXPECT_ERROR(read(whole.substr(0, size)), ErrorCode::kBadFormat, "truncated?");
  }
}

TEST_F(Csv, DamagedGzipIsAnError) {
  write_gzip("1,2\n3,4\n5,6\n");
  std::string damaged = bytes();
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  EXPECT_ERROR(read(damaged), ErrorCode::kBadFormat, "damaged compressed data");
}

}  // namespace
}  // namespace isochron::data
