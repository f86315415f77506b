// The plan of a captured function for the instruments (observe/export/plan_picture.h).
#pragma once

#include <string>

#include "isochron/graph/step/captured.h"
#include "isochron/observe/export/plan_picture.h"

namespace isochron::train {

/// The plan of the signature that needs most memory. Throws kInvalidArgument before the first trace.
observe::PlanPicture plan_picture(const CapturedFunction& function, std::string title);

}  // namespace isochron::train
