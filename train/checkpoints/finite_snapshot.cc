#include "isochron/train/checkpoints/finite_snapshot.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/tensor/finite.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::train {

KeptVariables::KeptVariables(const NamedVariables& variables) : random_(zeros({2}, DType::kI64)) {
  constexpr size_t kAlignment = 64;
  size_t bytes = 0;
  for (const auto& [name, variable] : variables) {
    variables_.push_back(variable);
    offsets_.push_back(bytes);
    bytes = checked_add(bytes, align_up(variable.size_bytes(), kAlignment));
  }
  memory_ = allocate_buffer(std::max<size_t>(bytes, 1), "good state");
  std::memset(memory_->data(), 0, bytes);  // page faults now, not in the first step that keeps
}

void KeptVariables::keep() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i].tensor().read(memory_->data() + offsets_[i]);
  }
  const Tensor random = random::default_generator().state();
  std::copy_n(random.data<int64_t>(), 2, random_.data<int64_t>());
}

void KeptVariables::restore() const {
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i].assign(Tensor::from_external(memory_->data() + offsets_[i], variables_[i].spec()));
  }
  random::default_generator().set_state(random_);
}

FiniteWatch::FiniteWatch(const NamedVariables& variables)
    : variables_(variables), watched_(variables.size(), 1) {
  // Under loss scaling the sums of an overflowed group stay infinite until the next group starts over.
  const bool scaled = std::any_of(variables.begin(), variables.end(),
                                  [](const auto& entry) { return entry.first.ends_with("/loss_scale"); });
  for (size_t i = 0; i < variables.size(); ++i) {
    const Tensor content = to_device(variables[i].second.tensor(), {});
    watched_[i] = content.elems() > 0 &&
                  !(scaled && variables[i].first.find("/gradient_sum") != std::string::npos) &&
                  !find_not_finite(content.spec(), content.raw());
  }
}

std::string FiniteWatch::look() const {
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (!watched_[i]) continue;
    const auto& [name, variable] = variables_[i];
    const Tensor content = to_device(variable.tensor(), {});
    const std::optional<NotFinite> found = find_not_finite(content.spec(), content.raw());
    if (!found) continue;
    count(Counter::kNotFinite, 1);
    return fmt::format("'{}' {}", name, not_finite_text(content.spec(), *found));
  }
  return {};
}

FiniteSnapshot::FiniteSnapshot(const NamedVariables& variables, const FiniteWatch& watch, int64_t (*clock)())
    : watch_(watch), clock_(clock), content_(variables) {}

bool FiniteSnapshot::due() const { return clock_() >= due_ns_; }

std::string FiniteSnapshot::look(int64_t total_steps, const std::function<std::string()>& data) {
  const int64_t began_ns = clock_();
  std::string what = watch_.look();
  if (!what.empty()) return what;
  data_ = data();  // before anything is kept: it may throw
  content_.keep();
  kept_ = true;
  total_steps_ = total_steps;
  const int64_t ended_ns = clock_();
  due_ns_ = ended_ns + kSpacing * (ended_ns - began_ns);
  return {};
}

}  // namespace isochron::train
