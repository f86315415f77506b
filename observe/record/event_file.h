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

/// Counts by bucket: bucket i counts the numbers in (limits[i - 1], limits[i]], and bucket 0 those up to
/// limits[0].
struct HistogramSummary {
  static constexpr int kMaxBuckets = 64;
  double count = 0;
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits, counts;
};
/// At most kMaxBuckets buckets of equal width over the finite numbers in `values`; other numbers aren't
/// counted.
HistogramSummary summarize(std::span<const float> values);
HistogramSummary summarize(std::span<const double> values);

class EventFile {
 public:
  /// The most nodes of a graph that are written; a node "further_nodes" has the number of the others.
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
  /// its results ("_output_shapes"), the first dtype ("T") and their bytes ("output_bytes").
  void graph(const GraphListing& nodes);
  /// Passes what was written to the system, so that readers see it. These five functions throw kIo.
  void flush();
  const std::filesystem::path& path() const { return path_; }
  /// The number of bytes that this process ever wrote to event files.
  static int64_t bytes_written();

 private:
  struct Impl;
  void note_log();

  std::filesystem::path path_;
  bool is_log_ = false;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isochron::observe
