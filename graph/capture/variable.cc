#include "isochron/graph/capture/variable.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "isochron/core/tensor/elements.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/storage_over.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron {
namespace {

thread_local std::optional<Device> t_device;  // device of new variables; nullopt: their content's device

std::atomic<uint64_t> made_so_far{0};

/// A buffer that knows the variable whose content it holds.
class VariableStorage final : public StorageOver {
 public:
  VariableStorage(Ref<Storage> memory, std::string name, bool trainable)
      : StorageOver(std::move(memory)), info_{std::move(name), trainable, true, ++made_so_far} {}
  std::string owner() const override { return fmt::format("an assignment to variable '{}'", info_.name); }
  const VariableInfo& info() const { return info_; }
  void set_trainable(bool trainable) { info_.trainable = trainable; }
  void set_name(std::string name) { info_.name = std::move(name); }
  void let_go() { info_.held = false; }

 private:
  VariableInfo info_;
};

/// A new tensor on `device`, whose content isn't written yet.
Tensor new_content(Device device, const TensorSpec& spec, std::string name, bool trainable) {
  const std::string_view tag = trainable ? "weights" : "state";
  Ref<Storage> memory = device.is_cpu() ? allocate_buffer(spec.size_bytes(), tag)
                                        : cuda::gpu(device)->allocate(spec.size_bytes(), tag);
  return Tensor::over(Ref<Storage>(make_ref<VariableStorage>(std::move(memory), std::move(name), trainable)),
                      spec);
}

/// The same with the content of `source`, which must be contiguous and may be on any device.
Tensor content_on(Device device, const Tensor& source, std::string name, bool trainable) {
  const Tensor result = new_content(device, source.spec(), std::move(name), trainable);
  const Tensor host = to_device(source, {});
  result.storage()->write(0, host.raw(), host.size_bytes());
  return result;
}

}  // namespace

VariableDeviceScope::VariableDeviceScope(Device device) : before_(std::exchange(t_device, device)) {}
VariableDeviceScope::~VariableDeviceScope() { t_device = before_; }

Variable::Variable(const Tensor& initial, std::string name, bool trainable) {
  require(initial.defined(), ErrorCode::kInvalidArgument, "variable", "'{}' needs an initial content", name);
  require(!initial.is_value(), ErrorCode::kCaptureViolation, "variable",
          "the initial content of '{}' is a value of the graph being captured, which has no content yet; "
          "compute it before the capture",
          name);
  const Tensor source = graph::contiguous(initial);
  state_ = make_ref<State>();
  state_->tensor = content_on(t_device.value_or(source.device()), source, name, trainable);
  state_->name = std::move(name);
  state_->trainable.set(trainable);
}

Variable::Variable(const TensorSpec& spec, const std::function<void(std::span<double> next)>& next,
                   std::string name, bool trainable) {
  constexpr int64_t kPiece = 8192;
  const size_t size = dtype_size(spec.dtype);
  const Tensor content = new_content(t_device.value_or(Device()), spec, name, trainable);
  const int64_t elems = spec.shape.elems();
  std::vector<double> numbers(static_cast<size_t>(std::min(elems, kPiece)));
  std::vector<std::byte> stored(numbers.size() * size);
  for (int64_t begin = 0; begin < elems; begin += kPiece) {
    const auto piece = std::span(numbers).first(static_cast<size_t>(std::min(elems - begin, kPiece)));
    next(piece);
    for (size_t i = 0; i < piece.size(); ++i) store_number(stored.data() + i * size, spec.dtype, piece[i]);
    content.storage()->write(static_cast<size_t>(begin) * size, stored.data(), piece.size() * size);
  }
  state_ = make_ref<State>();
  state_->tensor = content;
  state_->name = std::move(name);
  state_->trainable.set(trainable);
}

Variable::State::~State() {
  if (tensor.defined()) static_cast<VariableStorage*>(tensor.storage().get())->let_go();
}

void Variable::fail_undefined() {
  fail(ErrorCode::kInvalidArgument, "variable",
       "it is undefined: it was never initialized, or it (or the module that owns it) was moved from; use "
       "the object that it was moved to");
}

void Variable::move_to(Device device) const {
  if (this->device() == device) return;
  Tensor& here = state().tensor;
  here.refresh();
  require(here.impl()->unique() && here.storage()->unique(), ErrorCode::kInvalidArgument, "variable",
          "'{}' can't move from {} to {}: a captured function or a tensor refers to it; move it before it is "
          "used",
          name(), this->device().str(), device.str());
  here = content_on(device, here, name(), state().trainable.value() != 0);
}

bool Variable::trainable() const {
  return state().trainable.read([this] { return fmt::format("whether '{}' is trainable", name()); }) != 0;
}

void Variable::set_trainable(bool trainable) const {
  state().trainable.set(trainable);
  static_cast<VariableStorage*>(state().tensor.storage().get())->set_trainable(trainable);
}

void Variable::rename(std::string name) const {
  static_cast<VariableStorage*>(state().tensor.storage().get())->set_name(name);
  state().name = std::move(name);
}

uint64_t variables_made() { return made_so_far; }

std::optional<VariableInfo> variable_behind(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_value()) return std::nullopt;
  const auto* storage = dynamic_cast<const VariableStorage*>(tensor.storage().get());
  return storage != nullptr ? std::optional(storage->info()) : std::nullopt;
}

void Variable::assign(const Tensor& value) const {
  graph::assign(tensor(), value);
  const std::optional<graph::Setting>& count = state().assignments;
  if (count && graph::Capture::current() == nullptr) count->set(count->value() + 1);
}

const graph::Setting& Variable::assignments() const {
  std::optional<graph::Setting>& count = state().assignments;
  return count ? *count : count.emplace(0);
}

}  // namespace isochron
