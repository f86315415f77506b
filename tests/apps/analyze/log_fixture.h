// A log of a test's own, read as `isochron analyze` reads it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "isochron/apps/analyze/read_times.h"
#include "support/temp_folder.h"

namespace isochron::apps {

class LogFixture : public testing::Test {
 protected:
  /// The path of a file with this content.
  std::string write(const std::string& content) {
    const std::filesystem::path path = folder_.path() / "log";
    std::ofstream(path) << content;
    return path.string();
  }
  IterationTimes read(const std::string& content, TimesOptions options = {}) {
    options.path = write(content);
    return read_times(options);
  }
  /// The times of the first series, in ms.
  std::vector<double> ms(const std::string& content, const TimesOptions& options = {}) {
    std::vector<double> result;
    const IterationTimes times = read(content, options);
    for (const double ns : times.series.at(0).ns) result.push_back(std::round(ns / 1e3) / 1e3);
    return result;
  }

  TempFolder folder_;
};

}  // namespace isochron::apps
