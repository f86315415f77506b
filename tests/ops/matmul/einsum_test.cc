// Einsum against its definition: a loop over all indices.
#include "isochron/ops/matmul/einsum.h"

#include <gtest/gtest.h>

#include <map>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Values values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return from_vector(shape, values, DType::kF64);
}

struct Case {
  std::string equation;  // without "...": letters for all axes and an explicit result
  std::vector<Shape> shapes;
  std::string written = {};  // how it is given to einsum, where that differs
};

/// The definition: the sum over all letters' values of the product of the elements they choose.
Tensor by_definition(const Case& example, const std::vector<Tensor>& tensors) {
  std::vector<std::string> terms(1);
  for (const char c : example.equation) {
    if (c == ',' || c == '-') {
      terms.emplace_back();
    } else if (c != '>') {
      terms.back() += c;
    }
  }
  std::map<char, int64_t> extents;
  for (size_t k = 0; k < tensors.size(); ++k) {
    for (size_t i = 0; i < terms[k].size(); ++i) {
      int64_t& extent = extents[terms[k][i]];
      extent = std::max(extent, tensors[k].shape()[static_cast<int>(i)]);
    }
  }
  Shape all;
  std::string letters;
  for (const auto& [letter, extent] : extents) {
    all.push_back(extent);
    letters += letter;
  }
  const auto index_of = [&](const std::string& term, const Dims& at, const Shape& shape) {
    Dims index;
    for (size_t i = 0; i < term.size(); ++i) {
      const int64_t value = at[static_cast<int>(letters.find(term[i]))];
      index.push_back(shape[static_cast<int>(i)] == 1 ? 0 : value);
    }
    return static_cast<size_t>(ravel(index, shape));
  };
  Shape result_shape;
  for (const char c : terms.back()) result_shape.push_back(extents[c]);
  std::vector<Values> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.to_vector());
  Values result(static_cast<size_t>(result_shape.elems()));
  for (int64_t n = 0; n < all.elems(); ++n) {
    const Dims at = unravel(n, all);
    double product = 1;
    for (size_t k = 0; k < tensors.size(); ++k)
      product *= values[k][index_of(terms[k], at, tensors[k].shape())];
    result[index_of(terms.back(), at, result_shape)] += product;
  }
  return from_vector(result_shape, result, DType::kF64);
}

const std::vector<Case> kCases = {{"ij->ji", {{2, 3}}},
                                  {"ij->", {{2, 3}}},
                                  {"ij->j", {{2, 3}}},
                                  {"ii->", {{3, 3}}, "ii"},
                                  {"ii->i", {{3, 3}}},
                                  {"ijii->ji", {{3, 2, 3, 3}}},
                                  {"ijij->ij", {{3, 2, 3, 2}}},
                                  {"i,i->", {{4}, {4}}},
                                  {"i,i->i", {{4}, {4}}},
                                  {"i,j->ij", {{4}, {3}}},
                                  {"i,j->ji", {{4}, {3}}},
                                  {",ij->ij", {{}, {2, 3}}},
                                  {"ij,jk->ik", {{2, 3}, {3, 4}}, "ij,jk"},
                                  {"ij,jk->ki", {{2, 3}, {3, 4}}},
                                  {"ji,kj->ik", {{3, 2}, {4, 3}}},
                                  {"bA,bc->Ac", {{3, 2}, {3, 4}}, "bA, bc"},
                                  {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
                                  {"bij,bkj->bik", {{2, 3, 4}, {2, 5, 4}}},
                                  {"bij,jk->bik", {{2, 3, 4}, {4, 5}}},
                                  {"ibj,jbk->bki", {{3, 2, 4}, {4, 2, 5}}},
                                  {"bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
                                  {"bqhd,bkhd->bhqk", {{2, 4, 3, 5}, {2, 6, 3, 5}}},
                                  {"ijkl,klm->mij", {{2, 3, 4, 2}, {4, 2, 5}}},
                                  {"ijkl,lkm->imj", {{2, 3, 4, 2}, {2, 4, 5}}},
                                  {"ij,k->ij", {{2, 3}, {4}}},
                                  {"iij,jk->ik", {{3, 3, 2}, {2, 4}}},
                                  {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}},
                                  {"ij,ij,ij->i", {{2, 3}, {2, 3}, {2, 3}}},
                                  {"bn,anm,bm->ba", {{2, 3}, {5, 3, 4}, {2, 4}}},
                                  {"a,b,c,d->dbca", {{2}, {3}, {2}, {3}}},
                                  {"ij,jk->ik", {{2, 0}, {0, 4}}},
                                  {"xyij,xyjk->xyik", {{2, 3, 3, 4}, {2, 3, 4, 2}}, "...ij,...jk->...ik"},
                                  {"xyij,xyjk->xyik", {{2, 1, 3, 4}, {1, 3, 4, 2}}, "...ij,...jk"},
                                  {"xij,jk->xik", {{2, 3, 4}, {4, 2}}, "...ij,...jk->...ik"},
                                  {"ixy,yj->ijxy", {{3, 2, 4}, {4, 5}}, "i...,...j->ij..."},
                                  {"xyi->ixy", {{2, 1, 3}}, "...i->i..."},
                                  {"xi,x->xi", {{1, 3}, {1}}, "...i,..."}};

std::vector<Tensor> operands_of(const Case& example) {
  std::vector<Tensor> operands;
  for (const Shape& shape : example.shapes) operands.push_back(random_tensor(shape, 3 + operands.size()));
  return operands;
}

std::string written(const Case& example) {
  return example.written.empty() ? example.equation : example.written;
}

TEST(Einsum, IsTheSumOfProductsThatTheEquationNames) {
  for (const Case& example : kCases) {
    const std::vector<Tensor> operands = operands_of(example);
    EXPECT_TRUE(near(einsum(written(example), operands), by_definition(example, operands), 1e-13, 1e-13))
        << written(example);
  }
}

TEST(Einsum, HasTheGradientOfAFunctionLinearInEachOperand) {
  for (const Case& example : kCases) {
    std::vector<Tensor> operands = operands_of(example);
    GradientTape tape;
    const Tensor y = einsum(written(example), operands);
    const Tensor seed = random_tensor(y.shape(), 17);
    const std::vector<Tensor> gradients = tape.gradient({&y, 1}, operands, {&seed, 1});
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor direction = random_tensor(operands[k].shape(), 19);
      std::vector<Tensor> moved = operands;
      moved[k] = direction;  // f(x + d) - f(x) = f(d)
      const double exact = sum(by_definition(example, moved) * seed).item<double>();
      EXPECT_NEAR(sum(gradients[k] * direction).item<double>(), exact, 1e-12)
          << written(example) << ", " << k;
    }
  }
}

