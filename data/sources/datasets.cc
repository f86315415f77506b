#include "isochron/data/sources/datasets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <span>

#include "isochron/core/base/rng.h"
#include "isochron/core/files/program_folder.h"
#include "isochron/data/formats/csv.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPixels = 64;
constexpr double kBrightest = 16;
constexpr uint64_t kSplitSeed = 1998;
constexpr int32_t kFirstTestDate = 19900101;
constexpr int64_t kWeeksPerYear = 52;

LabelledImages digits_of(const double* table, std::span<const int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  LabelledImages result{empty({DType::kF32, {count, 8, 8, 1}}, "dataset"),
                        empty({DType::kI64, {count}}, "dataset")};
  float* pixels = result.images.data<float>();
  int64_t* labels = result.labels.data<int64_t>();
  for (int64_t row : rows) {
    const double* values = table + row * (kPixels + 1);
    for (int64_t i = 0; i < kPixels; ++i) *pixels++ = static_cast<float>(values[i] / kBrightest);
    *labels++ = static_cast<int64_t>(values[kPixels]);
  }
  return result;
}

void check_digits(const CsvTable& table, const std::string& where) {
  require(table.columns() == kPixels + 1, ErrorCode::kBadFormat, where,
          "expected 65 columns (64 pixels and a label), got {}", table.columns());
  const double* values = table.values.data<double>();
  for (int64_t i = 0; i < table.values.elems(); ++i) {
    const int64_t column = i % (kPixels + 1);
    const double highest = column < kPixels ? kBrightest : 9;
    if (values[i] < 0 || values[i] > highest || values[i] != std::floor(values[i])) {
      fail(ErrorCode::kBadFormat, where, "row {}, column {}: expected a whole number in [0, {}], got {}",
           i / (kPixels + 1) + 1, column + 1, highest, values[i]);
    }
  }
}

std::chrono::sys_days day_of(int32_t date, const std::string& where) {
  const auto calendar = std::chrono::year(date / 10000) / (date / 100 % 100) / (date % 100);
  require(calendar.ok(), ErrorCode::kBadFormat, where, "{} is not a date; expected YYYYMMDD", date);
  return std::chrono::sys_days(calendar);
}

/// Fills NaN weeks by linear interpolation; returns how many.
int64_t interpolate(std::vector<double>& values, const std::string& where) {
  require(!std::isnan(values.front()) && !std::isnan(values.back()), ErrorCode::kBadFormat, where,
          "the first and the last week need a value: the rest is interpolated between");
  int64_t filled = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (!std::isnan(values[i])) continue;
    size_t next = i;
    while (std::isnan(values[next])) ++next;
    const double step = (values[next] - values[i - 1]) / static_cast<double>(next - i + 1);
    values[i] = values[i - 1] + step;
    ++filled;
  }
  return filled;
}

void read_weeks(const fs::path& path, Co2& co2) {
  const std::string where = path.string();
  const CsvTable table = read_csv(path, {.header = true, .missing = MissingValue::kNan});
  const int64_t date_column = table.column("date"), value_column = table.column("co2");
  const double* values = table.values.data<double>();
  for (int64_t row = 0; row < table.rows(); ++row) {
    const double date = values[row * table.columns() + date_column];
    require(date >= 1e7 && date < 1e8 && date == std::floor(date), ErrorCode::kBadFormat, where,
            "row {}: expected a date as YYYYMMDD, got {}", row + 1, date);
    const double ppm = values[row * table.columns() + value_column];
    require(std::isnan(ppm) || (ppm > 0 && ppm < 1e6), ErrorCode::kBadFormat, where,
            "row {}: expected CO2 in parts per million, between 0 and 1,000,000, got {}", row + 1, ppm);
    co2.dates.push_back(static_cast<int32_t>(date));
    co2.ppm.push_back(ppm);
    if (row > 0 &&
        day_of(co2.dates[row], where) - day_of(co2.dates[row - 1], where) != std::chrono::days(7)) {
      fail(ErrorCode::kBadFormat, where, "row {}: {} is not a week after {}", row + 1, co2.dates[row],
           co2.dates[row - 1]);
    }
  }
  co2.filled_weeks = interpolate(co2.ppm, where);
}

/// Windows whose targets are the weeks [begin, end), in ppmv over their base.
Co2Windows windows_of(const std::vector<double>& ppm, int64_t begin, int64_t end, const Co2Options& options) {
  const int64_t count = end - begin;
  Co2Windows result{empty({DType::kF32, {count, options.window_weeks}}, "dataset"),
                    empty({DType::kF32, {count, 1}}, "dataset"), empty({DType::kF32, {count, 1}}, "dataset")};
  float* input = result.inputs.data<float>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t last = begin + i - options.horizon_weeks;
    const double base = ppm[last];
    for (int64_t week = last - options.window_weeks + 1; week <= last; ++week) {
      *input++ = static_cast<float>(ppm[week] - base);
    }
    result.targets.data<float>()[i] = static_cast<float>(ppm[begin + i] - base);
    result.base.data<float>()[i] = static_cast<float>(base);
  }
  return result;
}

double root_mean_square(const Tensor& values) {
  double squares = 0;
  for (float value : values.span<float>()) squares += double{value} * value;
  return std::sqrt(squares / static_cast<double>(values.elems()));
}

void divide(const Tensor& values, double scale) {
  for (float& value : values.span<float>()) value = static_cast<float>(value / scale);
}

