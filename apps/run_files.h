// The files that `train --out` writes into a run's folder.
#pragma once

#include <string_view>

#include "isochron/observe/export/run_record.h"
#include "isochron/train/callbacks/run_watch.h"

namespace isochron::apps {

inline constexpr std::string_view kPageFile = "report.html";
inline constexpr std::string_view kResultFile = "train.json";  // the same as that of --json
inline constexpr std::string_view kHistoryFile = "history.csv";
inline constexpr std::string_view kWindowsFile = "windows.csv";
inline constexpr std::string_view kKernelsFile = "kernels.json";
inline constexpr std::string_view kPlanFile = "plan.svg";

inline constexpr std::string_view kRunFiles[] = {kPageFile,    kResultFile,      observe::kRunRecordFile,
                                                 kHistoryFile, kWindowsFile,     kKernelsFile,
                                                 kPlanFile,    train::kLiveFile, train::kDriftFile};

}  // namespace isochron::apps
