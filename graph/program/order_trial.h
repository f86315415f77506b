// Whether a program's steps are faster side by side or one after another on a device, found by its first
// runs, for which nobody waits. Their results are the same either way, bit for bit.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {

class OrderTrial {
 public:
  static constexpr size_t kRunsEach = 9;

  explicit OrderTrial(std::shared_ptr<cuda::Gpu> gpu);
  ~OrderTrial();
  OrderTrial(const OrderTrial&) = delete;
  OrderTrial& operator=(const OrderTrial&) = delete;

  /// Whether another run is to be timed, between begin() and end(), and whether that is one in order.
  bool goes_on() const { return runs_ < marks_.size(); }
  bool in_order() const { return runs_ % 2 == 1; }
  void begin();
  void end();
  /// By the medians, once the device is through with all runs; nothing before.
  std::optional<bool> in_order_is_faster() const;

 private:
  struct Marks {
    cuda::Event begin = cuda::Event::kNone, end = cuda::Event::kNone;
  };
  void release();

  const std::shared_ptr<cuda::Gpu> gpu_;
  std::array<Marks, 2 * kRunsEach> marks_;
  size_t runs_ = 0;
};

}  // namespace isochron::graph
