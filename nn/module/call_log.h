// Notes which modules are called and what they give: for nn/module/summary.h.
#pragma once

#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::nn {

class Module;

/// While it lives, calls of modules on this thread are noted, in the order in which they end.
class CallLog {
 public:
  CallLog();
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  /// The innermost one of this thread, or null.
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
