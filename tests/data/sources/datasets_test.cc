#include "isochron/data/sources/datasets.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "isochron/core/files/file.h"
#include "isochron/data/formats/csv.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

std::vector<std::vector<double>> rows_of(const LabelledImages& part) {
  const auto pixels = part.images.to_vector(), labels = part.labels.to_vector();
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    rows.emplace_back(pixels.begin() + static_cast<ptrdiff_t>(i * 64),
                      pixels.begin() + static_cast<ptrdiff_t>(i * 64 + 64));
    rows.back().push_back(labels[i]);
  }
  return rows;
}

TEST(Digits, AreScaledAndSplitIntoAllRows) {
  const Digits digits = load_digits();
  EXPECT_EQ(digits.train.images.spec(), (TensorSpec{DType::kF32, {1437, 8, 8, 1}}));
  EXPECT_EQ(digits.train.labels.spec(), (TensorSpec{DType::kI64, {1437}}));
  EXPECT_EQ(digits.test.images.extent(0), 360);
  auto rows = rows_of(digits.train);
  std::ranges::move(rows_of(digits.test), std::back_inserter(rows));
  const auto table = read_csv(dataset_path("digits.csv.gz")).values.to_vector();
  std::vector<std::vector<double>> expected;
  for (size_t i = 0; i < table.size(); i += 65) {
    expected.emplace_back(table.begin() + static_cast<ptrdiff_t>(i),
                          table.begin() + static_cast<ptrdiff_t>(i + 65));
    for (size_t pixel = 0; pixel < 64; ++pixel) expected.back()[pixel] /= 16;
  }
  std::ranges::sort(rows);
  std::ranges::sort(expected);
  EXPECT_EQ(rows, expected) << "every row of the file lies in exactly one part";
}

TEST(Digits, SplitIsTheSameEveryTimeAndMixesTheClasses) {
  const Digits once = load_digits(), again = load_digits();
  EXPECT_EQ(once.test.labels.to_vector(), again.test.labels.to_vector());
  EXPECT_EQ(once.train.images.to_vector(), again.train.images.to_vector());
  std::map<double, int> classes;
  for (double label : once.test.labels.to_vector()) ++classes[label];
  ASSERT_EQ(classes.size(), 10u);
  for (const auto& [label, count] : classes) EXPECT_GT(count, 20) << label;
}

TEST(Digits, BadValuesNameRowAndColumn) {
  const TempFolder folder;
  std::string row;
  for (int i = 0; i < 64; ++i) row += "16,";
  const auto refuse = [&](const std::string& text, const char* message) {
    write_file_atomically(folder / "d.csv", text);
    EXPECT_ERROR(load_digits(folder / "d.csv"), ErrorCode::kBadFormat, message);
  };
  refuse(row + "3\n" + row + "10\n", "row 2, column 65: expected a whole number in [0, 9], got 10");
  refuse(row + "3\n17" + row.substr(2) + "1\n", "row 2, column 1");
  refuse("1,2\n", "expected 65 columns");
  refuse(row + "3\n", "can't be split");
}

TEST(Co2, FillsMissingWeeksAndSplitsByTime) {
  const Co2 co2 = load_co2();
  EXPECT_EQ(co2.ppm.size(), 2284u);
  EXPECT_EQ(co2.filled_weeks, 59);
  for (double value : co2.ppm) ASSERT_TRUE(value > 300 && value < 380);
  EXPECT_EQ(co2.train.targets.extent(0), 1658 - 104)
      << "all weeks before 1990 that have a whole window before them";
  EXPECT_EQ(co2.test.targets.extent(0), 2284 - 1658);
  EXPECT_EQ(co2.test.inputs.spec(), (TensorSpec{DType::kF32, {626, 104}}));
}

TEST(Co2, WindowsHoldTheWeeksBeforeTheTarget) {
  const Co2 co2 = load_co2({}, {.window_weeks = 3, .horizon_weeks = 2});
  const float* inputs = co2.test.inputs.data<float>();
  const double base = co2.test.base.data<float>()[0];
  EXPECT_NEAR(base, co2.ppm[1656], 1e-4) << "two weeks before the first week of 1990";
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(base + inputs[i] * co2.input_scale, co2.ppm[1654 + i], 1e-4);
  EXPECT_NEAR(base + co2.test.targets.data<float>()[0] * co2.target_scale, co2.ppm[1658], 1e-4);
}

TEST(Co2, ScalesComeFromTrainingAlone) {
  const Co2 co2 = load_co2();
  double squares = 0;
  for (double value : co2.train.targets.to_vector()) squares += value * value;
  EXPECT_NEAR(squares / static_cast<double>(co2.train.targets.elems()), 1.0, 1e-5);
}

TEST(Co2, BaselinesAreThoseOfTheirDefinition) {
  const Co2 co2 = load_co2();
  Tensor zero = empty(co2.test.targets.spec());
  std::ranges::fill(zero.span<float>(), 0.0f);
  const ForecastError persistence = co2.error(co2.test, zero);
  EXPECT_NEAR(persistence.rmse_ppm, co2.same_as_last_week.rmse_ppm, 1e-5)
      << "predicting no change is persistence";
  EXPECT_NEAR(persistence.mae_ppm, co2.same_as_last_week.mae_ppm, 1e-5);
  EXPECT_GT(co2.same_as_last_week.rmse_ppm, 0.3);
  EXPECT_LT(co2.same_as_last_week.rmse_ppm, 0.8);
  EXPECT_LT(co2.seasonal_with_trend.rmse_ppm, 1.0);
  EXPECT_LT(co2.error(co2.test, co2.test.targets).rmse_ppm, 1e-6);
  EXPECT_ERROR(co2.error(co2.train, zero), ErrorCode::kShapeMismatch, "(1554, 1)");
}

TEST(Co2, BadSeriesAndOptionsAreErrors) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& text, const char* message) {
    write_file_atomically(folder / "c.csv", text);
    EXPECT_ERROR(load_co2(folder / "c.csv"), ErrorCode::kBadFormat, message);
  };
  refuse("date,co2\n19800105,\n19800112,300\n", "first and the last week");
  refuse("date,co2\n19800105,300\n19800113,300\n", "row 2: 19800113 is not a week after 19800105");
  refuse("date,co2\n19801305,300\n19801312,300\n", "19801305 is not a date");
  refuse("date,co2\n1980,300\n", "YYYYMMDD");
  refuse("date,co2\n19800105,300\n19800112,301\n", "too few");
  EXPECT_ERROR(load_co2({}, {.window_weeks = 0}), ErrorCode::kInvalidArgument, "window_weeks");
  EXPECT_ERROR(load_co2({}, {.horizon_weeks = 53}), ErrorCode::kInvalidArgument, "horizon_weeks");
}

TEST(DatasetPath, FollowsTheEnvironmentAndListsThePlaces) {
  const TempFolder folder;
  EXPECT_ERROR(dataset_path("none.csv"), ErrorCode::kIo, "none.csv] not found in");
  setenv("ISOCHRON_DATASETS", folder.path().c_str(), 1);
  EXPECT_ERROR(dataset_path("digits.csv.gz"), ErrorCode::kIo, folder.path().string());
  write_file_atomically(folder / "digits.csv.gz", "x");
  EXPECT_EQ(dataset_path("digits.csv.gz"), folder / "digits.csv.gz");
  unsetenv("ISOCHRON_DATASETS");
}

}  // namespace
}  // namespace isochron::data
