// Captured graphs of the simulated device.
#include <algorithm>
#include <utility>

#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

void SimulatedContext::begin_capture(Stream stream) {
  const Inside here(mutex_);
  enter("begin_capture");
  const auto graph = static_cast<Graph>(next_handle_++);
  graphs_[static_cast<uintptr_t>(graph)] = std::make_shared<Nodes>();
  try {
    begin_capture_to(stream, graph);
  } catch (...) {
    graphs_.erase(static_cast<uintptr_t>(graph));
    throw;
  }
}

void SimulatedContext::begin_capture_to(Stream stream, Graph graph) {
  const Inside here(mutex_);
  StreamState& origin = at(stream);
  require(!origin.capture, ErrorCode::kCaptureViolation, "cuda", "begin_capture: one is under way");
  const std::shared_ptr<Nodes>& nodes = at(graph);
  for (const auto& other : captures_) {
    require(other->nodes != nodes, ErrorCode::kCaptureViolation, "cuda",
            "begin_capture: the graph is captured by another stream");
  }
  origin.capture = captures_.emplace_back(std::make_shared<Capture>());
  origin.capture->origin = stream;
  origin.capture->graph = graph;
  origin.capture->nodes = nodes;
  origin.last.clear();
}

Graph SimulatedContext::end_capture(Stream stream) {
  const Inside here(mutex_);
  const std::shared_ptr<Capture> capture = at(stream).capture;
  require(capture && capture->origin == stream, ErrorCode::kCaptureViolation, "cuda",
          "end_capture: not of the stream where it began");
  require(capture->thread == std::this_thread::get_id(), ErrorCode::kCaptureViolation, "cuda",
          "end_capture: by another thread than began it");
  std::erase(captures_, capture);
  // What the origin's end follows, directly or not.
  std::vector<bool> joined(capture->nodes->all.size());
  std::vector<size_t> open = at(stream).last;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    const std::vector<size_t>& after = capture->nodes->all[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  bool unjoined = false;
  for (auto& [handle, state] : streams_) {
    if (state.capture != capture) continue;
    for (const size_t node : state.last) unjoined |= !joined[node];
    state.capture.reset();
    state.last.clear();
  }
  const auto holds_open_body = [&](const Node& node) {
    return std::ranges::any_of(captures_, [&](const auto& other) { return other->nodes == node.body; });
  };
  const bool open_body = std::ranges::any_of(capture->nodes->all, holds_open_body);
  try {
    enter("end_capture");
    require(!open_body, ErrorCode::kCaptureViolation, "cuda", "end_capture: a body is still open");
    require(!capture->broken, ErrorCode::kCaptureViolation, "cuda", "end_capture: a call broke it");
    require(!unjoined, ErrorCode::kCaptureViolation, "cuda",
            "end_capture: a stream that was forked isn't joined");
  } catch (...) {
    if (!capture->nodes->is_body) graphs_.erase(static_cast<uintptr_t>(capture->graph));
    throw;
  }
  return capture->graph;
}

bool SimulatedContext::capturing(Stream stream) {
  const Inside here(mutex_);
  return at(stream).capture != nullptr;
}

Graph SimulatedContext::open_graph(Stream stream) const {
  const Inside here(mutex_);
  const auto& capture = at(stream).capture;
  return capture ? capture->graph : Graph::kNone;
}

bool SimulatedContext::capture_is_broken(Stream stream) const {
  const Inside here(mutex_);
  const auto& capture = at(stream).capture;
  return capture && capture->broken;
}

std::vector<size_t> SimulatedContext::indices_of(const char* call, const Nodes& nodes,
                                                 std::span<const GraphNode> handles) const {
  std::vector<size_t> indices;
  for (const GraphNode handle : handles) {
    const auto found = std::ranges::find(nodes.all, handle, &Node::handle);
    const auto index = static_cast<size_t>(found - nodes.all.begin());
    require(found != nodes.all.end() && std::ranges::find(indices, index) == indices.end(),
            ErrorCode::kDevice, "cuda", "{}: no such node here, or the same twice", call);
    indices.push_back(index);
  }
  return indices;
}

void SimulatedContext::follow(Stream stream, std::span<const GraphNode> nodes) {
  const Inside here(mutex_);
  enter("follow");
  StreamState& state = at(stream);
  require(state.capture != nullptr, ErrorCode::kCaptureViolation, "cuda", "follow: outside of a capture");
  state.last = indices_of("follow", *state.capture->nodes, nodes);
}

std::vector<GraphNode> SimulatedContext::followed(Stream stream) {
  const Inside here(mutex_);
  enter("followed");
  const StreamState& state = at(stream);
  require(state.capture != nullptr, ErrorCode::kCaptureViolation, "cuda", "followed: outside of a capture");
  std::vector<GraphNode> nodes;
  for (const size_t index : state.last) nodes.push_back(state.capture->nodes->all[index].handle);
  return nodes;
}

Condition SimulatedContext::create_condition(Stream stream) {
  const Inside here(mutex_);
  enter("create_condition");
  require(at(stream).capture != nullptr, ErrorCode::kCaptureViolation, "cuda",
          "create_condition: outside of a capture");
  return create_condition_in(open_graph(stream));
}

Condition SimulatedContext::create_condition_in(Graph graph) {
  const Inside here(mutex_);
  static_cast<void>(at(graph));
  auto state = std::make_unique<ConditionState>();
  state->graph = graph;
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&state->value));
  conditions_[address] = std::move(state);
  return static_cast<Condition>(address);
}

