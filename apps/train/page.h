// The page that `isochron train --out` writes: one HTML file that needs nothing else, light or dark as the
// reader's system is, wide or narrow.
#pragma once

#include <string>

#include "isochron/apps/train/session.h"

namespace isochron::apps {

/// The rows of what the model is held against, aligned, a line each.
std::string compared_text(const TrainOutcome& outcome);

/// `settings`: one line for people.
std::string train_page(const TrainOutcome& outcome, const std::string& settings,
                       const train::History& history, const observe::RunReport& report);

}  // namespace isochron::apps
