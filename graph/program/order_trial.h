// Measures whether a program's steps are faster on a device when they run concurrently or in order. It times
// the program's first runs without waiting for them. The results are the same in both cases, bit for bit.
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

  /// `goes_on`: whether another run must be timed, between begin() and end(). `in_order`: whether that run is
  /// in order.
  bool goes_on() const { return runs_ < marks_.size(); }
  bool in_order() const { return runs_ % 2 == 1; }
  void begin();
  void end();
  /// Compares the medians once the device has finished all runs; nullopt before that.
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
