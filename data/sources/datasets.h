// The two datasets that the project ships, ready for training. Sources and licences: datasets/SOURCES.md.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

/// The path of the shipped file `name`. If the environment variable ISOCHRON_DATASETS is set, only the folder
/// that it names is searched; otherwise the data folder relative to the program, then the source tree from
/// which the library was built, then the folder where it was installed. Throws kIo listing the places.
std::filesystem::path dataset_path(std::string_view name);

struct LabelledImages {
  Tensor images;  // f32 (N, 8, 8, 1), values in [0, 1]
  Tensor labels;  // i64 (N), values in [0, 10)
};

struct Digits {
  LabelledImages train;  // 1437 images of the shipped file
  LabelledImages test;   // 360
};

/// Handwritten digits (Alpaydin and Kaynak 1998), shuffled by a fixed seed and split 80/20: the same split in
/// every run. `path`: a CSV(.gz) of 64 pixels 0..16 and a label 0..9 a row; empty means the shipped file.
/// Throws like `read_csv`, and kBadFormat (row, column) for a value out of these ranges.
Digits load_digits(const std::filesystem::path& path = {});

struct Co2Options {
  int64_t window_weeks = 104;  // what the forecaster sees
  int64_t horizon_weeks = 1;   // how far ahead it looks, at most 52
};

/// Windows relative to their own last value, so that a forecaster needn't extrapolate the level, which only
/// rises: inputs = (week - base) / input_scale, targets = (target week - base) / target_scale.
struct Co2Windows {
  Tensor inputs;   // f32 (N, window_weeks)
  Tensor targets;  // f32 (N, 1)
  Tensor base;     // f32 (N, 1), ppmv: the last week of each window
};

struct ForecastError {
  double rmse_ppm = 0;
  double mae_ppm = 0;
};

struct Co2 {
  std::vector<int32_t> dates;  // YYYYMMDD, a week apart
  std::vector<double> ppm;     // missing weeks filled by linear interpolation
  int64_t filled_weeks = 0;
  Co2Windows train;                          // targets before 1990
  Co2Windows test;                           // targets from 1990 on; their windows may reach back before it
  double input_scale = 1, target_scale = 1;  // ppmv, from the training windows alone
  ForecastError same_as_last_week;           // of the test targets, by persistence
  ForecastError seasonal_with_trend;  // by the same week last year plus last year's trend (mean of the last
                                      // 52 known weeks less the mean of the 52 before)

  /// Error in ppmv of `predictions` (f32 (N, 1), in units of target_scale over base) for `windows`.
  /// Throws kShapeMismatch.
  ForecastError error(const Co2Windows& windows, const Tensor& predictions) const;
};

/// Weekly CO2 at Mauna Loa (Keeling and Whorf 2004) as windows for a forecaster, split by time. `path`: a CSV
/// with header date,co2; empty means the shipped file. Throws like `read_csv`; kInvalidArgument for a window
/// or horizon out of range; kBadFormat for dates that are not a week apart, a missing first or last value, or
/// too few weeks on either side of 1990.
Co2 load_co2(const std::filesystem::path& path = {}, const Co2Options& options = {});

}  // namespace isochron::data