GraphNode SimulatedContext::add_empty_node(Graph graph, std::span<const GraphNode> after) {
  const Inside here(mutex_);
  Nodes& nodes = *at(graph);
  const size_t index = add_node(nodes, {NodeKind::kEmpty, [] {}, indices_of("add_node", nodes, after)});
  return nodes.all[index].handle;
}

std::pair<GraphNode, Graph> SimulatedContext::add_conditional_node(Graph graph,
                                                                   std::span<const GraphNode> after,
                                                                   Condition condition, bool repeats) {
  const Inside here(mutex_);
  Nodes& nodes = *at(graph);
  const auto found = conditions_.find(static_cast<uint64_t>(condition));
  require(found != conditions_.end() && found->second->graph == graph && !found->second->used,
          ErrorCode::kDevice, "cuda", "add_node: not a condition of this graph, or one that a node has");
  auto body = std::make_shared<Nodes>();
  body->is_body = true;
  const auto handle = static_cast<Graph>(next_handle_++);
  graphs_[static_cast<uintptr_t>(handle)] = body;
  Node node{NodeKind::kConditional, {}, indices_of("add_node", nodes, after)};
  node.condition = found->first;
  node.repeats = repeats;
  node.body = std::move(body);
  const size_t index = add_node(nodes, std::move(node));
  found->second->used = true;
  return {nodes.all[index].handle, handle};
}

Stream SimulatedContext::begin_body(Stream stream, Condition condition, bool repeats) {
  const Inside here(mutex_);
  enter("begin_body");
  require(at(stream).capture != nullptr, ErrorCode::kCaptureViolation, "cuda",
          "begin_body: outside of a capture");
  const std::vector<GraphNode> after = followed(stream);
  const auto [node, graph] = add_conditional_node(open_graph(stream), after, condition, repeats);
  follow(stream, {&node, 1});
  const auto body = static_cast<Stream>(next_handle_++);
  streams_[static_cast<uintptr_t>(body)].of_body = true;
  begin_capture_to(body, graph);
  return body;
}

void SimulatedContext::end_body(Stream body) {
  const Inside here(mutex_);
  enter("end_body");
  require(at(body).of_body, ErrorCode::kCaptureViolation, "cuda", "end_body: not of a body");
  const auto forget = [&] { streams_.erase(static_cast<uintptr_t>(body)); };
  try {
    end_capture(body);
  } catch (...) {
    forget();
    throw;
  }
  forget();
}

std::vector<std::pair<GraphNode, SimulatedContext::NodeKind>> SimulatedContext::nodes_of(Graph graph) const {
  const Inside here(mutex_);
  std::vector<std::pair<GraphNode, NodeKind>> result;
  for (const Node& node : at(graph)->all) result.emplace_back(node.handle, node.kind);
  return result;
}

