#include "isochron/nn/weights/weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"

namespace isochron::nn {
namespace {

/// Variables of a module, and the names of the tensors that hold them in a file.
struct Slot {
  const Module* layer;
  std::vector<Variable> variables;
  WeightRule rule;
  std::vector<std::string> names;  // in the file, one for each of the rule's

  /// The tensors in the file's form, on the CPU wherever the variables are; ops run one by one there.
  std::vector<Tensor> theirs() const {
    std::vector<Tensor> ours;
    for (const Variable& variable : variables) ours.push_back(to_device(variable.tensor(), {}));
    return rule.to_theirs(*layer, ours);
  }
};

struct Slots {
  std::vector<Slot> list;
  std::set<std::string> read_over;  // names in the file
};

/// Adds all variables below a module by their paths. A variable with several names is added under each.
void collect_paths(Module& module, const std::string& path, std::map<std::string, Variable>& found) {
  for (const Members::Member& member : Members(module, path)) {
    if (member.child)
      collect_paths(*member.child, fmt::format("{}{}/", path, member.name), found);
    else if (member.variable.defined())
      found.emplace(path + member.name, member.variable);
  }
}

/// `text` with each "#" replaced.
std::string numbered(const std::string& text, const std::string& number) {
  std::string result;
  for (const char c : text) result += c == '#' ? number : std::string(1, c);
  return result;
}

/// The numbers for which `pattern` matches a path of `paths`; one empty number if it has no "#".
std::set<std::string> numbers_in(const std::string& pattern, const std::map<std::string, Variable>& paths) {
  const size_t mark = pattern.find('#');
  if (mark == std::string::npos) return {""};
  std::set<std::string> numbers;
  for (const auto& [path, variable] : paths) {
    if (path.compare(0, mark, pattern, 0, mark) != 0) continue;
    const size_t end = path.find_first_not_of("0123456789", mark);
    const std::string number = path.substr(mark, end == std::string::npos ? end : end - mark);
    if (!number.empty() && numbered(pattern, number) == path) numbers.insert(number);
  }
  return numbers;
}

/// Walks a module and everything below it. An outer module's rules come before those of what it owns.
class SlotCollector {
 public:
  explicit SlotCollector(const WeightNaming& naming) : naming_(naming) {}

  Slots collect(Module& module) {
    layer_name_ = module.kind();
    visit(module);
    return std::move(slots_);
  }

 private:
  std::string file_name(const std::string& member) const {
    const std::string name = file_path_ + member;
    return naming_.rename ? naming_.rename(name) : name;
  }

  void visit(Module& module) {
    Module* const parent = std::exchange(module_, &module);
    const int position = std::exchange(position_, 0);
    const std::map<std::string, int> counts = std::exchange(counts_, {});
    std::map<std::string, Variable> paths;
    collect_paths(module, "", paths);
    for (const std::span<const WeightRule> rules :
         {std::span(naming_.rules), weight_rules(naming_.convention)}) {
      for (const WeightRule& rule : rules) {
        if (rule.kind == module.kind()) apply(rule, paths);
      }
    }
    for (const Members::Member& member : Members(module, path_)) {
      if (member.child)
        visit_child(member.name, *member.child);
      else if (member.variable.defined() && !claimed_.contains(path_ + member.name))
        add({member.variable}, renamed("", member.name, member.name));
    }
    module_ = parent;
    position_ = position;
    counts_ = counts;
  }

  void read_over(const WeightRule& rule) {
    for (const std::string& name : rule.theirs) slots_.read_over.insert(file_name(name));
  }

  void apply(const WeightRule& rule, const std::map<std::string, Variable>& paths) {
    if (rule.ours.empty()) return read_over(rule);
    for (const std::string& number : numbers_in(rule.ours[0], paths)) {
      WeightRule one = rule;
      std::vector<Variable> variables;
      for (std::string& name : one.ours) {
        name = numbered(name, number);
        const auto found = paths.find(name);
        if (found != paths.end() && !claimed_.contains(path_ + name)) variables.push_back(found->second);
      }
      for (std::string& name : one.theirs) {
        name = numbered(name, number);
        const size_t mark = name.find('@');
        if (mark != std::string::npos) name.replace(mark, 1, layer_name_);
      }
      if (variables.size() < one.ours.size()) {
        if (one.optional) read_over(one);
        continue;
      }
      if (one.theirs.empty()) {
        for (const std::string& ours : one.ours) claimed_.insert(path_ + ours);
        continue;
      }
      const auto shared =
          std::count_if(variables.begin(), variables.end(), [&](const Variable& v) { return known(v); });
      if (shared != 0 && shared != std::ssize(variables)) continue;  // new variables must not be lost
      if (rule.applies && !rule.applies({variables.begin(), variables.end()})) continue;
      add(std::move(variables), std::move(one));
    }
  }

