#include "isochron/train/loop/batch_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::train {

LossTally::LossTally()
    : batches_(zeros({}, DType::kI64), "batches", false),
      first_not_finite_(zeros({}, DType::kI64), "first_not_finite", false) {}

void LossTally::update(const Tensor& loss, int64_t rows) {
  require(loss.elems() == 1, ErrorCode::kShapeMismatch, "train",
          "the loss of a batch must be one number, got {}; take its mean", loss.spec().str());
  require(is_floating(loss.dtype()), ErrorCode::kDtypeMismatch, "train", "the loss must be floating, got {}",
          loss.spec().str());
  const Tensor value = reshape(loss, Dims{1});
  mean_.update(value, constant(full({1}, static_cast<double>(rows), DType::kF64)));
  const Tensor batch = batches_.tensor() + scalar(1, DType::kI64);
  const Tensor first = first_not_finite_.tensor();
  const Tensor now =
      logical_and(logical_not(is_finite(reshape(loss, Dims{}))), equal(first, scalar(0, DType::kI64)));
  batches_.assign(batch);
  first_not_finite_.assign(where(now, batch, first));
}

void LossTally::reset() {
  mean_.reset();
  batches_.assign(zeros({}, DType::kI64));
  first_not_finite_.assign(zeros({}, DType::kI64));
}

void LossTally::set_batches(int64_t batches) {
  batches_.assign(full({}, static_cast<double>(batches), DType::kI64));
}

NamedVariables LossTally::state() const {
  NamedVariables result = {{std::string(kBatches), batches_},
                           {std::string(kFirstNotFinite), first_not_finite_}};
  for (const Variable& sum : mean_.state()) result.emplace_back("mean/" + sum.name(), sum);
  return result;
}

BatchPlan::BatchPlan(std::string name, bool training, Function function, CaptureOptions options, Names names)
    : name_(std::move(name)),
      training_(training),
      allowed_(names),
      device_(options.plan.device),
      function_(std::move(function)),
      captured_([this](std::span<const Tensor> tensors) { return trace(tensors); },
                [&] {
                  options.name = name_;
                  return std::move(options);
                }()) {}

std::vector<Tensor> BatchPlan::trace(std::span<const Tensor> tensors) const {
  const nn::TrainingScope scope(training_);
  data::Element batch;
  const auto chosen = static_cast<size_t>(chosen_.read([] { return "the names of a batch's tensors"; }));
  for (size_t i = 0; i < tensors.size(); ++i) batch.add(names_[chosen][i], tensors[i]);
  return function_(batch);
}

void BatchPlan::choose_names(const std::vector<std::string>& names) {
  if (captured_.plan_count() == 0) names_.clear();
  const auto found = std::ranges::find(names_, names);
  const int64_t chosen = found - names_.begin();
  if (found == names_.end()) {
    const auto refused = [&](const std::vector<std::string>& known) {
      return allowed_ == Names::kOfFirst || std::ranges::is_permutation(known, names);
    };
    const auto first = std::ranges::find_if(names_, refused);
    require(first == names_.end(), ErrorCode::kInvalidArgument, name_,
            "was planned for elements ({}), this dataset's are ({}); {}",
            first == names_.end() ? "" : fmt::format("{}", fmt::join(*first, ", ")), fmt::join(names, ", "),
            first != names_.end() && names.size() == first->size()
                ? "rename them with map"
                : "make elements of the same tensors with map, or another Trainer");
    names_.push_back(names);
  }
  if (chosen_.value() != chosen) chosen_.set(chosen);
}

void BatchPlan::prepare(data::Dataset& dataset) {
  choose_names(dataset.names());
  const std::vector<Signature> signatures = dataset.signatures();
  for (const Signature& signature : signatures) {
    for (size_t i = 0; i < signature.size(); ++i) {
      require(!signature[i].shape.contains(data::kAnyExtent), ErrorCode::kInvalidArgument, name_,
              "the extents of '{}' vary from batch to batch, so no step can be planned for them: {}; pad to "
              "fixed shapes (PaddedBatchOptions::shapes), use bucket_by_sequence_length, or train_on_batch",
              names_[static_cast<size_t>(chosen_.value())][i], signature_str(signature));
    }
  }
  // Keeps the plans of this dataset, as many of another one, and max_plans more, but not all plans ever made.
  captured_.keep_at_least(2 * signatures.size() + CaptureOptions().max_plans);
  for (const Signature& signature : signatures) captured_.prepare(signature);
  dataset.pin_memory(device_);
}

void BatchPlan::prepare(const data::Element& batch) {
  std::vector<std::string> names;
  for (int i = 0; i < batch.size(); ++i) names.push_back(batch.name(i));
  choose_names(names);
  captured_.prepare(batch.signature());
}

std::span<const Tensor> BatchPlan::call(const data::Element& batch) {
  std::array<const Tensor*, data::kMaxElementTensors> arguments;
  const size_t count = static_cast<size_t>(batch.size());
  for (int i = 0; i < batch.size(); ++i) arguments[static_cast<size_t>(i)] = &batch[i];
  return captured_.call({arguments.data(), count});
}

}  // namespace isochron::train
