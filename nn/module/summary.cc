#include "isochron/nn/module/summary.h"

#include <algorithm>
#include <ostream>

#include "isochron/nn/module/call_log.h"

namespace isochron::nn {
namespace {

class Rows {
 public:
  Rows(Module& model, const std::vector<CallLog::Call>& calls) : calls_(calls) { add("", model); }
  Summary result;

 private:
  void add(std::string path, Module& module) {
    if (std::find(seen_.begin(), seen_.end(), &module) != seen_.end()) return;
    seen_.push_back(&module);
    const size_t row = result.modules.size();
    result.modules.push_back({path, std::string(module.kind()), outputs_of(module)});
    if (!path.empty()) path += '/';
    for (const Members::Member& member : Members(module, path)) {
      if (member.child)
        add(path + member.name, *member.child);
      else if (member.variable.defined())
        count(member.variable, member.role, result.modules[row]);
    }
  }
  std::vector<TensorSpec> outputs_of(const Module& module) const {
    std::vector<TensorSpec> outputs;
    for (const CallLog::Call& call : calls_) {
      if (call.module == &module && std::find(outputs.begin(), outputs.end(), call.result) == outputs.end())
        outputs.push_back(call.result);
    }
    return outputs;
  }
  void count(const Variable& variable, Members::Role role, ModuleSummary& row) {
    if (std::find(variables_.begin(), variables_.end(), variable) != variables_.end()) return;
    variables_.push_back(variable);
    if (role != Members::Role::kParameter) {
      row.buffer_bytes += variable.size_bytes();
      result.buffer_bytes += variable.size_bytes();
      return;
    }
    const int64_t trainable = variable.trainable() ? variable.elems() : 0;
    row.parameters += variable.elems();
    row.trainable += trainable;
    row.bytes += variable.size_bytes();
    result.parameters += variable.elems();
    result.trainable += trainable;
    result.bytes += variable.size_bytes();
  }

  const std::vector<CallLog::Call>& calls_;
  std::vector<const Module*> seen_;
  std::vector<Variable> variables_;
};

/// 1234567 as "1,234,567".
std::string grouped(int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string bytes_text(size_t bytes) {
  constexpr std::string_view kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace

std::string Summary::str() const {
  constexpr size_t kLeft = 3;  // columns that are texts
  std::vector<std::vector<std::string>> lines = {
      {"path", "kind", "output", "parameters", "trainable", "bytes"}};
  for (const ModuleSummary& row : modules) {
    std::vector<std::string> outputs;
    for (const TensorSpec& output : row.outputs) outputs.push_back(output.str());
    lines.push_back({row.path.empty() ? "-" : row.path, row.kind,
                     outputs.empty() ? "-" : fmt::format("{}", fmt::join(outputs, " ")),
                     grouped(row.parameters), grouped(row.trainable), bytes_text(row.bytes)});
  }
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string_view gap = i == 0 ? "" : "  ";
      text += i < kLeft ? fmt::format("{}{:<{}}", gap, line[i], widths[i])
                        : fmt::format("{}{:>{}}", gap, line[i], widths[i]);
    }
    text += '\n';
  }
  return text + fmt::format("\n{} parameters, {} of them trainable, {}; buffers {}\n", grouped(parameters),
                            grouped(trainable), bytes_text(bytes), bytes_text(buffer_bytes));
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) { return out << summary.str(); }

Summary summary(Module& model) { return Rows(model, {}).result; }

Summary summary(Module& model, const TensorSpec& input) { return summary(model, std::span(&input, 1)); }

Summary summary(Module& model, std::span<const TensorSpec> inputs) {
  const CallLog log;
  model.build(inputs);
  return Rows(model, log.calls()).result;
}

}  // namespace isochron::nn
