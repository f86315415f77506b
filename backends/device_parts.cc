#include "isochron/backends/device_parts.h"

#include <string>
#include <utility>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/pinned_block.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/update_if.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/rows/samples.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::ops {
namespace {

using Tensors = std::vector<Tensor>;
using Arguments = std::span<const Tensor>;

CapturedFunction captured_for(Device device, CapturedFunction::TraceFunction function,
                              bool concurrent = true) {
  CaptureOptions options;
  options.plan.device = device;
  options.plan.concurrent = concurrent;
  return {std::move(function), options};
}

std::span<const Tensor> call_with(CapturedFunction& function, const Tensors& arguments) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& argument : arguments) pointers.push_back(&argument);
  return function.call(pointers);
}

/// Copies results, because the next call will overwrite them. Doesn't wait for a device.
Tensors kept(std::span<const Tensor> results) {
  Tensors copies;
  for (const Tensor& result : results) copies.push_back(graph::copy(result));
  return copies;
}

Variable variable_on(Device device, const Tensor& initial, const std::string& name) {
  Variable variable(initial, name);
  variable.move_to(device);
  return variable;
}

/// Compares the results of one call and reports the first that differs.
void compare_call(DeviceCheck& check, const std::string& call, const Tensors& got, const Tensors& want,
                  const Tolerance& tolerance) {
  ++check.calls;
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string difference = difference_of(got[i].to_vector(), want[i].to_vector(), tolerance);
    if (difference.empty()) continue;
    ++check.wrong;
    check.findings.push_back(fmt::format("{}: result {}: {}", call, i, difference));
    return;
  }
}

/// A function of x, of a number that the sum of x is compared with, and of how often a loop repeats.
class Conditional {
 public:
  explicit Conditional(Device device)
      : state_(variable_on(device, zeros({kElems}), "state")),
        step_(captured_for(device, [this](Arguments in) { return trace(in[0], in[1], in[2]); })) {}

  Tensors call(const Tensor& x, const Tensor& limit, const Tensor& count) {
    Tensors results = kept(call_with(step_, {x, limit, count}));
    results.push_back(graph::copy(state_));
    return results;
  }

  static constexpr int64_t kElems = 1000;

 private:
  Tensors trace(const Tensor& x, const Tensor& limit, const Tensor& count) {
    const Tensor over = greater(sum(x), limit);
    const Tensor chosen = cond(
        over, [&] { return x * 2.0; }, [&] { return x - 3.0; });
    const auto again = [&](Arguments s) { return s[0] < count; };
    const auto body = [&](Arguments s) {
      const Tensor next = cond(
          s[0] < 2.0, [&] { return s[1] + x; }, [&] { return s[1] - 1.0; });
      return Tensors{s[0] + 1.0, next};
    };
    const Tensors initial = {scalar(0, DType::kI64), chosen};
    const Tensor repeated = while_loop(again, body, initial)[1];
    const Tensor bounded = while_loop(again, body, initial, {.max_iterations = 3})[1];
    const Tensors state = {state_};
    state_.assign(update_if(over, state, [&](Arguments s) { return Tensors{s[0] + x}; })[0]);
    return {chosen, repeated, bounded};
  }

  Variable state_;
  CapturedFunction step_;
};

/// Checks cond, while_loop and update_if in one function. The numbers are integers, so all results are exact.
void check_conditions(const std::shared_ptr<cuda::Gpu>& gpu, DeviceCheck& check) {
  std::vector<double> numbers(Conditional::kElems);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 7) - 2;
  const Tensor x = from_vector({Conditional::kElems}, numbers);
  Conditional here({}), there(gpu->device());
  for (const bool over : {true, false, false, true}) {
    for (const int64_t count : {0, 1, 2, 5}) {
      const Tensor limit = full({}, over ? -1e6 : 1e6);
      const Tensor times = full({}, static_cast<double>(count), DType::kI64);
      compare_call(check, fmt::format("{} branch, {} iterations", over ? "first" : "second", count),
                   there.call(x, limit, times), here.call(x, limit, times), {});
    }
  }
}

/// Independent branches, each with a weight that it updates, and the sum of their results.
class Branches {
 public:
  Branches(Device device, bool concurrent)
      : step_(captured_for(
            device, [this](Arguments in) { return trace(in[0]); }, concurrent)) {
    for (int b = 0; b < kBranches; ++b)
      weights_.push_back(
          variable_on(device, waves({kColumns, kColumns}, 3 * b + 1), fmt::format("weight {}", b)));
  }

  Tensors call(const Tensor& x) { return kept(call_with(step_, {x})); }

  static constexpr int64_t kRows = 48, kColumns = 64;
  /// Numbers in (-1, 1).
  static Tensor waves(const Shape& shape, int step) {
    std::vector<double> numbers(static_cast<size_t>(shape.elems()));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>((i * static_cast<size_t>(step)) % 61) / 31 - 0.98;
    return from_vector(shape, numbers);
  }

 private:
  static constexpr int kBranches = 5;

  Tensors trace(const Tensor& x) {
    Tensors results;
    Tensor total;
    for (const Variable& weight : weights_) {
      const Tensor hidden = softmax(tanh(matmul(x, weight) * 0.125)) * 16.0;
      const Tensor centered = hidden - mean(hidden, {0}, true);
      weight.assign(weight.tensor() + matmul(x, centered, true, false) * 0.125);
      results.push_back(sum(square(centered), {0}));
      total = total.defined() ? total + centered : centered;
    }
    results.push_back(total);
    return results;
  }

  std::vector<Variable> weights_;
  CapturedFunction step_;
};

