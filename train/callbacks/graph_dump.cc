#include "isochron/train/callbacks/graph_dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/text/count_text.h"
#include "isochron/observe/record/event_file.h"

namespace isochron::train {
namespace {

size_t count_nodes(const graph::Graph& graph) {
  size_t count = graph.node_count();
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, attribute] : node->attributes.entries()) {
      const auto* object = std::get_if<std::shared_ptr<const graph::AttributeObject>>(&attribute);
      const auto* body = object ? dynamic_cast<const graph::SubGraph*>(object->get()) : nullptr;
      if (body != nullptr) count += count_nodes(*body->graph);
    }
  }
  return count;
}

/// Variables and constants that are read or updated.
size_t count_bound(const GraphListing& listing) {
  return static_cast<size_t>(std::count_if(listing.begin(), listing.end(), [](const ListedNode& node) {
    return node.op == "variable" || (node.op == "constant" && node.inputs.empty());
  }));
}

size_t result_bytes(const graph::Graph& graph) {
  size_t bytes = 0;
  for (const auto& node : graph.nodes()) {
    for (const graph::Value* output : node->outputs) bytes += output->spec.size_bytes();
  }
  return bytes;
}

void make(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, ErrorCode::kIo, folder.string(), "cannot create the folder: {}", failed.message());
}

std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '/' || c == ' ' || c == '.'; }, '_');
  return text;
}

}  // namespace

GraphDump::GraphDump(std::filesystem::path folder) : folder_(std::move(folder)) {
  make(folder_);
  graph::set_graph_stage_sink([this](const graph::GraphStage& stage) { take(stage); });
}

GraphDump::~GraphDump() { graph::set_graph_stage_sink({}); }

void GraphDump::take(const graph::GraphStage& stage) {
  const std::lock_guard lock(mutex_);
  size_t number = 0, traces = 0;
  int64_t newest = 0;
  for (const Stage& known : stages_) {
    traces += known.trace != newest;
    newest = known.trace;
    number += known.trace == stage.trace;
  }
  if (number >= kMaxStages || (number == 0 && traces >= kMaxTraces)) {
    ++left_out_;
    return;
  }
  const GraphListing listing = graph::list_nodes(stage.graph);
  stages_.push_back({.trace = stage.trace,
                     .function = std::string(stage.function),
                     .signature = std::string(stage.signature),
                     .name = std::string(stage.stage),
                     .nodes = count_nodes(stage.graph),
                     .bound = count_bound(listing),
                     .bytes = result_bytes(stage.graph),
                     .number = number});
  const std::filesystem::path below =
      folder_ / fmt::format("{:02}-{}", stage.trace, file_name(std::string(stage.function)));
  make(below);
  const std::string name = fmt::format("{:02}-{}", number, file_name(std::string(stage.stage)));
  write_file_atomically(below / fmt::format("{}.dot", name), graph::to_dot(stage.graph));
  observe::EventFile events(below / name);
  events.graph(listing);
  events.flush();
}

std::string GraphDump::table() const {
  std::string text;
  int64_t trace = 0;
  for (const Stage& stage : stages_) {
    if (stage.trace != trace) {
      text += fmt::format("graphs of '{}' for {}\n  {:>6} {:>6} {:>14}  stage\n", stage.function,
                          stage.signature, "nodes", "bound", "result bytes");
    }
    trace = stage.trace;
    text += fmt::format("  {:>6} {:>6} {:>14}  {}\n", stage.nodes, stage.bound, stage.bytes, stage.name);
  }
  if (left_out_ > 0) text += fmt::format("{} not written\n", count_text(left_out_, "further stage"));
  return text;
}

void GraphDump::write_csv() const {
  std::string text = "trace,function,signature,number,stage,nodes,bound,result_bytes\n";
  for (const Stage& stage : stages_) {
    text += fmt::format("{},\"{}\",\"{}\",{},{},{},{},{}\n", stage.trace, stage.function, stage.signature,
                        stage.number, stage.name, stage.nodes, stage.bound, stage.bytes);
  }
  write_file_atomically(folder_ / "stages.csv", text);
}

}  // namespace isochron::train
