// Runs a test on every instruction set for which kernels were compiled and that this processor supports.
#pragma once

#include <gtest/gtest.h>
#include <immintrin.h>

#include <hwy/targets.h>

#include "isochron/backends/common/vector_target.h"

namespace isochron {

/// Scope in which this thread computes with subnormals, which kernels flush to zero.
class KeepSubnormals {
 public:
  KeepSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~0x8040u); }  // flush, denormals are zero
  ~KeepSubnormals() { _mm_setcsr(before_); }
  KeepSubnormals(const KeepSubnormals&) = delete;
  KeepSubnormals& operator=(const KeepSubnormals&) = delete;

 private:
  unsigned before_;
};

/// Runs `body` once for each instruction set that this process may use. Subnormals are kept, because the
/// expectations are computed with them.
template <typename Body>
void for_each_target(Body body) {
  ops::limit_vector_target();
  const KeepSubnormals keep;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace isochron
