// The parts of the kernels of ops with sub-graphs that are common to all backends: the plans of the
// sub-graphs and the placement of their tensors. Each backend adds the code that runs them.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "isochron/core/base/checked.h"
#include "isochron/graph/step/sub_plan.h"
#include "isochron/ops/control/loop_layout.h"

namespace isochron::ops {

/// A copy of `body` whose results overwrite its state: the inputs from `first_state` on.
std::unique_ptr<graph::Graph> in_place(const graph::Graph& body, size_t first_state);
/// The same for the body of a scan, without the outputs that are unread.
std::unique_ptr<graph::Graph> scan_body_in_place(const ScanLayout& layout, std::span<const bool> unread);

/// The kernel of `cond`: runs one of two plans, which share a workspace.
class CondKernel : public graph::Kernel {
 public:
  explicit CondKernel(const graph::KernelRequest& request)
      : then_(request.attributes.object<graph::SubGraph>("then")->graph->clone(), request),
        otherwise_(request.attributes.object<graph::SubGraph>("else")->graph->clone(), request),
        inputs_(request.inputs.size()) {
    for (const TensorSpec& spec : request.outputs) sizes_.push_back(spec.size_bytes());
  }
  size_t workspace_bytes() const override { return std::max(then_.arena_bytes(), otherwise_.arena_bytes()); }
  void bind(const graph::KernelArgs& args) override {
    for (graph::SubPlan* branch : {&then_, &otherwise_}) {
      branch->plan().bind_arena(args.workspace);
      for (size_t i = 1; i < inputs_; ++i) branch->plan().bind_input(i - 1, args.inputs[i]);
    }
  }

 protected:
  graph::SubPlan then_;
  graph::SubPlan otherwise_;
  size_t inputs_;
  std::vector<size_t> sizes_;
};

/// The kernel of `while_loop`. The workspace begins with the number of the iteration.
class WhileKernel : public graph::Kernel {
 public:
  explicit WhileKernel(const graph::KernelRequest& request)
      : condition_(request.attributes.object<graph::SubGraph>("condition")->graph->clone(), request),
        body_(in_place(*request.attributes.object<graph::SubGraph>("body")->graph, 1), request),
        states_(while_states(request.attributes)),
        inputs_(request.inputs.size()),
        bound_(while_bound(request.attributes)) {
    size_t offset = cuda::kDeviceAlignment + condition_.arena_bytes() + body_.arena_bytes();
    for (size_t i = 0; i < states_; ++i) {
      sizes_.push_back(request.outputs[i].size_bytes());
      const bool unread = !request.unread.empty() && request.unread[i];
      own_.push_back(unread ? static_cast<int64_t>(offset) : -1);
      if (unread) offset += align_up(sizes_[i], cuda::kDeviceAlignment);
    }
    workspace_ = offset;
    state_.resize(states_);
  }

  size_t workspace_bytes() const override { return workspace_; }

  void bind(const graph::KernelArgs& args) override {
    graph::Plan& condition = condition_.plan();
    graph::Plan& body = body_.plan();
    condition.bind_arena(args.workspace + cuda::kDeviceAlignment);
    body.bind_arena(args.workspace + cuda::kDeviceAlignment + condition_.arena_bytes());
    for (size_t i = 0; i < states_; ++i) {
      state_[i] = own_[i] < 0 ? args.outputs[i] : args.workspace + own_[i];
    }
    for (graph::Plan* plan : {&condition, &body}) {
      plan->bind_input(0, args.workspace);
      for (size_t i = 0; i < states_; ++i) plan->bind_input(i + 1, state_[i]);
      for (size_t i = states_; i < inputs_; ++i) plan->bind_input(i + 1, args.inputs[i]);
    }
  }

 protected:
  graph::SubPlan condition_;
  graph::SubPlan body_;
  size_t states_;
  size_t inputs_;
  int64_t bound_;
  size_t workspace_ = 0;
  std::vector<size_t> sizes_;
  std::vector<int64_t> own_;  // workspace offset of each state that is unread after the loop, or -1
  std::vector<std::byte*> state_;
};

/// The kernel of `update_if`: a plan that updates the state in place, in the memory of the results.
class UpdateIfKernel : public graph::Kernel {
 public:
  explicit UpdateIfKernel(const graph::KernelRequest& request)
      : update_(in_place(*request.attributes.object<graph::SubGraph>("update")->graph, 0), request),
        inputs_(request.inputs.size()) {
    for (const TensorSpec& spec : request.outputs) sizes_.push_back(spec.size_bytes());
  }
  size_t workspace_bytes() const override { return update_.arena_bytes(); }
  void bind(const graph::KernelArgs& args) override {
    update_.plan().bind_arena(args.workspace);
    for (size_t i = 0; i + 1 < inputs_; ++i) {
      update_.plan().bind_input(i, i < sizes_.size() ? args.outputs[i] : args.inputs[i + 1]);
    }
  }

