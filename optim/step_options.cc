#include "isochron/optim/step_options.h"

namespace isochron::optim {

ParameterFilter::ParameterFilter() = default;
ParameterFilter::ParameterFilter(const ParameterFilter& other) = default;
ParameterFilter& ParameterFilter::operator=(const ParameterFilter& other) = default;
ParameterFilter::~ParameterFilter() = default;

}  // namespace isochron::optim
