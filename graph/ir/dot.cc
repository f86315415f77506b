// Graphviz form of a graph. Values are named by the dot node that makes them: v<value> for inputs and bound
// values, n<node> for results; in a body or a fused kernel, these names follow the id of the outer node.
#include <algorithm>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

const AttributeObject* object_of(const AttributeValue& attribute) {
  const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&attribute);
  return object != nullptr ? object->get() : nullptr;
}

const ElementProgram* program_of(const Node& node) {
  for (const auto& [name, attribute] : node.attributes.entries()) {
    if (const auto* program = dynamic_cast<const ElementProgram*>(object_of(attribute))) return program;
  }
  return nullptr;
}

/// Writes one graph, or the body of a node; `prefix` precedes all of its ids.
class DotWriter {
 public:
  DotWriter(const Graph& graph, std::string prefix, std::string indent, std::string& text)
      : graph_(graph), prefix_(std::move(prefix)), indent_(std::move(indent)), text_(text) {}

  void write() {
    write_leaves();
    for (const auto& node : graph_.nodes()) {
      if (const ElementProgram* program = program_of(*node)) {
        write_fused(*node, *program);
      } else {
        write_node(*node);
      }
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      line("{0}out{1} [label=\"output {1}\", shape=ellipse];", prefix_, i);
      line("{} -> {}out{};", id_of(graph_.outputs()[i]), prefix_, i);
    }
    for (const Update& update : graph_.updates()) {
      line("{} -> {} [style=dashed, constraint=false, label=\"update\"];", id_of(update.value),
           id_of(update.target));
    }
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += indent_ + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string node_id(const Node& node) const { return fmt::format("{}n{}", prefix_, node.id); }

  std::string id_of(const Value* value) const {
    if (value->producer == nullptr) return fmt::format("{}v{}", prefix_, value->id);
    const auto found = inner_.find(value);
    return found == inner_.end() ? node_id(*value->producer) : found->second;
  }

  void write_leaves() {
    for (const Value* value : graph_.inputs()) {
      line("{}v{} [label=\"input {}\\n{}\", shape=ellipse];", prefix_, value->id, value->index,
           value->spec.str());
    }
    const std::unordered_map<const Value*, int> uses = graph_.use_counts();
    const auto updated = [this](const Value* value) {
      return std::any_of(graph_.updates().begin(), graph_.updates().end(),
                         [value](const Update& update) { return update.target == value; });
    };
    for (const Value* value : graph_.bound()) {
      if (!uses.contains(value) && !updated(value)) continue;  // a number that was folded or fused away
      line("{}v{} [label=\"{}\\n{}\", shape={}];", prefix_, value->id,
           value->constant() ? "constant" : "bound", value->spec.str(),
           value->constant() ? "plaintext" : "cylinder");
    }
  }

  void write_edge(const Value* from, const std::string& to) {
    line("{} -> {} [label=\"{}\"];", id_of(from), to, from->spec.str());
  }

  void write_node(const Node& node) {
    const std::string id = node_id(node);
    line("{} [label=\"{}\"];", id, escaped(node.scope + node.op->name));
    for (const Value* input : node.inputs) write_edge(input, id);
    for (const auto& [name, attribute] : node.attributes.entries()) {
      const auto* body = dynamic_cast<const SubGraph*>(object_of(attribute));
      if (body == nullptr) continue;
      const std::string body_id = fmt::format("{}_{}", id, name);
      line("subgraph cluster_{} {{", body_id);
      line("  label=\"{} of {}\"; style=rounded; color=gray40;", name, escaped(node.scope + node.op->name));
      DotWriter(*body->graph, body_id + "_", indent_ + "  ", text_).write();
      line("}}");
    }
  }

  /// A cluster with a dot node for every instruction and for every result that isn't an instruction's.
  void write_fused(const Node& node, const ElementProgram& program) {
    const std::string id = node_id(node);
    const size_t operands = program.operands.size();
    std::vector<const Value*> sources(operands, nullptr);  // null: an immediate number
    for (size_t r = 0, next = 0; r < operands; ++r) {
      if (!program.operands[r].immediate) sources[r] = node.inputs[next++];
    }
    std::string edges;  // outside the cluster, because Graphviz would draw their end nodes inside it
    const auto read = [&](size_t reg, const std::string& to) {
      if (reg >= operands) {
        edges += fmt::format("{}{}_r{} -> {};\n", indent_, id, reg, to);
      } else if (sources[reg] != nullptr) {
        edges += fmt::format("{}{} -> {} [label=\"{}\"];\n", indent_, id_of(sources[reg]), to,
                             sources[reg]->spec.str());
      }
    };
    line("subgraph cluster_{} {{", id);
    line("  label=\"{}\"; style=\"rounded,filled\"; color=gray60; fillcolor=gray95;",
         escaped(node.scope + node.op->name));
    for (size_t k = 0; k < program.code.size(); ++k) {
      const ElementProgram::Instruction& code = program.code[k];
      const std::string to = fmt::format("{}_r{}", id, operands + k);
      std::string label(element_op_name(code.op));
      for (int i = 0; i < element_op_arity(code.op); ++i) {
        const size_t reg = code.operands[i];
        if (reg < operands && program.operands[reg].immediate) {
          label += fmt::format(" {:g}", program.operands[reg].value);
        }
        read(reg, to);
      }
      line("  {} [label=\"{}\"];", to, label);
    }
    for (size_t o = 0; o < program.outputs.size() && o < node.outputs.size(); ++o) {
      const ElementProgram::Output& output = program.outputs[o];
      if (!output.reduced && output.reg >= operands) {
        inner_[node.outputs[o]] = fmt::format("{}_r{}", id, output.reg);
        continue;
      }
      const std::string result = fmt::format("{}_o{}", id, o);
      line("  {} [label=\"{}\"];", result,
           output.reduced ? fmt::format("{} over {}", reduce_kind_name(output.kind), dims_str(output.axes))
                          : "copy");
      read(output.reg, result);
      inner_[node.outputs[o]] = result;
    }
    line("}}");
    text_ += edges;
  }

  const Graph& graph_;
  std::string prefix_;
  std::string indent_;
  std::string& text_;
  std::unordered_map<const Value*, std::string> inner_;  // results of fused kernels
};

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string text =
      "digraph isochron {\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n"
      "  graph [fontname=\"Helvetica\", fontsize=10];\n  edge [fontname=\"Helvetica\", fontsize=8];\n";
  DotWriter(graph, "", "  ", text).write();
  return text + "}\n";
}

}  // namespace isochron::graph
