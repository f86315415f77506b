#include "isochron/ops/elementwise/element_accuracy.h"

#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;

constexpr ElementAccuracy kAccuracies[] = {
    {ElementOp::kCopy, {}, {}},
    {ElementOp::kNeg, {}, {}},
    {ElementOp::kAbs, {}, {}},
    {ElementOp::kSign, {}, {}},
    {ElementOp::kSquare, {0.5}, {0.5}},
    {ElementOp::kSqrt, {0.5}, {0.5}},
    {ElementOp::kRsqrt, {1.5}, {1.5}},
    {ElementOp::kReciprocal, {0.5}, {0.5}},
    {ElementOp::kExp, {1.5}, {1.5}},
    {ElementOp::kExpm1, {4}, {4}},
    {ElementOp::kLog, {1}, {1}},
    {ElementOp::kLog1p, {3}, {3}},
    {ElementOp::kSin, {3, 0.5}, {3, 0.5}},
    {ElementOp::kCos, {3, 0.5}, {3, 0.5}},
    {ElementOp::kTanh, {7}, {4}},
    {ElementOp::kSigmoid, {3}, {3}},
    {ElementOp::kErf, {7}, {1.5}},
    {ElementOp::kRelu, {}, {}},
    {ElementOp::kRelu6, {}, {}},
    {ElementOp::kSoftplus, {3}, {3}},
    {ElementOp::kSilu, {3}, {3}},
    {ElementOp::kGelu, {4, 0.5}, {4, 0.5}},
    {ElementOp::kGeluTanh, {4, 0.5}, {4, 0.5}},
    {ElementOp::kFloor, {}, {}},
    {ElementOp::kCeil, {}, {}},
    {ElementOp::kRound, {}, {}},
    {ElementOp::kTrunc, {}, {}},
    {ElementOp::kAdd, {0.5}, {0.5}},
    {ElementOp::kSub, {0.5}, {0.5}},
    {ElementOp::kMul, {0.5}, {0.5}},
    {ElementOp::kDiv, {0.5}, {0.5}},
    {ElementOp::kPow, {1}, {1}},
    {ElementOp::kMod, {}, {}},
    {ElementOp::kMaximum, {}, {}},
    {ElementOp::kMinimum, {}, {}},
    {ElementOp::kAtan2, {1.5}, {1.5}},
    {ElementOp::kGeluGrad, {3, 1.5}, {3, 1.5}},
    {ElementOp::kTan, {1.5}, {1.5}},
    {ElementOp::kAsin, {1}, {1}},
    {ElementOp::kAcos, {1}, {1}},
    {ElementOp::kAtan, {1}, {1}},
    {ElementOp::kSinh, {2}, {2}},
    {ElementOp::kCosh, {2}, {2}},
    {ElementOp::kAsinh, {2}, {2}},
    {ElementOp::kAcosh, {2}, {2}},
    {ElementOp::kAtanh, {2}, {2}},
    {ElementOp::kLgamma, {7}, {4}},
};

}  // namespace

std::span<const ElementAccuracy> element_accuracies() { return kAccuracies; }

ErrorBound error_bound(ElementOp op, DType dtype) {
  require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kInvalidArgument, "error_bound",
          "expected f32 or f64, got {}", dtype_name(dtype));
  for (const ElementAccuracy& row : kAccuracies) {
    if (row.op == op) return dtype == DType::kF32 ? row.f32 : row.f64;
  }
  fail(ErrorCode::kInvalidArgument, "error_bound", "no bound is stated for {}", graph::element_op_name(op));
}

}  // namespace isochron::ops