class ErrorSum {
 public:
  void add(double difference) {
    squares_ += difference * difference;
    absolutes_ += std::abs(difference);
    ++count_;
  }
  ForecastError result() const { return {std::sqrt(squares_ / count_), absolutes_ / count_}; }

 private:
  double squares_ = 0, absolutes_ = 0, count_ = 0;
};

void measure_baselines(Co2& co2, int64_t begin, int64_t horizon) {
  ErrorSum persistence, seasonal;
  const auto year_mean = [&](int64_t end) {
    return std::accumulate(&co2.ppm[end - kWeeksPerYear], &co2.ppm[end], 0.0) / kWeeksPerYear;
  };
  for (int64_t week = begin; week < static_cast<int64_t>(co2.ppm.size()); ++week) {
    const int64_t known = week - horizon + 1;  // weeks before this one
    const double trend = year_mean(known) - year_mean(known - kWeeksPerYear);
    persistence.add(co2.ppm[known - 1] - co2.ppm[week]);
    seasonal.add(co2.ppm[week - kWeeksPerYear] + trend - co2.ppm[week]);
  }
  co2.same_as_last_week = persistence.result();
  co2.seasonal_with_trend = seasonal.result();
}

}  // namespace

fs::path dataset_path(std::string_view name) {
  std::vector<std::string> places;
  if (const char* folder = std::getenv("ISOCHRON_DATASETS")) {
    places = {folder};
  } else {
    // An installation may have been moved, and the tree that it was built from be another one's now.
    places = {(beside_program(ISOCHRON_DATA_FOLDER) / "isochron" / "datasets").string(),
              ISOCHRON_DATASETS_SOURCE, ISOCHRON_DATASETS_INSTALLED};
  }
  for (const std::string& place : places) {
    std::error_code ignored;
    if (const fs::path path = fs::path(place) / name; fs::exists(path, ignored)) return path;
  }
  fail(ErrorCode::kIo, name, "not found in {}; set ISOCHRON_DATASETS to the folder of the datasets",
       fmt::join(places, ", "));
}

Digits load_digits(const fs::path& path) {
  const fs::path file = path.empty() ? dataset_path("digits.csv.gz") : path;
  const CsvTable table = read_csv(file);
  check_digits(table, file.string());
  require(table.rows() >= 5, ErrorCode::kBadFormat, file.string(), "{} rows can't be split 80/20",
          table.rows());
  std::vector<int64_t> order(static_cast<size_t>(table.rows()));
  std::iota(order.begin(), order.end(), 0);
  Rng rng(kSplitSeed);
  for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[rng.below(left)]);
  const size_t train_rows = order.size() * 4 / 5;
  const std::span<const int64_t> rows(order);
  const double* values = table.values.data<double>();
  return {digits_of(values, rows.first(train_rows)), digits_of(values, rows.subspan(train_rows))};
}

ForecastError Co2::error(const Co2Windows& windows, const Tensor& predictions) const {
  require(predictions.shape() == windows.targets.shape(), ErrorCode::kShapeMismatch, "co2",
          "expected predictions of shape {}, got {}", windows.targets.shape().str(),
          predictions.shape().str());
  const auto predicted = predictions.span<float>(), targets = windows.targets.span<float>();
  ErrorSum sum;
  for (size_t i = 0; i < targets.size(); ++i) sum.add((double{predicted[i]} - targets[i]) * target_scale);
  return sum.result();
}

Co2 load_co2(const fs::path& path, const Co2Options& options) {
  require(options.window_weeks >= 1 && options.window_weeks <= 1000, ErrorCode::kInvalidArgument, "load_co2",
          "window_weeks must lie in [1, 1000], got {}", options.window_weeks);
  require(options.horizon_weeks >= 1 && options.horizon_weeks <= kWeeksPerYear, ErrorCode::kInvalidArgument,
          "load_co2", "horizon_weeks must lie in [1, 52], got {}", options.horizon_weeks);
  const fs::path file = path.empty() ? dataset_path("co2_weekly.csv") : path;
  Co2 co2;
  read_weeks(file, co2);
  const int64_t first_test =
      std::lower_bound(co2.dates.begin(), co2.dates.end(), kFirstTestDate) - co2.dates.begin();
  const int64_t first_train = options.window_weeks + options.horizon_weeks - 1;
  const auto weeks = static_cast<int64_t>(co2.dates.size());
  require(first_test > std::max(first_train, 2 * kWeeksPerYear + options.horizon_weeks) && first_test < weeks,
          ErrorCode::kBadFormat, file.string(),
          "{} weeks before 1990 and {} after are too few for a window of {}", first_test, weeks - first_test,
          options.window_weeks);
  co2.train = windows_of(co2.ppm, first_train, first_test, options);
  co2.test = windows_of(co2.ppm, first_test, weeks, options);
  co2.input_scale = root_mean_square(co2.train.inputs);
  co2.target_scale = root_mean_square(co2.train.targets);
  require(co2.input_scale > 0 && co2.target_scale > 0, ErrorCode::kBadFormat, file.string(),
          "the series is constant before 1990; there is nothing to learn");
  for (const Co2Windows* windows : {&co2.train, &co2.test}) {
    divide(windows->inputs, co2.input_scale);
    divide(windows->targets, co2.target_scale);
  }
  measure_baselines(co2, first_test, options.horizon_weeks);
  return co2;
}

}  // namespace isochron::data
