// Scalars, histograms and graphs in the files that TensorBoard reads: records (core/files/record_file.h) of
// protobuf messages (observe/record/events.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/graph_listing.h"

namespace isochron::observe {

/// Bucket i counts the numbers in (limits[i - 1], limits[i]], and bucket 0 all numbers up to limits[0].
struct HistogramSummary {
  static constexpr int kMaxBuckets = 64;
  double count = 0;
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits, counts;
};
/// Makes at most kMaxBuckets buckets of equal width that cover the finite numbers in `values`. Other numbers
/// aren't counted.
HistogramSummary summarize(std::span<const float> values);
HistogramSummary summarize(std::span<const double> values);

class EventFile {
 public:
  /// The maximum number of nodes of a graph that are written. A node "further_nodes" has the number of the
  /// others.
  static constexpr size_t kMaxGraphNodes = 20'000;

  /// Creates events.out.tfevents.SECONDS.HOST.PID.NUMBER in `folder`, and the folder if it is missing. Throws
  /// kIo.
  explicit EventFile(const std::filesystem::path& folder);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  /// Tells readers to discard the data from `step` on in other files of the folder: this file restarts there.
  void restart_at(int64_t step);
  void scalar(std::string_view tag, int64_t step, double value);
  void histogram(std::string_view tag, int64_t step, const HistogramSummary& values);
  /// The graph of this run. TensorBoard shows only the newest graph of a folder. Each node has the shapes of
  /// its results ("_output_shapes"), the dtype of the first result ("T"), and the size of all results
  /// ("output_bytes").
  void graph(const GraphListing& nodes);
  /// Passes everything written so far to the system, so that readers see it. This function and the four above
  /// throw kIo.
  void flush();
  const std::filesystem::path& path() const { return path_; }
  /// The total number of bytes that this process has written to event files.
  static int64_t bytes_written();

 private:
  struct Impl;
  void note_log();

  std::filesystem::path path_;
  bool is_log_ = false;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isochron::observe
