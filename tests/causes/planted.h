// Planted faults and healthy loops. Each is a real loop over a real model, recorded as a user would record
// it, with one fault or none. What can't be planted (a throttled clock, a hypervisor that steals time,
// swapping, a device) is simulated through the recorder's sensors. The fault matrix runs all of them:
// tests/causes/matrix_test.cc and bench/fault_matrix.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::causes {

struct Planted {
  std::string_view cause;  // that the report must name; empty: none
  std::string_view what;   // one line
  observe::RunReport (*run)();
  bool played = false;  // simulated through the sensors
};

std::vector<Planted> planted_graph();
std::vector<Planted> planted_history();
std::vector<Planted> planted_memory();
std::vector<Planted> planted_input();
std::vector<Planted> planted_numbers();
std::vector<Planted> planted_machine();
std::vector<Planted> planted_files();
std::vector<Planted> planted_ranks();
/// A healthy loop over two ranks.
observe::RunReport ranks_alike();
std::vector<Planted> healthy_loops();
/// All of them, healthy loops first.
std::vector<Planted> all_planted();

/// How long a loop runs.
struct Extent {
  int64_t warmup = 50;       // iterations, before the recorder is sealed
  int64_t least = 200;       // iterations,
  double seconds = 0.35;     // and time; up to 4 times as long until its verdict is settled
  int64_t most = INT64_MAX;  // iterations, for loops that can't run forever
};

/// Options that all planted loops share.
observe::RecorderOptions recorder_options();
/// Requires only enough samples and windows, however long they took.
observe::ReportOptions report_options();

/// Runs `step` in an iteration again and again, and judges. Where time isn't found flat, or to have changed
/// twice in a row, it runs on: a machine with other work needs longer.
observe::RunReport run_loop(const std::function<void(observe::Recorder& recorder, int64_t i)>& step,
                            const Extent& extent = {}, observe::RecorderOptions options = recorder_options());

/// The causes that the report names. Omits causes outside the program unless `planted` is one: they may be
/// real.
std::vector<std::string> named(const observe::RunReport& report, std::string_view planted);

}  // namespace isochron::causes
