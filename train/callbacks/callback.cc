#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

void RunState::with_weights_of(std::string_view monitor, const std::function<void()>& use) const {
  const bool exchanged = monitor.starts_with("val_");
  size_t done = 0;
  const auto undo = [&] {
    while (done > 0) weight_swaps[--done]();
  };
  try {
    for (; exchanged && done < weight_swaps.size(); ++done) weight_swaps[done]();
    use();
  } catch (...) {
    undo();
    throw;
  }
  undo();
}

void LambdaCallback::on_train_begin(RunState& run) {
  if (functions_.on_train_begin) functions_.on_train_begin(run);
}
void LambdaCallback::on_epoch_begin(RunState& run) {
  if (functions_.on_epoch_begin) functions_.on_epoch_begin(run);
}
void LambdaCallback::on_batch_end(RunState& run, const Results& results) {
  if (functions_.on_batch_end) functions_.on_batch_end(run, results);
}
void LambdaCallback::on_epoch_end(RunState& run, const Results& results) {
  if (functions_.on_epoch_end) functions_.on_epoch_end(run, results);
}
void LambdaCallback::on_train_end(RunState& run) {
  if (functions_.on_train_end) functions_.on_train_end(run);
}
std::string LambdaCallback::state() const { return functions_.state ? functions_.state() : std::string(); }
void LambdaCallback::restore(const RunState&, const std::string& state) {
  if (functions_.restore) functions_.restore(state);
}

}  // namespace isochron::train