 protected:
  graph::SubPlan update_;
  size_t inputs_;
  std::vector<size_t> sizes_;  // bytes of the states
};

/// The kernel of `scan`. The workspace begins with the number of the row.
class ScanKernel : public graph::Kernel {
 public:
  explicit ScanKernel(const graph::KernelRequest& request)
      : layout_(request.attributes),
        body_(scan_body_in_place(layout_, request.unread), request),
        inputs_(request.inputs.size()) {
    size_t offset = cuda::kDeviceAlignment + body_.arena_bytes();
    const auto place = [&offset](size_t bytes) {
      const size_t at = offset;
      offset = checked_add(offset, align_up(bytes, cuda::kDeviceAlignment));
      return at;
    };
    const auto unread = [&](size_t output) { return !request.unread.empty() && request.unread[output]; };
    for (size_t i = 0; i < layout_.states; ++i) {
      state_bytes_.push_back(request.inputs[i].size_bytes());
      own_.push_back(unread(i) ? static_cast<int64_t>(place(state_bytes_[i])) : -1);
    }
    for (size_t i = layout_.states; i < layout_.first_captured(); ++i) {
      slice_bytes_.push_back(slice_spec(request.inputs[i]).size_bytes());
      slices_at_.push_back(place(slice_bytes_.back()));
    }
    for (size_t i = layout_.states; i < layout_.first_saved(); ++i) {
      if (unread(i)) continue;
      read_.push_back(i);
      output_bytes_.push_back(slice_spec(request.outputs[i]).size_bytes());
    }
    workspace_ = offset;
    state_.resize(layout_.states);
  }

  size_t workspace_bytes() const override { return workspace_; }

  void bind(const graph::KernelArgs& args) override {
    graph::Plan& plan = body_.plan();
    plan.bind_arena(args.workspace + cuda::kDeviceAlignment);
    plan.bind_input(0, args.workspace);
    for (size_t i = 0; i < layout_.states; ++i) {
      state_[i] = own_[i] < 0 ? args.outputs[i] : args.workspace + own_[i];
      plan.bind_input(i + 1, state_[i]);
    }
    for (size_t i = 0; i < layout_.sequences; ++i) {
      plan.bind_input(layout_.states + 1 + i, args.workspace + slices_at_[i]);
    }
    for (size_t i = layout_.first_captured(); i < inputs_; ++i) plan.bind_input(i + 1, args.inputs[i]);
  }

 protected:
  /// `move(to, from, bytes)`, `set_row` and `body` are the backend's operations, on its device.
  template <typename Move, typename SetRow, typename Body>
  void run_steps(const graph::KernelArgs& args, const Move& move, const SetRow& set_row, const Body& body) {
    for (size_t i = 0; i < layout_.states; ++i) move(state_[i], args.inputs[i], state_bytes_[i]);
    for (int64_t s = 0; s < layout_.steps; ++s) {
      const int64_t row = layout_.reverse ? layout_.steps - 1 - s : s;
      const size_t at = static_cast<size_t>(row);
      set_row(row);
      for (size_t i = 0; i < layout_.sequences; ++i) {
        move(args.workspace + slices_at_[i], args.inputs[layout_.states + i] + at * slice_bytes_[i],
             slice_bytes_[i]);
      }
      for (size_t i = 0; i < layout_.states; ++i) {
        std::byte* saved = args.outputs[layout_.first_saved() + i];
        if (saved) move(saved + at * state_bytes_[i], state_[i], state_bytes_[i]);
      }
      body();
      for (size_t i = 0; i < read_.size(); ++i) {
        move(args.outputs[read_[i]] + at * output_bytes_[i], body_.plan().output(i), output_bytes_[i]);
      }
    }
  }

  ScanLayout layout_;
  graph::SubPlan body_;
  size_t inputs_;
  size_t workspace_ = 0;
  std::vector<size_t> state_bytes_;
  std::vector<int64_t> own_;  // workspace offset of each final state that is unread, or -1
  std::vector<std::byte*> state_;
  std::vector<size_t> slice_bytes_;
  std::vector<size_t> slices_at_;  // workspace offsets
  std::vector<size_t> read_;       // outputs that are read
  std::vector<size_t> output_bytes_;
};

}  // namespace isochron::ops
