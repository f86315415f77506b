#include "isochron/memory/planner/plan_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ostream>
#include <span>
#include <unordered_map>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/text/encoding.h"

namespace isochron {
namespace {

enum Column { kId, kLower, kUpper, kSize, kColumns };
constexpr std::array<std::string_view, kColumns> kColumnNames = {"id", "lower", "upper", "size"};
constexpr size_t kLargestFileBytes = size_t{1} << 28;  // ten million buffers
constexpr size_t kShownChars = 40;

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::string_view text) : path_(path.string()), text_(text) {}

  BufferTable read() {
    require(next_row(), ErrorCode::kBadFormat, path_, "is empty; expected a header id,lower,upper,size");
    read_header();
    BufferTable table;
    std::unordered_map<std::string_view, int64_t> lines;
    while (next_row()) {
      if (fields_.size() != width_) reject("has {} fields, the header has {}", fields_.size(), width_);
      const std::string_view id = fields_[columns_[kId]];
      if (id.empty()) reject("has no id");
      const auto [earlier, is_new] = lines.emplace(id, line_);
      if (!is_new) reject("repeats the id '{}' of line {}", shown(id), earlier->second);
      const int64_t lower = number(kLower), upper = number(kUpper), size = number(kSize);
      if (lower >= upper) reject("has lower {} and upper {}; expected lower < upper", lower, upper);
      table.ids.emplace_back(id);
      table.requests.push_back({lower, upper, static_cast<size_t>(size)});
    }
    return table;
  }

 private:
  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadFormat, path_, "line {} {}", line_, fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string_view shown(std::string_view field) { return field.substr(0, kShownChars); }

  /// Splits the next line that has content into fields; false at the end.
  bool next_row() {
    while (position_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', position_), text_.size());
      std::string_view line = trimmed(text_.substr(position_, end - position_));
      position_ = end + 1;
      ++line_;
      if (line.empty() || line.front() == '#') continue;
      fields_.clear();
      for (;;) {
        const size_t comma = line.find(',');
        fields_.push_back(trimmed(line.substr(0, comma)));
        if (comma == std::string_view::npos) return true;
        line.remove_prefix(comma + 1);
      }
    }
    return false;
  }

  void read_header() {
    width_ = fields_.size();
    for (int column = 0; column < kColumns; ++column) {
      std::optional<size_t> found;
      for (size_t i = 0; i < width_; ++i) {
        if (fields_[i] != kColumnNames[column]) continue;
        if (found) reject("names the column '{}' twice", kColumnNames[column]);
        found = i;
      }
      if (!found)
        reject("lacks the column '{}'; expected a header id,lower,upper,size", kColumnNames[column]);
      columns_[column] = *found;
    }
  }

  int64_t number(Column column) const {
    const std::string_view field = fields_[columns_[column]];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error == std::errc::result_out_of_range) {
      reject("has {} '{}', which does not fit 63 bits", kColumnNames[column], shown(field));
    }
    if (error != std::errc() || end != field.data() + field.size() || value < 0) {
      reject("has {} '{}'; expected a whole number >= 0", kColumnNames[column], shown(field));
    }
    return value;
  }

  const std::string path_;
  const std::string_view text_;
  size_t position_ = 0;
  int64_t line_ = 0;
  size_t width_ = 0;
  std::array<size_t, kColumns> columns_{};
  std::vector<std::string_view> fields_;
};

}  // namespace

BufferTable read_buffers_csv(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path, kLargestFileBytes);
  refuse_wide_text(std::span(bytes).first(std::min<size_t>(bytes.size(), 1 << 16)), path.string());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return Reader(path, without_byte_order_mark(text)).read();
}

void write_plan_csv(std::ostream& out, const BufferTable& table, const MemoryPlan& plan) {
  out << "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < table.ids.size(); ++i) {
    const BufferRequest& request = table.requests[i];
    out << fmt::format("{},{},{},{},{}\n", table.ids[i], request.lower, request.upper, request.size_bytes,
                       plan.offsets[i]);
  }
}

std::string describe_plan(std::span<const BufferRequest> requests, const MemoryPlan& plan,
                          std::span<const std::string> ids) {
  constexpr size_t kShownOwners = 8;
  std::string text = fmt::format(
      "buffers          {}\narena            {} bytes\nlower bound      {} bytes\nratio            {:.4f}\n"
      "without sharing  {} bytes\nalignment waste  {} bytes\nfound by         {}\npeak at time     {}\n",
      requests.size(), plan.arena_bytes, plan.lower_bound_bytes, plan.ratio(), plan.total_bytes,
      plan.alignment_waste_bytes, plan.method, plan.peak_time);
  const std::vector<size_t> owners = owners_at(requests, plan.peak_time);
  for (size_t i = 0; i < owners.size() && i < kShownOwners; ++i) {
    text += fmt::format("  {:<14} {} bytes\n", ids.empty() ? fmt::format("#{}", owners[i]) : ids[owners[i]],
                        requests[owners[i]].size_bytes);
  }
  if (owners.size() > kShownOwners) text += fmt::format("  and {} more\n", owners.size() - kShownOwners);
  return text;
}

}  // namespace isochron