  void add(std::vector<Variable> variables, WeightRule rule) {
    std::vector<std::string> names;
    for (const std::string& theirs : rule.theirs) names.push_back(file_name(theirs));
    for (const std::string& ours : rule.ours) claimed_.insert(path_ + ours);
    // A shared variable is stored under its first name. If a file also has it under other names, the values
    // are equal.
    if (known(variables[0])) {
      slots_.read_over.insert(names.begin(), names.end());
    } else {
      slots_.list.push_back({module_, std::move(variables), std::move(rule), std::move(names)});
    }
  }
  bool known(const Variable& variable) const {
    return std::any_of(slots_.list.begin(), slots_.list.end(), [&](const Slot& slot) {
      return std::find(slot.variables.begin(), slot.variables.end(), variable) != slot.variables.end();
    });
  }

  std::string child_name(const std::string& name, const Module& child) {
    const int position = position_;
    // In other frameworks, an activation in a layer is a separate layer after it.
    position_ += child.has_activation() ? 2 : 1;
    if (module_->kind() != "sequential") return name;
    if (naming_.convention == Convention::kPyTorch) return fmt::format("{}", position);
    const std::string_view kind = child.kind();
    if (naming_.convention == Convention::kIsochron || !name.starts_with(kind)) return name;
    layer_name_ = next_name(layer_name(naming_.convention, kind));
    const std::string_view wrapper = wrapper_name(naming_.convention, child);
    return wrapper.empty() ? layer_name_ : next_name(wrapper);
  }
  /// Several of our kinds may have the same name in the file.
  std::string next_name(std::string_view theirs) {
    const int number = counts_[std::string(theirs)]++;
    return number == 0 ? std::string(theirs) : fmt::format("{}_{}", theirs, number);
  }
  void visit_child(const std::string& name, Module& child) {
    const size_t length = path_.size();
    const size_t file_length = file_path_.size();
    path_ += fmt::format("{}/", name);
    layer_name_ = child.kind();
    file_path_ += child_name(name, child) + (naming_.convention == Convention::kPyTorch ? '.' : '/');
    visit(child);
    path_.resize(length);
    file_path_.resize(file_length);
  }

  const WeightNaming& naming_;
  Slots slots_;
  std::set<std::string> claimed_;  // our paths that have a slot
  std::string path_;               // of the module being visited, here
  std::string file_path_;          // and in the file, before renaming
  std::string layer_name_;         // of that module, as a Sequential numbers it
  Module* module_ = nullptr;
  int position_ = 0;                   // of its next child
  std::map<std::string, int> counts_;  // of its children so far, by the names of their kinds in the file
};

Slots slots_of(Module& module, const WeightNaming& naming, std::string_view where) {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, where,
          "weights can't be saved or loaded in a capture; do it between steps");
  Slots slots = SlotCollector(naming).collect(module);
  require(!slots.list.empty(), ErrorCode::kInvalidArgument, where,
          "the model has no parameters yet; call it once, or build(spec of its input)");
  std::set<std::string_view> names;
  for (const Slot& slot : slots.list) {
    for (const std::string& name : slot.names) {
      require(names.insert(name).second, ErrorCode::kInvalidArgument, where,
              "two tensors of the model have the name '{}' in the file; see WeightNaming::rename", name);
    }
  }
  return slots;
}

bool convertible(DType from, DType to) { return from == to || (is_floating(from) && is_floating(to)); }

/// Compares what the file has with what the model needs; whether `slot` can be loaded.
bool check_slot(const Slot& slot, const SafetensorsFile& file, LoadReport& report) {
  const std::vector<Tensor> wanted = slot.theirs();
  bool fits = true;
  for (size_t i = 0; i < slot.names.size(); ++i) {
    const SafetensorsEntry* entry = file.find(slot.names[i]);
    const TensorSpec& spec = wanted[i].spec();
    if (entry == nullptr) {
      if (!slot.rule.optional) report.missing.push_back(slot.names[i]);
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
       "the file doesn't match the model, so nothing was loaded:{}\n  see LoadOptions (naming, strict, "
       "skip_mismatched)",
       report.str());
}

std::vector<Tensor> read_slot(const Slot& slot, const SafetensorsFile& file) {
  const DType dtype = slot.variables[0].dtype();
  std::vector<Tensor> theirs;
  for (const std::string& name : slot.names) {
    const Tensor tensor = file.read(name);
    theirs.push_back(tensor.dtype() == dtype ? tensor : cast(tensor, dtype));
  }
  return slot.rule.to_ours(*slot.layer, theirs);
}

}  // namespace

std::string LoadReport::str() const {
  return listed("missing in the file", missing) + listed("unexpected in the file", unexpected) +
         listed("mismatched", mismatched);
}

void save_weights(Module& module, const std::filesystem::path& path, const SaveOptions& options) {
  const Slots slots = slots_of(module, options.naming, "save_weights");
  std::vector<SafetensorsSource> sources;
  for (const Slot& slot : slots.list) {
    const auto theirs = [&slot] { return slot.theirs(); };
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
  std::vector<std::pair<Variable, Tensor>> contents;
  for (const Slot* slot : fitting) {
    const std::vector<Tensor> ours = read_slot(*slot, file);
    for (size_t i = 0; i < ours.size(); ++i) contents.emplace_back(slot->variables[i], ours[i]);
  }
  for (const auto& [variable, content] : contents) variable.assign(content);
  report.loaded = contents.size();
  return report;
}

}  // namespace isochron::nn
