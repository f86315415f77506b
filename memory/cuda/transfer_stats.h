// The cost of copying batches to a device.
#pragma once

#include <cstdint>

namespace isochron::cuda {

struct TransferStats {
  int64_t transfers = 0;  // completed transfers
  int64_t bytes = 0;
  double copy_ns = 0;     // time that the copies took
  double exposed_ns = 0;  // the part of copy_ns in which the device had nothing else to do
  double waited_ns = 0;   // time that the host waited for a slot whose step wasn't finished

  void add(const TransferStats& other) {
    transfers += other.transfers;
    bytes += other.bytes;
    copy_ns += other.copy_ns;
    exposed_ns += other.exposed_ns;
    waited_ns += other.waited_ns;
  }
};

}  // namespace isochron::cuda