TEST(Einsum, IsCaptured) {
  auto step = capture([](const Tensor& a, const Tensor& b) { return einsum("bij,bkj->bik", {a, b}); });
  const Tensor a = random_tensor({2, 3, 4}, 1);
  const Tensor b = random_tensor({2, 5, 4}, 2);
  EXPECT_TRUE(near(step(a, b), einsum("bij,bkj->bik", {a, b}), 1e-14, 1e-14));
}

TEST(Einsum, SaysWhereTheEquationIsWrong) {
  const Tensor x = random_tensor({2, 3}, 1);
  const auto rejects = [&](std::string_view equation, std::string_view text, ErrorCode code) {
    EXPECT_ERROR(einsum(equation, {x}), code, std::string(text));
  };
  rejects("i1", "'i1', position 1: expected a letter", ErrorCode::kInvalidArgument);
  rejects("i..", "position 1: expected a letter", ErrorCode::kInvalidArgument);
  rejects("i-j", "position 1: expected a letter", ErrorCode::kInvalidArgument);
  rejects("......", "a second '...'", ErrorCode::kInvalidArgument);
  rejects("ij->ik", "no operand has the result's 'k'", ErrorCode::kInvalidArgument);
  rejects("ij->ii", "the result has 'i' twice", ErrorCode::kInvalidArgument);
  rejects("ij->i,j", "more than one result", ErrorCode::kInvalidArgument);
  rejects("i...->i", "the result lacks the 1 axes behind '...'", ErrorCode::kInvalidArgument);
  rejects("ij,jk", "is of 2 operands, got 1", ErrorCode::kInvalidArgument);
  rejects("ijk", "names 3 axes of operand 0, got f64(2, 3)", ErrorCode::kShapeMismatch);
  rejects("ijk...", "names 3 axes", ErrorCode::kShapeMismatch);
  rejects("ii", "axis 1 of operand 0, f64(2, 3), has 3 elements where 2", ErrorCode::kShapeMismatch);
  EXPECT_ERROR(einsum("ij,jk", {x, x}), ErrorCode::kShapeMismatch, "axis 0 of operand 1");
  EXPECT_ERROR(einsum("ij,ij", {x, zeros({2, 3})}), ErrorCode::kDtypeMismatch, "operands 0 and 1 differ");
  EXPECT_ERROR(einsum("i", {Tensor()}), ErrorCode::kInvalidArgument, "undefined");
}

}  // namespace
}  // namespace isochron
