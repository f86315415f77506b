// Models that forecast the weekly CO2 at Mauna Loa one week ahead: recurrent and convolutional networks that
// see the last two years.
#include <algorithm>
#include <functional>
#include <memory>

#include "isochron/apps/train/families.h"
#include "isochron/apps/train/session.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/models.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::apps {
namespace {

constexpr double kDaysPerYear = 365.25;

/// Windows (N, weeks) as sequences of one channel.
Tensor sequences(const Tensor& windows) {
  return reshape(windows, {windows.extent(0), windows.extent(1), 1});
}

/// Converts 19900106 to 1990.01, which is precise enough for an axis.
double year_of(int32_t date) {
  const int year = date / 10000, month = date / 100 % 100, day = date % 100;
  return year + ((month - 1) * kDaysPerYear / 12 + day - 1) / kDaysPerYear;
}

/// Plots of the measured values and the forecast in ppm over the test years, and over the last two of these
/// years.
std::vector<observe::Plot> forecast_plots(const data::Co2& co2, const Tensor& predictions) {
  observe::PlotSeries truth{.name = "measured", .x = {}, .y = {}};
  observe::PlotSeries forecast{.name = "forecast one week ahead", .x = {}, .y = {}, .dashed = true};
  const auto count = static_cast<size_t>(predictions.extent(0)), first = co2.ppm.size() - count;
  for (size_t i = 0; i < count; ++i) {
    const double year = year_of(co2.dates[first + i]);
    truth.x.push_back(year);
    forecast.x.push_back(year);
    truth.y.push_back(co2.ppm[first + i]);
    forecast.y.push_back(co2.test.base.span<float>()[i] + predictions.span<float>()[i] * co2.target_scale);
  }
  observe::Plot whole{.title = "Forecast and truth over the test years",
                      .x_label = "year",
                      .y_label = "CO2 in ppm",
                      .series = {truth, forecast}};
  observe::Plot end = whole;
  end.title = "The last two years";
  const size_t kept = std::min<size_t>(count, 104);
  for (observe::PlotSeries& series : end.series) {
    series.x.erase(series.x.begin(), series.x.end() - static_cast<std::ptrdiff_t>(kept));
    series.y.erase(series.y.begin(), series.y.end() - static_cast<std::ptrdiff_t>(kept));
    series.markers = true;
  }
  return {whole, end};
}

std::string result_of(const data::ForecastError& error, const data::Co2& co2) {
  const double best = std::min(co2.same_as_last_week.rmse_ppm, co2.seasonal_with_trend.rmse_ppm);
  const double gain = 100 * (1 - error.rmse_ppm / best);
  return gain > 0
             ? fmt::format("Its error is {:.0f} % lower than that of the better of the two simple forecasts.",
                           gain)
             : fmt::format(
                   "Its error is {:.0f} % higher than that of the better of the two simple forecasts; train "
                   "it for longer.",
                   -gain);
}

void train_forecaster(const TrainOptions& options, const TrainSettings& settings, const std::string& name,
                      const std::function<std::unique_ptr<nn::Module>()>& make) {
  TrainSession session(options, settings);
  const data::Co2 co2 = data::load_co2(session.data());
  session.trains_on({co2.train.inputs, co2.train.targets, co2.test.inputs, co2.test.targets});
  fmt::print("co2: {} windows of {} weeks for training, {} from 1990 on for testing\n",
             co2.train.inputs.extent(0), co2.train.inputs.extent(1), co2.test.inputs.extent(0));
  const std::unique_ptr<nn::Module> model = make();
  auto batches = session.batches(data::from_tensor_slices(sequences(co2.train.inputs), co2.train.targets));
  auto test = data::from_tensor_slices(sequences(co2.test.inputs), co2.test.targets).batch(256);
  train::Trainer trainer =
      session.trainer(train::supervised(*model, nn::mean_squared_error, session.optimizer()), batches);
  session.fit(trainer, batches, {.validation_data = test});
  const Tensor predictions = trainer.predict(test);
  const data::ForecastError error = co2.error(co2.test, predictions);
  const auto row = [](const std::string& who, const data::ForecastError& e) {
    return ComparedRow{who, {e.rmse_ppm, e.mae_ppm}};
  };
  session.finish({.title = name + ": weekly CO2 at Mauna Loa, one week ahead",
                  .task = fmt::format("{} weeks from 1990 on, each forecast from the two years before it",
                                      co2.test.inputs.extent(0)),
                  .result = result_of(error, co2),
                  .measures = {"ppm RMSE", "ppm MAE"},
                  .compared = {row("this model", error), row("same as last week", co2.same_as_last_week),
                               row("last year plus trend", co2.seasonal_with_trend)},
                  .test = {{"rmse_ppm", error.rmse_ppm},
                           {"mae_ppm", error.mae_ppm},
                           {"same_as_last_week_rmse_ppm", co2.same_as_last_week.rmse_ppm},
                           {"seasonal_rmse_ppm", co2.seasonal_with_trend.rmse_ppm}},
                  .plots = forecast_plots(co2, predictions)});
}

void train_lstm(const TrainOptions& options) {
  train_forecaster(options, {.epochs = 100, .batch = 64, .learning_rate = 2e-3}, "An LSTM",
                   [] { return own(nn::lstm_forecaster()); });
}

void train_gru(const TrainOptions& options) {
  train_forecaster(options, {.epochs = 100, .batch = 64, .learning_rate = 2e-3}, "A GRU",
                   [] { return own(nn::gru_forecaster()); });
}

void train_tcn(const TrainOptions& options) {
  train_forecaster(options, {.epochs = 60, .batch = 64, .learning_rate = 1e-3}, "Causal convolutions",
                   [] { return own(nn::TemporalConvolutionForecaster()); });
}

}  // namespace

std::vector<TrainableModel> forecast_models() {
  return {{"co2", "an LSTM that forecasts weekly CO2, one week ahead", train_lstm},
          {"lstm", "another name for co2", train_lstm},
          {"gru", "the same forecast with a GRU", train_gru},
          {"tcn", "the same forecast with causal dilated convolutions", train_tcn}};
}

}  // namespace isochron::apps
