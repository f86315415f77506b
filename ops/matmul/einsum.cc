#include "isochron/ops/matmul/einsum.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace {

// The label of an axis is the code of its letter, or 0, 1, ... for the axes that "..." stands for, counted
// from the end.
using Label = int;
using Labels = std::vector<Label>;
constexpr int kLabels = 128;
constexpr Label kEllipsis = -1;  // in terms that aren't expanded yet

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[noreturn]] void fail_at(std::string_view equation, size_t position, std::string_view problem) {
  fail(ErrorCode::kInvalidArgument, "einsum", "'{}', position {}: {}", equation, position, problem);
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

/// The terms of equation[begin, end), separated by commas.
std::vector<Labels> parse_terms(std::string_view equation, size_t begin, size_t end) {
  std::vector<Labels> terms(1);
  for (size_t i = begin; i < end; ++i) {
    const char c = equation[i];
    if (c == ' ') continue;
    if (c == ',') {
      terms.emplace_back();
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      terms.back().push_back(c);
    } else if (equation.substr(i, 3) == "..." && i + 3 <= end) {
      if (contains(terms.back(), kEllipsis)) fail_at(equation, i, "a second '...' in one operand");
      terms.back().push_back(kEllipsis);
      i += 2;
    } else {
      fail_at(equation, i, fmt::format("expected a letter, ',', '...' or '->', got '{}'", c));
    }
  }
  return terms;
}

Labels implicit_output(const std::vector<Labels>& inputs) {
  std::array<int, kLabels> count{};
  bool ellipsis = false;
  for (const Labels& term : inputs) {
    for (const Label label : term) {
      if (label == kEllipsis) {
        ellipsis = true;
      } else {
        ++count[static_cast<size_t>(label)];
      }
    }
  }
  Labels output;
  if (ellipsis) output.push_back(kEllipsis);
  for (int label = 0; label < kLabels; ++label) {
    if (count[static_cast<size_t>(label)] == 1) output.push_back(label);
  }
  return output;
}

Equation parse(std::string_view equation) {
  const size_t arrow = equation.find("->");
  Equation result;
  result.inputs = parse_terms(equation, 0, std::min(arrow, equation.size()));
  if (arrow == std::string_view::npos) {
    result.output = implicit_output(result.inputs);
    return result;
  }
  const std::vector<Labels> outputs = parse_terms(equation, arrow + 2, equation.size());
  if (outputs.size() != 1) fail_at(equation, equation.find(',', arrow), "more than one result");
  result.output = outputs[0];
  for (size_t i = 0; i < result.output.size(); ++i) {
    const Label label = result.output[i];
    const std::string name = label == kEllipsis ? "..." : std::string(1, static_cast<char>(label));
    const bool known = std::any_of(result.inputs.begin(), result.inputs.end(),
                                   [label](const Labels& term) { return contains(term, label); });
    if (!known && label != kEllipsis)
      fail_at(equation, arrow + 2, fmt::format("no operand has the result's '{}'", name));
    if (std::count(result.output.begin(), result.output.end(), label) > 1)
      fail_at(equation, arrow + 2, fmt::format("the result has '{}' twice", name));
  }
  return result;
}

/// A tensor whose axes have distinct labels.
struct Operand {
  Tensor tensor;
  Labels labels;
};

struct Problem {
  std::vector<Operand> operands;
  Labels output;
  std::array<int64_t, kLabels> extents{};  // by label

  double size_of(const Labels& labels) const {
    double size = 1;
    for (const Label label : labels) size *= static_cast<double>(extents[static_cast<size_t>(label)]);
    return size;
  }
};

/// `term` with its ellipsis replaced by the labels of `count` axes.
Labels expand(const Labels& term, int count) {
  Labels result;
  for (const Label label : term) {
    if (label != kEllipsis) {
      result.push_back(label);
      continue;
    }
    for (int i = count - 1; i >= 0; --i) result.push_back(i);
  }
  return result;
}

/// Removes repeated labels from `x` by taking the diagonal of each pair.
Operand take_diagonals(Operand x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const auto second =
        std::find(x.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, x.labels.end(), x.labels[i]);
    if (second == x.labels.end()) continue;
    const size_t j = static_cast<size_t>(second - x.labels.begin());
    Dims order;
    Labels labels;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (axis == i || axis == j) continue;
      order.push_back(static_cast<int64_t>(axis));
      labels.push_back(x.labels[axis]);
    }
    order.push_back(static_cast<int64_t>(i));
    order.push_back(static_cast<int64_t>(j));
    labels.push_back(x.labels[i]);
    return take_diagonals({diagonal(transpose(x.tensor, order)), labels});
  }
  return x;
}

