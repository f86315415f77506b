#include "isochron/train/good_state.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/checked.h"
#include "isochron/core/clock.h"
#include "isochron/core/finite.h"
#include "isochron/memory/buffer.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/random.h"

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
    const Tensor content = variables_[i].tensor();
    if (content.elems() > 0) std::memcpy(memory_->data() + offsets_[i], content.raw(), content.size_bytes());
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

GoodState::GoodState(const NamedVariables& variables)
    : variables_(variables), was_finite_(variables.size(), 1), content_(variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    // Under loss scaling the sums of an overflowed group stay infinite until the next group starts over.
    if (variables[i].first.ends_with("/gradient_sum")) was_finite_[i] = 0;
  }
}

bool GoodState::due() const { return now_ns() >= due_ns_; }

std::string GoodState::look(int64_t total_steps, const std::string& data) {
  const int64_t began_ns = now_ns();
  for (size_t i = 0; i < variables_.size(); ++i) {
    const auto& [name, variable] = variables_[i];
    const Tensor content = variable.tensor();
    if (!was_finite_[i] || content.elems() == 0) continue;
    const std::optional<NotFinite> found = find_not_finite(content.spec(), content.raw());
    if (!found) continue;
    if (kept_) return fmt::format("'{}' {}", name, not_finite_text(content.spec(), *found));
    was_finite_[i] = 0;
  }
  content_.keep();
  kept_ = true;
  total_steps_ = total_steps;
  data_ = data;
  const int64_t ended_ns = now_ns();
  due_ns_ = ended_ns + kSpacing * (ended_ns - began_ns);
  return {};
}

}  // namespace isochron::train
