// The optimizers' rules on one element: the new parameter from parameter p, gradient g and states s, which
// they replace. Written over the vocabulary of functors-inl.h, and included as that is: for vectors per
// instruction set, and for plain scalars in device code.

#if defined(ISOCHRON_OPS_UPDATE_FUNCTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_UPDATE_FUNCTORS_INL_H_
#undef ISOCHRON_OPS_UPDATE_FUNCTORS_INL_H_
#else
#define ISOCHRON_OPS_UPDATE_FUNCTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

using element::UpdateNumbers;

// In this order, as they use one another.
// clang-format off
#include "isochron/ops/optimizer/rules/sgd-inl.h"
#include "isochron/ops/optimizer/rules/adam-inl.h"
#include "isochron/ops/optimizer/rules/rmsprop-inl.h"
#include "isochron/ops/optimizer/rules/adadelta-inl.h"
#include "isochron/ops/optimizer/rules/adamax-inl.h"
#include "isochron/ops/optimizer/rules/nadam-inl.h"
#include "isochron/ops/optimizer/rules/lion-inl.h"
#include "isochron/ops/optimizer/rules/rprop-inl.h"
// clang-format on

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