SimulatedContext::NodeKind SimulatedContext::kind_of(GraphNode node) const {
  const Inside here(mutex_);
  for (const auto& [handle, graph] : graphs_) {
    const auto found = std::ranges::find(graph->all, node, &Node::handle);
    if (found != graph->all.end()) return found->kind;
  }
  isochron::fail(ErrorCode::kDevice, "cuda", "no such node");
}

GraphCounts SimulatedContext::counts(Graph graph) {
  const Inside here(mutex_);
  enter("counts");
  GraphCounts counts;
  for (const Node& node : at(graph)->all) {
    counts.kernels += node.kind == NodeKind::kKernel;
    counts.copies += node.kind == NodeKind::kCopy;
    counts.memsets += node.kind == NodeKind::kMemset;
    counts.conditionals += node.kind == NodeKind::kConditional;
    counts.others += node.kind == NodeKind::kEmpty;
  }
  return counts;
}

GraphExec SimulatedContext::instantiate(Graph graph) {
  const Inside here(mutex_);
  enter_outside_capture("instantiate");
  const std::shared_ptr<Nodes>& nodes = at(graph);
  for (const auto& capture : captures_) {
    require(capture->nodes != nodes, ErrorCode::kDevice, "cuda", "instantiate: the graph is still captured");
  }
  executables_[next_handle_] = nodes;
  return static_cast<GraphExec>(next_handle_++);
}

void SimulatedContext::upload(GraphExec graph, Stream) {
  const Inside here(mutex_);
  enter_outside_capture("upload");
  require(executables_.contains(static_cast<uintptr_t>(graph)), ErrorCode::kDevice, "cuda",
          "upload: no such graph");
}

void SimulatedContext::destroy(Graph graph) {
  const Inside here(mutex_);
  enter("destroy graph");
  require(!at(graph)->is_body, ErrorCode::kDevice, "cuda", "destroy: a body is its graph's");
  destroy_bodies(*at(graph));
  graphs_.erase(static_cast<uintptr_t>(graph));
}

void SimulatedContext::destroy_bodies(const Nodes& nodes) {
  for (const Node& node : nodes.all) {
    if (!node.body) continue;
    destroy_bodies(*node.body);
    std::erase_if(graphs_, [&](const auto& graph) { return graph.second == node.body; });
  }
}

void SimulatedContext::destroy(GraphExec graph) {
  const Inside here(mutex_);
  enter("destroy executable");
  require(executables_.contains(static_cast<uintptr_t>(graph)), ErrorCode::kDevice, "cuda",
          "destroy: no such executable graph");
  while (run_one()) continue;
  executables_.erase(static_cast<uintptr_t>(graph));
}

void SimulatedContext::run_graph(const Nodes& graph) {
  const std::vector<Node>& nodes = graph.all;
  std::vector<bool> done(nodes.size());
  for (size_t count = 0; count < nodes.size(); ++count) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto& after = nodes[i].after;
      if (!done[i] && std::all_of(after.begin(), after.end(), [&](size_t node) { return done[node]; }))
        ready.push_back(i);
    }
    const size_t chosen = ready[std::min(
        ready.size() - 1, static_cast<size_t>(random_.uniform() * static_cast<double>(ready.size())))];
    run_node(nodes[chosen]);
    done[chosen] = true;
  }
}

void SimulatedContext::run_node(const Node& node) {
  if (node.kind != NodeKind::kConditional) return node.work();
  constexpr int kForEver = 1'000'000;
  const unsigned& condition = conditions_.at(node.condition)->value;
  for (int i = 0; condition != 0; ++i) {
    require(i < kForEver, ErrorCode::kDevice, "cuda", "a conditional part repeats for ever");
    run_graph(*node.body);
    if (!node.repeats) return;
  }
}

void SimulatedContext::launch(GraphExec graph, Stream stream) {
  const Inside here(mutex_);
  enter_outside_capture("launch graph");
  const auto found = executables_.find(static_cast<uintptr_t>(graph));
  require(found != executables_.end(), ErrorCode::kDevice, "cuda", "launch: no such graph");
  put(stream, NodeKind::kKernel, [this, nodes = found->second] {
    for (auto& [address, state] : conditions_) state->value = 0;
    run_graph(*nodes);
  });
}

}  // namespace isochron::cuda
