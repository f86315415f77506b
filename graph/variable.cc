#include "isochron/graph/variable.h"

#include <cstring>

#include "isochron/graph/apply.h"
#include "isochron/memory/buffer.h"

namespace isochron {
namespace {

/// A buffer that knows whose content it is.
class VariableStorage final : public Storage {
 public:
  VariableStorage(Ref<Storage> memory, std::string name)
      : Storage(memory->data(), memory->size_bytes()), memory_(std::move(memory)), name_(std::move(name)) {}
  std::string owner() const override { return fmt::format("an assignment to variable '{}'", name_); }

 private:
  Ref<Storage> memory_;
  std::string name_;
};

}  // namespace

Variable::Variable(const Tensor& initial, std::string name, bool trainable) {
  require(initial.defined(), ErrorCode::kInvalidArgument, "variable", "'{}' needs an initial content", name);
  require(!initial.is_value(), ErrorCode::kCaptureViolation, "variable",
          "the initial content of '{}' is a value of the graph being captured; compute it before the capture "
          "or in an EagerScope",
          name);
  const Tensor source = graph::contiguous(initial);
  Ref<Storage> memory = allocate_buffer(source.size_bytes(), trainable ? "weights" : "state");
  if (source.elems() > 0) std::memcpy(memory->data(), source.raw(), source.size_bytes());
  state_ = make_ref<State>();
  state_->tensor =
      Tensor::over(Ref<Storage>(make_ref<VariableStorage>(std::move(memory), name)), source.spec());
  state_->name = std::move(name);
  state_->trainable = trainable;
}

void Variable::assign(const Tensor& value) const { graph::assign(tensor(), value); }

}  // namespace isochron