/// Runs the same function with concurrent and with sequential instructions. Both must give the same bits,
/// close to the CPU's results.
void check_side_by_side(const std::shared_ptr<cuda::Gpu>& gpu, DeviceCheck& check) {
  constexpr int kSteps = 6;
  constexpr Tolerance kNear = {1e-3, 1e-4};
  const Deterministic first_candidates;  // libraries' candidates, the same in both runs
  Branches here({}, true), concurrent(gpu->device(), true), in_order(gpu->device(), false);
  std::vector<Tensors> want, beside, ordered;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor x = Branches::waves({Branches::kRows, Branches::kColumns}, i + 2);
    want.push_back(here.call(x));
    beside.push_back(concurrent.call(x));
    ordered.push_back(in_order.call(x));
  }
  for (size_t i = 0; i < kSteps; ++i) {
    compare_call(check, fmt::format("step {} in order, and on the CPU", i), ordered[i], want[i], kNear);
    compare_call(check, fmt::format("step {} side by side, and in order", i), beside[i], ordered[i], {});
  }
}

/// Page-locked memory of the host.
class PinnedStorage final : public Storage {
 public:
  PinnedStorage(std::shared_ptr<cuda::Gpu> gpu, size_t bytes)
      : Storage(nullptr, 0), block_(std::move(gpu), bytes) {
    rebind(block_.data(), bytes);
  }
  void wait() noexcept { block_.wait(); }

 private:
  cuda::PinnedBlock block_;
};

/// Batches of two small parts and a large one, which is copied directly from its memory if that is
/// page-locked. Each batch is written to the memory of the previous one as soon as that memory may be
/// overwritten.
class Batches {
 public:
  Batches(const std::shared_ptr<cuda::Gpu>& gpu, bool pinned) {
    constexpr size_t kBytes = 2 * kSmallBytes + kSide * kSide * sizeof(float);
    if (pinned) pinned_ = make_ref<PinnedStorage>(gpu, kBytes);
    memory_ = pinned ? Ref<Storage>(pinned_) : Ref<Storage>(allocate_buffer(kBytes, "batches"));
    size_t offset = 0;
    for (const Shape& shape : {Shape{kFew}, Shape{kFew}, Shape{kSide, kSide}}) {
      parts_.push_back(Tensor::over(memory_, {DType::kF32, shape}, offset));
      offset += kSmallBytes;
    }
  }

  const Tensors& make(int batch) {
    if (pinned_) pinned_->wait();
    for (size_t p = 0; p < parts_.size(); ++p) {
      auto* const numbers = reinterpret_cast<float*>(parts_[p].raw());
      for (int64_t i = 0; i < parts_[p].elems(); ++i) numbers[i] = number(batch, p, i);
    }
    return parts_;
  }
  /// The results of `function` for that batch.
  static Tensors expected(int batch) {
    std::vector<double> sums, doubled;
    for (int64_t i = 0; i < kFew; ++i) sums.push_back(number(batch, 0, i) + 1000.0 * number(batch, 1, i));
    for (int64_t i = 0; i < kSide * kSide; ++i) doubled.push_back(2.0 * number(batch, 2, i));
    return {from_vector({kFew}, sums), from_vector({kSide, kSide}, doubled)};
  }
  /// Adds a 0 whose computation takes so long that the next batch arrives meanwhile.
  static Tensors function(Arguments in) {
    const Tensor zero = minimum(square(sum(matmul(in[2], in[2]))), 0.0);
    return {in[0] + in[1] * 1000.0, in[2] * 2.0 + zero};
  }

 private:
  static constexpr int64_t kFew = 16, kSide = 128;
  static constexpr size_t kSmallBytes = 256;

  static float number(int batch, size_t part, int64_t i) {
    return static_cast<float>((37 * batch + (static_cast<int64_t>(part) + 1) * i) % 101);
  }

  Ref<PinnedStorage> pinned_;  // null: memory_ is pageable
  Ref<Storage> memory_;
  Tensors parts_;
};

/// Each step of a captured function must see its own batch, although the memory already holds the next one.
void check_transfers(const std::shared_ptr<cuda::Gpu>& gpu, DeviceCheck& check) {
  constexpr int kBatches = 12;
  for (const bool pinned : {false, true}) {
    Batches batches(gpu, pinned);
    CapturedFunction step = captured_for(gpu->device(), Batches::function);
    std::vector<Tensors> got;
    for (int b = 0; b < kBatches; ++b) got.push_back(kept(call_with(step, batches.make(b))));
    for (int b = 0; b < kBatches; ++b)
      compare_call(check, fmt::format("batch {} of {} memory", b, pinned ? "page-locked" : "pageable"),
                   got[static_cast<size_t>(b)], Batches::expected(b), {});
  }
}

constexpr DevicePart kParts[] = {
    {"conditions", check_conditions}, {"side-by-side", check_side_by_side}, {"transfers", check_transfers}};

}  // namespace

std::span<const DevicePart> device_parts() { return kParts; }

const DevicePart& device_part(std::string_view name) {
  std::vector<std::string_view> names;
  for (const DevicePart& part : kParts) {
    if (part.name == name) return part;
    names.push_back(part.name);
  }
  fail(ErrorCode::kInvalidArgument, "device", "there is no part '{}'; there are {}", name,
       fmt::join(names, ", "));
}

DeviceCheck check_device_part(const std::shared_ptr<cuda::Gpu>& gpu, const DevicePart& part) {
  DeviceCheck check{std::string(part.name)};
  try {
    part.run(gpu, check);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDeviceLost) throw;
    ++check.calls;
    ++check.wrong;
    check.findings.emplace_back(error.what());
  }
  return check;
}

}  // namespace isochron::ops
