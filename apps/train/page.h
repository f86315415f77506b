// What `isochron train` keeps of a run: the record that `isochron report` reads, and that its page is made
// of.
#pragma once

#include <string>

#include "isochron/apps/train/session.h"
#include "isochron/observe/export/run_record.h"

namespace isochron::apps {

/// Bytes that are no UTF-8 as question marks: a sample of a model may break off within a character.
std::string valid_text(const std::string& text);

/// The rows of the comparison with the model, aligned, one per line.
std::string compared_text(const TrainOutcome& outcome);

/// `summary`: the settings in one line for people.
observe::RunRecord train_record(const TrainOutcome& outcome, const std::string& summary,
                                std::vector<std::pair<std::string, std::string>> settings,
                                const train::History& history, observe::RunData run);

}  // namespace isochron::apps
