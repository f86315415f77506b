// Where the time of a replayed step goes, kernel by kernel, beside what the machine could do.
#pragma once

#include <string>
#include <vector>

#include "isochron/core/device.h"
#include "isochron/graph/plan.h"

namespace isochron::apps {

/// What the machine reaches with compute_threads(), or a device, measured.
struct MachineLimits {
  double flops_per_ns = 0;  // of a large f32 matrix product
  double bytes_per_ns = 0;  // read and written by an addition over `working_set_bytes`
};
MachineLimits measure_limits(size_t working_set_bytes, Device device = {});

struct ProfileLine {
  std::string name;
  std::string op;
  std::string shapes;
  double ns = 0;        // median
  double limit_ns = 0;  // flops over the product's rate plus bytes over the bandwidth
  double flops = 0;
  double bytes = 0;
  double loss_ns() const { return ns - limit_ns; }
};
struct Profile {
  MachineLimits limits;
  std::vector<ProfileLine> lines;  // largest loss first
  double ns() const;
  double limit_ns() const;
};
/// Replays `plan`, whose inputs must be bound and alive, some hundred times.
Profile profile(graph::Plan& plan);
/// Prints the table.
void print_profile(graph::Plan& plan);

}  // namespace isochron::apps