/// Drops the axes of "..." that have extent 1, because they broadcast.
Operand drop_broadcast_axes(Operand x) {
  Dims shape;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const int64_t extent = x.tensor.shape()[static_cast<int>(i)];
    if (x.labels[i] < kMaxRank && extent == 1) continue;
    shape.push_back(extent);
    labels.push_back(x.labels[i]);
  }
  return {reshape(x.tensor, shape), labels};
}

/// Assigns the equation's labels to the axes of the operands.
Problem lay_out(std::string_view text, const std::vector<Tensor>& tensors) {
  const Equation equation = parse(text);
  require(equation.inputs.size() == tensors.size(), ErrorCode::kInvalidArgument, "einsum",
          "'{}' is of {} operands, got {}", text, equation.inputs.size(), tensors.size());
  Problem problem;
  problem.extents.fill(-1);
  int ellipsis_axes = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& tensor = tensors[k];
    const Labels& term = equation.inputs[k];
    require(tensor.defined(), ErrorCode::kInvalidArgument, "einsum", "operand {} is undefined", k);
    require(tensor.dtype() == tensors[0].dtype(), ErrorCode::kDtypeMismatch, "einsum",
            "operands 0 and {} differ: {} and {}; cast one of them", k, tensors[0].spec().str(),
            tensor.spec().str());
    const bool ellipsis = contains(term, kEllipsis);
    const int further = tensor.rank() - static_cast<int>(term.size()) + (ellipsis ? 1 : 0);
    require(ellipsis ? further >= 0 : further == 0, ErrorCode::kShapeMismatch, "einsum",
            "'{}' names {} axes of operand {}, got {}", text, term.size() - (ellipsis ? 1 : 0), k,
            tensor.spec().str());
    ellipsis_axes = std::max(ellipsis_axes, ellipsis ? further : 0);
    const Labels labels = expand(term, further);
    for (size_t i = 0; i < labels.size(); ++i) {
      int64_t& known = problem.extents[static_cast<size_t>(labels[i])];
      const int64_t extent = tensor.shape()[static_cast<int>(i)];
      const bool broadcasts = labels[i] < kMaxRank && (extent == 1 || known == 1);
      require(known < 0 || known == extent || broadcasts, ErrorCode::kShapeMismatch, "einsum",
              "'{}': axis {} of operand {}, {}, has {} elements where {} were expected from those before",
              text, i, k, tensor.spec().str(), extent, known);
      if (known < 0 || known == 1) known = extent;
    }
    problem.operands.push_back(drop_broadcast_axes(take_diagonals({tensor, labels})));
  }
  require(ellipsis_axes == 0 || contains(equation.output, kEllipsis), ErrorCode::kInvalidArgument, "einsum",
          "'{}': the result lacks the {} axes behind '...'; write '...' there, or name and so sum them", text,
          ellipsis_axes);
  problem.output = expand(equation.output, ellipsis_axes);
  return problem;
}

/// Whether `label` is in the result or in an operand other than `a` and `b`.
bool needed_elsewhere(const Problem& problem, Label label, size_t a, size_t b) {
  if (contains(problem.output, label)) return true;
  for (size_t k = 0; k < problem.operands.size(); ++k) {
    if (k != a && k != b && contains(problem.operands[k].labels, label)) return true;
  }
  return false;
}

