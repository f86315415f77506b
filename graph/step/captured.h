// `capture(fn)` turns a C++ function on tensors into a step that is traced once per signature, planned into
// one arena, which all its plans share, and replayed. Replaying allocates nothing and creates no nodes and no
// plans.
//
// Threads: a captured function serves one call at a time, since all its results lie in one arena. Any thread
// may call it if the program orders the calls (a mutex, a join); the variables that it changes need that
// anyway. A call made while another one runs (from a second thread, from its own trace, or from an op's
// kernel) throws kCaptureViolation and leaves the running call alone. All other members, including move and
// destruction, need the same ordering, but violations aren't detected, with one exception: if a trace
// destroys or replaces its own function, the call that traced throws kCaptureViolation. Different captured
// functions may run on different threads at once if no variable that one of them changes is shared.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/core/tensor/signature.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/program/plan.h"
#include "isochron/memory/cuda/transfer_stats.h"

namespace isochron {

struct CaptureOptions {
  std::string name = "step";
  graph::PassOptions passes = {};
  graph::PlanOptions plan = {};
  /// The most plans kept; when a new signature needs room, the least recently used plan is dropped. A loop
  /// over more signatures than that traces at every call. This is reported once, as an event kNotice
  /// (core/telemetry/log.h), and in `report`.
  size_t max_plans = 16;
  /// Debug: a call throws kNotANumber at the first op whose result holds NaN, or infinity although its inputs
  /// are finite, or if an argument or a trainable variable holds NaN or infinity. The error names the op, its
  /// layer and, for a gradient op, the op that it differentiates. Every op then runs as its own kernel (the
  /// only pass that runs is `precision`, and memory budgets are ignored), so steps are slower. Assignments
  /// made before the throw stay. NaNs that the function masks later, for example with `where`, are reported
  /// too. The counterpart in PyTorch is torch.autograd.set_detect_anomaly.
  bool check_numerics = false;
  /// The most bytes the arena may take. Planning throws kOutOfMemory if it needs more.
  size_t max_arena_bytes = size_t{1} << 40;
};

/// The result of one trace, for reports.
struct TraceRecord {
  std::string signature;
  int64_t trace_ns = 0;
  int64_t passes_ns = 0;
  int64_t plan_ns = 0;
  size_t traced_nodes = 0;
  size_t nodes = 0;
  std::string changed;  // old and new signature side by side; empty for the first
};

/// The untyped core of a captured function.
class CapturedFunction {
 public:
  using TraceFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  CapturedFunction(TraceFunction function, CaptureOptions options);
  ~CapturedFunction();
  /// After a move from a function, every member except assignment and destruction throws kInvalidArgument.
  CapturedFunction(CapturedFunction&&) noexcept;
  CapturedFunction& operator=(CapturedFunction&&) noexcept;

  /// Replays the plan for the arguments' signature; traces and plans first if the signature is new. The
  /// results are views of the arena, valid until the next call. Throws kSealed for a new signature after
  /// `seal`; kCaptureViolation inside another capture and while another call runs (see above); kStale if an
  /// argument is this function's own previous result (pass copy() of it); kDevice if an argument is on a
  /// device other than the plan's (the CPU is allowed); kOutOfMemory if the arena doesn't fit; kNotANumber
  /// under `check_numerics`; and whatever the traced function throws.
  std::span<const Tensor> call(std::span<const Tensor* const> arguments);
  /// Traces and plans `signature` now, so that its first call is as fast as later ones. Throws kSealed after
  /// `seal`, kInvalidArgument for negative extents.
  void prepare(const Signature& signature);
  /// Raises CaptureOptions::max_plans to `plans` if it is less.
  void keep_at_least(size_t plans);
  /// After this call, a new signature is an error.
  void seal();
  bool sealed() const;

  size_t plan_count() const;
  size_t evictions() const;
  const std::vector<TraceRecord>& traces() const;  // the newest 256
  /// The cost of the host-to-device copies of arguments, summed over the cached plans that run on a device.
  /// Arguments on the CPU are copied through a ring of pinned slots while the previous step is still running
  /// (memory/cuda/transfer_ring.h).
  cuda::TransferStats transfer_stats() const;
  /// The plan of the newest call. Throws kInvalidArgument before the first call.
  const graph::PlanReport& plan_report() const;
  /// The plan of the newest call. Running it directly reads the arguments of that call, which must still be
  /// alive.
  graph::Plan& plan();
  /// The plan that needs the most memory, and its graph. Throws kInvalidArgument before the first trace.
  struct Planned {
    const graph::Graph& graph;
    const graph::PlanReport& report;
  };
  Planned largest_plan() const;
  /// The newest call's graph as planned.
  const graph::Graph& graph() const;
  /// A human-readable report: signatures, nodes, bound tensors, frozen scalars, arena and bound of each plan.
  std::string report() const;

