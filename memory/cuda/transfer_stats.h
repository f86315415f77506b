// What it cost to bring batches to a device.
#pragma once

#include <cstdint>

namespace isochron::cuda {

struct TransferStats {
  int64_t transfers = 0;  // that are over
  int64_t bytes = 0;
  double copy_ns = 0;     // that the copies took
  double exposed_ns = 0;  // of which the device had nothing else to do
  double waited_ns = 0;   // that the host stood at a slot whose step was still to be done

  void add(const TransferStats& other) {
    transfers += other.transfers;
    bytes += other.bytes;
    copy_ns += other.copy_ns;
    exposed_ns += other.exposed_ns;
    waited_ns += other.waited_ns;
  }
};

}  // namespace isochron::cuda
