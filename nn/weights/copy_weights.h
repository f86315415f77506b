// Copies the weights of a module to another one with the same structure: target networks, teachers, copies.
#pragma once

#include "isochron/nn/module/module.h"

namespace isochron::nn {

/// Assigns the parameters and buffers of `from` to those of `to`, which have the same names and specs. With
/// a `share` below 1, parameters move only by that share of the difference, as a target network follows its
/// original (Polyak averaging): to + share (from - to). Buffers are always assigned whole. In a capture, this
/// is part of every step. Throws kInvalidArgument if `from` has no parameters, for a name that only one of
/// them has, and unless 0 < share <= 1; kShapeMismatch and kDtypeMismatch for a spec that differs. Nothing is
/// changed then.
///
///   Net target;  // of the class of `net`
///   target.build(x.spec());
///   nn::copy_weights(net, target);
void copy_weights(Module& from, Module& to, double share = 1);

}  // namespace isochron::nn
