// The bundled models by name. There is one source file per family of models.
#pragma once

#include <string>
#include <vector>

#include "isochron/apps/train/options.h"

namespace isochron::apps {

struct TrainableModel {
  std::string name;
  std::string what;  // one line for the help
  void (*train)(const TrainOptions&);
  bool batch_norm = false;  // whether it has batch normalization (for --sync-batch-norm)
};

std::vector<TrainableModel> image_models();     // images.cc
std::vector<TrainableModel> forecast_models();  // forecasts.cc
std::vector<TrainableModel> text_models();      // text.cc
std::vector<TrainableModel> random_models();    // regress.cc

/// All of them, in the order of the help.
const std::vector<TrainableModel>& trainable_models();

}  // namespace isochron::apps