 private:
  struct Impl;
  class Calling;
  Impl& impl() const;
  std::shared_ptr<Impl> impl_;  // shared only with a call that is tracing
};

namespace internal {

inline void append_results(std::vector<Tensor>& results, const Tensor& tensor) { results.push_back(tensor); }
inline void append_results(std::vector<Tensor>& results, const std::vector<Tensor>& tensors) {
  results.insert(results.end(), tensors.begin(), tensors.end());
}
template <size_t N>
void append_results(std::vector<Tensor>& results, const std::array<Tensor, N>& tensors) {
  results.insert(results.end(), tensors.begin(), tensors.end());
}
template <typename... Ts>
void append_results(std::vector<Tensor>& results, const std::tuple<Ts...>& tensors) {
  std::apply([&results](const auto&... tensor) { (append_results(results, tensor), ...); }, tensors);
}
template <typename A, typename B>
void append_results(std::vector<Tensor>& results, const std::pair<A, B>& tensors) {
  append_results(results, tensors.first);
  append_results(results, tensors.second);
}

template <typename F>
struct FunctionTraits : FunctionTraits<decltype(&F::operator())> {};
template <typename C, typename R, typename... A>
struct FunctionTraits<R (C::*)(A...) const> {
  static constexpr size_t arity = sizeof...(A);
  using Result = std::decay_t<R>;
};
template <typename C, typename R, typename... A>
struct FunctionTraits<R (C::*)(A...)> : FunctionTraits<R (C::*)(A...) const> {};
template <typename R, typename... A>
struct FunctionTraits<R (*)(A...)> {
  static constexpr size_t arity = sizeof...(A);
  using Result = std::decay_t<R>;
};

template <typename F, size_t... I>
std::vector<Tensor> call_with(F& function, std::span<const Tensor> arguments, std::index_sequence<I...>) {
  std::vector<Tensor> results;
  if constexpr (std::is_void_v<typename FunctionTraits<F>::Result>) {
    function(arguments[I]...);
  } else {
    append_results(results, function(arguments[I]...));
  }
  return results;
}

}  // namespace internal

/// A captured C++ function of N tensors. It returns void, a Tensor, or a pair, tuple, array or vector of
/// tensors. A call returns the same type with views that are valid until the next call (a vector is returned
/// as a span).
template <typename F>
class Captured : public CapturedFunction {
  static_assert(
      std::is_pointer_v<F> || requires { &F::operator(); },
      "capture() needs to know how many tensors the function takes: give a lambda's parameters their type, "
      "as "
      "in [](const Tensor& x), and let it have one operator()");
  using Traits = internal::FunctionTraits<std::decay_t<F>>;
  using Result = typename Traits::Result;

 public:
  Captured(F function, CaptureOptions options)
      : CapturedFunction(
            [function = std::move(function)](std::span<const Tensor> arguments) mutable {
              require(arguments.size() == Traits::arity, ErrorCode::kInvalidArgument, "capture",
                      "the function takes {} tensors, the signature has {}", Traits::arity, arguments.size());
              return internal::call_with(function, arguments, std::make_index_sequence<Traits::arity>{});
            },
            std::move(options)) {}

  template <typename... Args>
  auto operator()(const Args&... args) {
    static_assert(sizeof...(Args) == Traits::arity, "the captured function takes another number of tensors");
    static_assert((std::is_convertible_v<const Args&, Tensor> && ...),
                  "the arguments of a captured function are tensors or variables");
    // Tensors aren't copied.
    const std::tuple<std::conditional_t<std::is_base_of_v<Tensor, Args>, const Tensor&, Tensor>...> tensors(
        args...);
    const std::span<const Tensor> results = std::apply(
        [this](const auto&... tensor) {
          const std::array<const Tensor*, sizeof...(tensor)> arguments{&tensor...};
          return call(arguments);
        },
        tensors);
    if constexpr (std::is_void_v<Result>) {
      return;
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return results[0];
    } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      return results;
    } else {
      return [&results]<size_t... I>(std::index_sequence<I...>) { return Result{results[I]...}; }
      (std::make_index_sequence<std::tuple_size_v<Result>>{});
    }
  }
};

/// Wraps `function` (a lambda or function pointer on `const Tensor&`). Tracing starts with the first call.
template <typename F>
Captured<std::decay_t<F>> capture(F&& function, CaptureOptions options = {}) {
  return Captured<std::decay_t<F>>(std::forward<F>(function), std::move(options));
}

/// Like above, but immediately traces and plans every signature in `signatures` (see
/// data::Dataset::signatures), so that a smaller last batch causes no latency spike. Keeps at least these
/// plans. `signatures` has a template type so that a braced list with designators, as in `capture(f,
/// {.max_plans = 4})`, is taken as options.
template <typename F, std::convertible_to<const std::vector<Signature>&> Signatures>
Captured<std::decay_t<F>> capture(F&& function, const Signatures& signatures, CaptureOptions options = {}) {
  Captured<std::decay_t<F>> captured(std::forward<F>(function), std::move(options));
  const std::vector<Signature>& list = signatures;
  captured.keep_at_least(list.size());
  for (const Signature& signature : list) captured.prepare(signature);
  return captured;
}
template <typename F>
Captured<std::decay_t<F>> capture(F&& function, std::initializer_list<Signature> signatures,
                                  CaptureOptions options = {}) {
  return capture(std::forward<F>(function), std::vector<Signature>(signatures), std::move(options));
}

}  // namespace isochron
