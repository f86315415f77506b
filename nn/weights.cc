#include "isochron/nn/weights.h"

#include <algorithm>
#include <set>

#include "isochron/ops/elementwise.h"

namespace isochron::nn {
namespace {

/// A variable of a module and what holds it in a file.
struct Slot {
  Variable variable;
  WeightRule rule;
  std::vector<std::string> names;  // in the file, one for each of the rule's
};

struct Slots {
  std::vector<Slot> list;
  std::set<std::string> read_over;  // names in the file
};

/// Walks a module and everything below it.
class SlotCollector final : public Members {
 public:
  explicit SlotCollector(const WeightNaming& naming) : naming_(naming) {}

  Slots collect(Module& module) {
    visit(module);
    return std::move(slots_);
  }

 private:
  bool pytorch() const { return naming_.convention == Convention::kPyTorch; }
  std::string file_name(const std::string& member) const {
    const std::string name = path_ + member;
    return naming_.rename ? naming_.rename(name) : name;
  }

  void visit(Module& module) {
    const std::string kind = std::exchange(kind_, std::string(module.kind()));
    const int children = std::exchange(children_, 0);
    for (const std::span<const WeightRule> rules : tables()) {
      for (const WeightRule& rule : rules) {
        if (rule.kind != kind_ || !rule.member.empty()) continue;
        for (const std::string& name : rule.theirs) slots_.read_over.insert(file_name(name));
      }
    }
    module.members(*this);
    kind_ = kind;
    children_ = children;
  }
  void on_child(std::string_view name, Module& child) override {
    const size_t length = path_.size();
    const int position = children_++;
    path_ += pytorch() && kind_ == "sequential" ? fmt::format("{}.", position)
                                                : fmt::format("{}{}", name, pytorch() ? '.' : '/');
    visit(child);
    path_.resize(length);
  }
  void on_variable(std::string_view name, const Variable& variable, bool) override {
    const bool known = std::any_of(slots_.list.begin(), slots_.list.end(),
                                   [&](const Slot& slot) { return slot.variable == variable; });
    if (known) return;
    Slot slot{variable, rule_of(std::string(name)), {}};
    for (const std::string& theirs : slot.rule.theirs) slot.names.push_back(file_name(theirs));
    slots_.list.push_back(std::move(slot));
  }
  std::array<std::span<const WeightRule>, 2> tables() const {
    return {naming_.rules, weight_rules(naming_.convention)};
  }
  WeightRule rule_of(const std::string& member) const {
    for (const std::span<const WeightRule> rules : tables()) {
      for (const WeightRule& rule : rules) {
        if (rule.kind == kind_ && rule.member == member) return rule;
      }
    }
    return renamed(kind_, member, member);
  }

  const WeightNaming& naming_;
  Slots slots_;
  std::string path_;
  std::string kind_;  // of the module being visited
  int children_ = 0;  // of it, so far
};

Slots slots_of(Module& module, const WeightNaming& naming, std::string_view where) {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, where,
          "weights can't be saved or loaded in a capture; do it between steps");
  Slots slots = SlotCollector(naming).collect(module);
  require(!slots.list.empty(), ErrorCode::kInvalidArgument, where,
          "the model has no parameters yet; call it once, or build(spec of its input)");
  return slots;
}

bool convertible(DType from, DType to) { return from == to || (is_floating(from) && is_floating(to)); }

/// Compares what the file has with what the model needs; whether `slot` can be loaded.
bool check_slot(const Slot& slot, const SafetensorsFile& file, LoadReport& report) {
  const std::vector<Tensor> wanted = slot.rule.to_theirs(slot.variable.tensor());
  bool fits = true;
  for (size_t i = 0; i < slot.names.size(); ++i) {
    const SafetensorsEntry* entry = file.find(slot.names[i]);
    const TensorSpec& spec = wanted[i].spec();
    if (entry == nullptr) {
      report.missing.push_back(slot.names[i]);
    } else if (!(entry->spec.shape == spec.shape) || !convertible(entry->spec.dtype, spec.dtype)) {
      report.mismatched.push_back(fmt::format("{}: the file has {}, the model needs {}", slot.names[i],
                                              entry->spec.str(), spec.str()));
    } else {
      continue;
    }
    fits = false;
  }
  return fits;
}

std::string listed(std::string_view title, std::vector<std::string> names) {
  constexpr size_t kShown = 20;
  if (names.empty()) return {};
  const size_t count = names.size();
  if (count > kShown) {
    names.resize(kShown);
    names.push_back(fmt::format("and {} more", count - kShown));
  }
  return fmt::format("\n  {} ({}): {}", title, count, fmt::join(names, ", "));
}

void require_fit(const LoadReport& report, const std::filesystem::path& path, const LoadOptions& options) {
  const bool mismatched = !report.mismatched.empty() && !options.skip_mismatched;
  const bool names = options.strict && !(report.missing.empty() && report.unexpected.empty());
  if (!mismatched && !names) return;
  fail(mismatched ? ErrorCode::kShapeMismatch : ErrorCode::kOutOfRange, path.string(),
       "the file and the model don't fit, nothing was loaded:{}{}{}\n  see LoadOptions (naming, strict, "
       "skip_mismatched)",
       listed("missing in the file", report.missing), listed("unexpected in the file", report.unexpected),
       listed("mismatched", report.mismatched));
}

Tensor read_slot(const Slot& slot, const SafetensorsFile& file) {
  std::vector<Tensor> theirs;
  for (const std::string& name : slot.names) {
    const Tensor tensor = file.read(name);
    theirs.push_back(tensor.dtype() == slot.variable.dtype() ? tensor : cast(tensor, slot.variable.dtype()));
  }
  return slot.rule.to_ours(theirs);
}

}  // namespace

void save_weights(Module& module, const std::filesystem::path& path, const SaveOptions& options) {
  const Slots slots = slots_of(module, options.naming, "save_weights");
  std::vector<SafetensorsSource> sources;
  for (const Slot& slot : slots.list) {
    const auto theirs = [&slot] { return slot.rule.to_theirs(slot.variable.tensor()); };
    const std::vector<Tensor> converted = theirs();  // for the specs; made again when written
    for (size_t i = 0; i < slot.names.size(); ++i) {
      sources.push_back({slot.names[i], converted[i].spec(), [theirs, i] { return theirs()[i]; }});
    }
  }
  SafetensorsMetadata metadata = options.metadata;
  if (options.naming.convention == Convention::kPyTorch) metadata.emplace("format", "pt");
  write_safetensors(path, sources, metadata);
}

LoadReport load_weights(Module& module, const std::filesystem::path& path, const LoadOptions& options) {
  const Slots slots = slots_of(module, options.naming, "load_weights");
  const SafetensorsFile file(path);
  LoadReport report;
  std::vector<const Slot*> fitting;
  std::set<std::string> known = slots.read_over;
  for (const Slot& slot : slots.list) {
    known.insert(slot.names.begin(), slot.names.end());
    if (check_slot(slot, file, report)) fitting.push_back(&slot);
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!known.contains(entry.name)) report.unexpected.push_back(entry.name);
  }
  require_fit(report, path, options);
  std::vector<Tensor> contents;
  for (const Slot* slot : fitting) contents.push_back(read_slot(*slot, file));
  for (size_t i = 0; i < fitting.size(); ++i) fitting[i]->variable.assign(contents[i]);
  report.loaded = fitting.size();
  return report;
}

}  // namespace isochron::nn