/// Sums over the labels that only operand `k` has.
void sum_own_labels(Problem& problem, size_t k) {
  Operand& x = problem.operands[k];
  Axes axes;
  Labels kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (needed_elsewhere(problem, x.labels[i], k, k)) {
      kept.push_back(x.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (!axes.empty()) x = {sum(x.tensor, axes), kept};
}

/// `x` transposed to the order of `labels`.
Tensor in_order(const Operand& x, const Labels& labels) {
  if (x.labels == labels) return x.tensor;
  Dims permutation;
  for (const Label label : labels) {
    permutation.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
  }
  return transpose(x.tensor, permutation);
}

/// The labels of a pair of operands: in both and kept, in both and summed, only in the first, only in the
/// second.
struct Pair {
  Labels batch, summed, first, second;
};

Pair sort_labels(const Problem& problem, size_t a, size_t b) {
  Pair pair;
  for (const Label label : problem.operands[a].labels) {
    const bool shared = contains(problem.operands[b].labels, label);
    const bool kept = needed_elsewhere(problem, label, a, b);
    (shared ? (kept ? pair.batch : pair.summed) : pair.first).push_back(label);
  }
  for (const Label label : problem.operands[b].labels) {
    if (!contains(problem.operands[a].labels, label)) pair.second.push_back(label);
  }
  return pair;
}

Labels joined(const Labels& a, const Labels& b) {
  Labels result = a;
  result.insert(result.end(), b.begin(), b.end());
  return result;
}

Dims extents_of(const Problem& problem, const Labels& labels) {
  Dims result;
  for (const Label label : labels) result.push_back(problem.extents[static_cast<size_t>(label)]);
  return result;
}

/// An elementwise product without a sum; operands are aligned by axes of extent 1.
Operand multiply(const Problem& problem, size_t a, size_t b, const Pair& pair) {
  const Labels labels = joined(pair.batch, joined(pair.first, pair.second));
  const auto aligned = [&](const Operand& x) {
    Labels order;
    Dims shape;
    for (const Label label : labels) {
      const bool has = contains(x.labels, label);
      if (has) order.push_back(label);
      shape.push_back(has ? problem.extents[static_cast<size_t>(label)] : 1);
    }
    return reshape(in_order(x, order), shape);
  };
  return {aligned(problem.operands[a]) * aligned(problem.operands[b]), labels};
}

/// The operand as a matrix (batch, rows, columns), and whether its memory holds the transpose.
std::pair<Tensor, bool> as_matrix(const Problem& problem, const Operand& x, const Labels& batch,
                                  const Labels& rows, const Labels& columns) {
  const bool flipped = x.labels == joined(batch, joined(columns, rows));
  const Labels& first = flipped ? columns : rows;
  const Labels& second = flipped ? rows : columns;
  const auto extent = [&](const Labels& labels) {
    int64_t product = 1;
    for (const Label label : labels) product *= problem.extents[static_cast<size_t>(label)];
    return product;
  };
  Dims shape;
  if (!batch.empty()) shape.push_back(extent(batch));
  shape.push_back(extent(first));
  shape.push_back(extent(second));
  return {reshape(in_order(x, joined(batch, joined(first, second))), shape), flipped};
}

Operand contract(const Problem& problem, size_t a, size_t b) {
  Pair pair = sort_labels(problem, a, b);
  if (pair.summed.empty()) return multiply(problem, a, b, pair);
  if (problem.output ==
      joined(pair.batch, joined(pair.second, pair.first))) {  // saves transposing the result
    std::swap(a, b);
    std::swap(pair.first, pair.second);
  }
  const auto [left, left_flipped] =
      as_matrix(problem, problem.operands[a], pair.batch, pair.first, pair.summed);
  const auto [right, right_flipped] =
      as_matrix(problem, problem.operands[b], pair.batch, pair.summed, pair.second);
  const Labels labels = joined(pair.batch, joined(pair.first, pair.second));
  return {reshape(matmul(left, right, left_flipped, right_flipped), extents_of(problem, labels)), labels};
}

/// The pair whose product takes the fewest multiplications; on a tie, the one with the smallest result.
std::pair<size_t, size_t> cheapest_pair(const Problem& problem) {
  std::pair<size_t, size_t> best{0, 1};
  std::pair<double, double> lowest{std::numeric_limits<double>::infinity(), 0};
  for (size_t a = 0; a < problem.operands.size(); ++a) {
    for (size_t b = a + 1; b < problem.operands.size(); ++b) {
      const Pair pair = sort_labels(problem, a, b);
      const Labels result = joined(pair.batch, joined(pair.first, pair.second));
      const std::pair<double, double> cost{problem.size_of(joined(result, pair.summed)),
                                           problem.size_of(result)};
      if (cost >= lowest) continue;
      lowest = cost;
      best = {a, b};
    }
  }
  return best;
}

/// Converts the last operand to the result: puts its axes in order and restores axes that only broadcast.
Tensor finish(const Problem& problem) {
  const Operand& x = problem.operands[0];
  Labels order;
  Dims shape;
  for (const Label label : problem.output) {
    const bool has = contains(x.labels, label);
    if (has) order.push_back(label);
    shape.push_back(has ? problem.extents[static_cast<size_t>(label)] : 1);
  }
  return broadcast_to(reshape(in_order(x, order), shape), Shape(extents_of(problem, problem.output)));
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  Problem problem = lay_out(equation, operands);
  for (size_t k = 0; k < problem.operands.size(); ++k) sum_own_labels(problem, k);
  while (problem.operands.size() > 1) {
    const auto [a, b] = cheapest_pair(problem);
    Operand product = contract(problem, a, b);
    problem.operands.erase(problem.operands.begin() + static_cast<std::ptrdiff_t>(b));
    problem.operands[a] = std::move(product);
  }
  return finish(problem);
}

}  // namespace isochron
