#include "isochron/observe/record/event_file.h"

#include <observe/record/events.pb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/files/record_file.h"
#include "isochron/core/files/written_files.h"

namespace isochron::observe {
namespace {

constexpr size_t kRecordFrameBytes = 16;  // length and checksums (core/files/record_file.h)
std::atomic<int64_t> g_bytes_written{0};

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_path(const std::filesystem::path& folder) {
  static std::atomic<int> made{0};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, ErrorCode::kIo, folder.string(), "cannot create the folder: {}", failed.message());
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(wall_seconds()),
                              host.data(), ::getpid(), made++);
}

template <typename T>
HistogramSummary summary_of(std::span<const T> values) {
  HistogramSummary summary;
  for (const T value : values) {
    const auto number = static_cast<double>(value);
    if (!std::isfinite(number)) continue;
    summary.min = summary.count == 0 ? number : std::min(summary.min, number);
    summary.max = summary.count == 0 ? number : std::max(summary.max, number);
    ++summary.count;
    summary.sum += number;
    summary.sum_squares += number * number;
  }
  if (summary.count == 0) return summary;
  const double range = summary.max - summary.min;
  const int buckets = range > 0 && std::isfinite(range) ? HistogramSummary::kMaxBuckets : 1;
  summary.counts.assign(static_cast<size_t>(buckets), 0);
  for (int i = 1; i < buckets; ++i) summary.limits.push_back(summary.min + range * i / buckets);
  summary.limits.push_back(summary.max);
  for (const T value : values) {
    const auto number = static_cast<double>(value);
    if (!std::isfinite(number)) continue;
    const auto at = std::lower_bound(summary.limits.begin(), summary.limits.end(), number);
    ++summary.counts[static_cast<size_t>(at - summary.limits.begin())];
  }
  return summary;
}

proto::DataType type_of(DType dtype) {
  constexpr proto::DataType kTypes[kDTypeCount] = {proto::DT_DOUBLE,   proto::DT_FLOAT, proto::DT_HALF,
                                                   proto::DT_BFLOAT16, proto::DT_INT64, proto::DT_INT32,
                                                   proto::DT_UINT8,    proto::DT_BOOL};
  return kTypes[static_cast<int>(dtype)];
}

void fill(proto::Node& to, const ListedNode& from) {
  to.set_name(from.name);
  to.set_op(from.op == "constant" ? "Const" : from.op);  // TensorBoard draws a small node for "Const"
  for (const std::string& input : from.inputs) to.add_input(input);
  auto& attributes = *to.mutable_attr();
  for (const auto& [name, text] : from.attributes) attributes[name].set_s(text);
  if (from.outputs.empty()) return;
  int64_t bytes = 0;
  proto::Attribute::List& shapes = *attributes["_output_shapes"].mutable_list();
  for (const TensorSpec& output : from.outputs) {
    proto::TensorShape& shape = *shapes.add_shape();
    for (const int64_t extent : output.shape) shape.add_dim()->set_size(extent);
    bytes += static_cast<int64_t>(output.size_bytes());
  }
  attributes["T"].set_type(type_of(from.outputs[0].dtype));
  attributes["output_bytes"].set_i(bytes);
}

}  // namespace

int64_t EventFile::bytes_written() { return g_bytes_written.load(std::memory_order_relaxed); }

HistogramSummary summarize(std::span<const float> values) { return summary_of(values); }
HistogramSummary summarize(std::span<const double> values) { return summary_of(values); }

struct EventFile::Impl {
  explicit Impl(const std::filesystem::path& path) : writer(path) {}

  RecordWriter writer;
  proto::Event event;  // reused, so that its memory is too
  std::string bytes;

  void write(int64_t step) {
    event.set_wall_time(wall_seconds());
    event.set_step(step);
    event.SerializeToString(&bytes);
    writer.write(std::as_bytes(std::span(bytes)));
    g_bytes_written.fetch_add(static_cast<int64_t>(bytes.size() + kRecordFrameBytes),
                              std::memory_order_relaxed);
  }
};

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(new_path(folder)), impl_(std::make_unique<Impl>(path_)) {
  impl_->event.set_file_version("brain.Event:2");
  impl_->write(0);
}

EventFile::~EventFile() = default;

void EventFile::restart_at(int64_t step) {
  impl_->event.mutable_session_log()->set_status(proto::SessionLog::START);
  impl_->write(step);
}

/// Notes this file as an event file. A file with scalars or histograms may be one of many; a file with only
/// graphs isn't noted.
void EventFile::note_log() {
  if (!std::exchange(is_log_, true)) note_written_file(FileKind::kEvents, path_);
}

void EventFile::scalar(std::string_view tag, int64_t step, double value) {
  note_log();
  proto::Summary& summary = *impl_->event.mutable_summary();
  if (summary.value_size() == 0) summary.add_value();
  summary.mutable_value(0)->set_tag(tag.data(), tag.size());
  summary.mutable_value(0)->set_simple_value(static_cast<float>(value));
  impl_->write(step);
}

void EventFile::histogram(std::string_view tag, int64_t step, const HistogramSummary& values) {
  note_log();
  proto::Summary& summary = *impl_->event.mutable_summary();
  if (summary.value_size() == 0) summary.add_value();
  summary.mutable_value(0)->set_tag(tag.data(), tag.size());
  proto::Histogram& histogram = *summary.mutable_value(0)->mutable_histo();
  histogram.set_min(values.min);
  histogram.set_max(values.max);
  histogram.set_num(values.count);
  histogram.set_sum(values.sum);
  histogram.set_sum_squares(values.sum_squares);
  histogram.mutable_bucket_limit()->Assign(values.limits.begin(), values.limits.end());
  histogram.mutable_bucket()->Assign(values.counts.begin(), values.counts.end());
  impl_->write(step);
}

void EventFile::graph(const GraphListing& nodes) {
  constexpr int kProducer = 1882;  // any version that TensorBoard knows
  proto::Graph graph;
  graph.mutable_versions()->set_producer(kProducer);
  const size_t count = std::min(nodes.size(), kMaxGraphNodes);
  for (size_t i = 0; i < count; ++i) fill(*graph.add_node(), nodes[i]);
  if (count < nodes.size()) {
    proto::Node& rest = *graph.add_node();
    rest.set_name("further_nodes");
    rest.set_op("further_nodes");
    (*rest.mutable_attr())["count"].set_i(static_cast<int64_t>(nodes.size() - count));
  }
  graph.SerializeToString(impl_->event.mutable_graph_def());
  impl_->write(0);
  impl_->event.clear_graph_def();
}

void EventFile::flush() { impl_->writer.flush(); }

}  // namespace isochron::observe
