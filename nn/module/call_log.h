// Records which modules are called and what they return; used by nn/module/summary.h.
#pragma once

#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::nn {

class Module;

/// While a CallLog exists, module calls on this thread are recorded in the order in which they return.
class CallLog {
 public:
  CallLog();
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  /// The innermost CallLog of this thread, or null.
  static CallLog* current();

  struct Call {
    const Module* module;
    TensorSpec result;
  };
  const std::vector<Call>& calls() const { return calls_; }
  void add(const Module& module, const Tensor& result) { calls_.push_back({&module, result.spec()}); }

 private:
  CallLog* previous_;
  std::vector<Call> calls_;
};

}  // namespace isochron::nn
