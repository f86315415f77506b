#include "isochron/nn/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "isochron/core/base/checked.h"
#include "isochron/core/files/written_files.h"
#include "isochron/core/telemetry/weight_bytes.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;

constexpr std::string_view kDtypeNames[kDTypeCount] = {"F64", "F32", "F16", "BF16",
                                                       "I64", "I32", "U8",  "BOOL"};
/// Dtypes of the format that tensors here don't support.
constexpr std::string_view kForeignDtypes[] = {"I8",      "U16",     "I16",         "U32",        "U64",
                                               "C64",     "F4",      "F6_E2M3",     "F6_E3M2",    "F8_E5M2",
                                               "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

/// Counts characters as the parser reads them, so that its errors have a position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** last) : at_(at), last_(last) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *last_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char** last_;
};

/// Takes the header's parts as the parser finds them, and rejects invalid ones at once. No document is built,
/// so neither the nesting nor the sizes of a hostile header cost anything.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view json, std::string where) : json_(json), where_(std::move(where)) {}

  struct Entry : SafetensorsEntry {
    uint64_t end = 0;
  };

  void read() {
    position_ = json_.data();
    // An exception of the library's would hide the position, so errors come through parse_error.
    nlohmann::json::sax_parse(CountingIterator(json_.data(), &position_),
                              CountingIterator(json_.data() + json_.size(), &position_), this);
  }
  std::vector<Entry> entries;
  SafetensorsMetadata metadata;

  bool start_object(size_t) override {
    switch (state_) {
      case State::kBegin:
        state_ = State::kNames;
        return true;
      case State::kName:
        state_ = name_ == kMetadataKey ? State::kMetadata : State::kEntry;
        if (state_ == State::kEntry) entries.push_back({{name_, {}, 0}, 0});
        seen_ = {};
        return true;
      default:
        refuse("an object");
    }
  }
  bool end_object() override {
    if (state_ == State::kEntry) {
      if (!(seen_ == std::array{true, true, true})) refuse_text("lacks dtype, shape or data_offsets");
    }
    state_ = state_ == State::kNames ? State::kEnd : State::kNames;
    return true;
  }
  bool key(std::string& text) override {
    if (state_ == State::kNames) {
      name_ = text;
      if (!names_.insert(text).second) refuse_text("appears twice");
      state_ = State::kName;
    } else if (state_ == State::kMetadata) {
      metadata_key_ = text;
      if (metadata.contains(text)) refuse_text("has a key twice");
      state_ = State::kMetadataValue;
    } else {
      entry_key(text);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (state_ == State::kMetadataValue) {
      metadata[metadata_key_] = text;
      state_ = State::kMetadata;
      return true;
    }
    if (state_ != State::kDtype) refuse("a text");
    state_ = State::kEntry;
    const auto ours = std::find(std::begin(kDtypeNames), std::end(kDtypeNames), text);
    if (ours != std::end(kDtypeNames)) {
      entries.back().spec.dtype = static_cast<DType>(ours - std::begin(kDtypeNames));
      return true;
    }
    const bool known =
        std::find(std::begin(kForeignDtypes), std::end(kForeignDtypes), text) != std::end(kForeignDtypes);
    fail(known ? ErrorCode::kUnsupported : ErrorCode::kBadFormat, where_,
         "byte {}, entry '{}': dtype '{}' is not supported; expected one of {}: convert the file", offset(),
         shown(name_), shown(text), fmt::join(kDtypeNames, " "));
  }
  bool start_array(size_t) override {
    if (state_ == State::kShape) {
      state_ = State::kExtents;
    } else if (state_ == State::kOffsets) {
      state_ = State::kOffsetList;
    } else {
      refuse("a list");
    }
    return true;
  }
  bool end_array() override {
    if (state_ == State::kOffsetList && offset_count_ != 2) refuse_text("needs two data_offsets");
    state_ = State::kEntry;
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    Entry* entry = entries.empty() ? nullptr : &entries.back();
    if (state_ == State::kExtents) {
      if (entry->spec.shape.rank() == kMaxRank) refuse_text("has more axes than 8");
      if (number > static_cast<uint64_t>(INT64_MAX)) refuse_text("has an extent beyond 64 bits");
      entry->spec.shape.push_back(static_cast<int64_t>(number));
      return true;
    }
    if (state_ != State::kOffsetList) refuse("a number");
    if (offset_count_ == 2) refuse_text("needs two data_offsets");
    (offset_count_++ == 0 ? entry->begin : entry->end) = number;
    return true;
  }
  bool number_integer(int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a number that is not a count"); }
  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { refuse("bytes"); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    refuse_text("is not followed by valid JSON ({}); is this a safetensors file?", shown(error.what()));
  }

 private:
  enum class State {
    kBegin,
    kNames,          // before a name or the end
    kName,           // a name was read
    kMetadata,       // before a key or the end
    kMetadataValue,  // a key was read
    kEntry,          // before a key or the end
    kDtype,
    kShape,
    kExtents,
    kOffsets,
    kOffsetList,
    kEnd,
  };

  void entry_key(const std::string& text) {
    constexpr std::array<std::string_view, 3> kKeys = {"dtype", "shape", "data_offsets"};
    constexpr std::array kNext = {State::kDtype, State::kShape, State::kOffsets};
    const size_t index = static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), text) - kKeys.begin());
    if (index == kKeys.size() || seen_[index]) {
      refuse_text("has the unexpected or repeated key '{}'; expected dtype, shape and data_offsets",
                  shown(text));
    }
    seen_[index] = true;
    state_ = kNext[index];
    offset_count_ = 0;
  }
  uint64_t offset() const { return kLengthBytes + static_cast<uint64_t>(position_ - json_.data()); }
  /// The beginning of a text from the file, to quote in an error.
  static std::string shown(std::string_view text) {
    constexpr size_t kShown = 100;
    return std::string(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
  }
  template <typename... Args>
  [[noreturn]] void refuse_text(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadFormat, where_, "byte {}, entry '{}': {}", offset(), shown(name_),
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    refuse_text("unexpected {} in the header; expected names with dtype, shape and data_offsets", what);
  }

  std::string_view json_;
  std::string where_;
  const char* position_ = nullptr;
  State state_ = State::kBegin;
  std::string name_;
  std::string metadata_key_;
  std::set<std::string> names_;
  std::array<bool, 3> seen_ = {};
  int offset_count_ = 0;
};

/// Checks that the entries, sorted by place, cover [0, data_bytes) once and fit their specs.
void check_coverage(const std::vector<HeaderReader::Entry>& entries, uint64_t data_bytes, uint64_t data_begin,
                    const std::string& where) {
  uint64_t expected_begin = 0;
  for (const HeaderReader::Entry& entry : entries) {
    const auto refuse = [&](const std::string& text) {
      fail(ErrorCode::kBadFormat, where, "byte {}, entry '{}': {}",
           data_begin + std::min(entry.begin, data_bytes), entry.name.substr(0, 100), text);
    };
    if (entry.end < entry.begin || entry.end > data_bytes) {
      refuse(fmt::format("data_offsets [{}, {}) lie outside the {} bytes of data; is the file truncated?",
                         entry.begin, entry.end, data_bytes));
    }
    if (entry.begin != expected_begin) {
      refuse(
          fmt::format("data_offsets begin at {}, expected {}: tensors must neither overlap nor leave holes",
                      entry.begin, expected_begin));
    }
    std::optional<size_t> bytes;
    try {
      bytes = entry.spec.size_bytes();
      static_cast<void>(contiguous_strides(entry.spec.shape));
    } catch (const Error&) {
      refuse(fmt::format("the shape {} is too large for any memory", entry.spec.shape.str()));
    }
    if (*bytes != entry.end - entry.begin) {
      refuse(fmt::format("{} takes {} bytes, data_offsets [{}, {}) have {}", entry.spec.str(), *bytes,
                         entry.begin, entry.end, entry.end - entry.begin));
    }
    expected_begin = entry.end;
  }
  require(expected_begin == data_bytes, ErrorCode::kBadFormat, where,
          "byte {}: {} bytes follow the last tensor", checked_add(data_begin, expected_begin),
          data_bytes - expected_begin);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where) {
  require(json.starts_with('{'), ErrorCode::kBadFormat, where,
          "byte {}: expected the header's '{{'; is this a safetensors file?", kLengthBytes);
  const size_t zero = json.find('\0');  // the parser would take it for the end
  require(zero == std::string_view::npos, ErrorCode::kBadFormat, where, "byte {}: a NUL in the header",
          kLengthBytes + zero);
  HeaderReader reader(json, where);
  reader.read();
  auto& entries = reader.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_coverage(entries, data_bytes, kLengthBytes + json.size(), where);
  SafetensorsHeader header;
  header.metadata = std::move(reader.metadata);
  for (HeaderReader::Entry& entry : entries) header.entries.push_back(std::move(entry));
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(std::make_unique<InputFile>(path)) {
  const std::string where = path.string();
  const uint64_t size = file_->size_bytes();
  require(size >= kLengthBytes, ErrorCode::kBadFormat, where,
          "byte 0: expected 8 bytes of header length, got {}; is the file truncated?", size);
  uint64_t header_bytes = 0;
  file_->read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  require(header_bytes <= kMaxSafetensorsHeaderBytes, ErrorCode::kBadFormat, where,
          "byte 0: the header claims {} bytes, at most {} are read; is this a safetensors file?",
          header_bytes, kMaxSafetensorsHeaderBytes);
  require(header_bytes <= size - kLengthBytes, ErrorCode::kBadFormat, where,
          "byte 8: expected {} bytes of header, got {}; is the file truncated?", header_bytes,
          size - kLengthBytes);
  std::string json(static_cast<size_t>(header_bytes), '\0');
  file_->read_at(kLengthBytes, std::as_writable_bytes(std::span(json)));
  data_begin_ = kLengthBytes + header_bytes;
  header_ = parse_safetensors_header(json, size - data_begin_, where);
  for (size_t i = 0; i < header_.entries.size(); ++i) index_[header_.entries[i].name] = i;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  require(entry != nullptr, ErrorCode::kOutOfRange, file_->path().string(),
          "there is no tensor '{}' among {}; entries() lists them", name, header_.entries.size());
  const Tensor tensor = empty(entry->spec, "safetensors");
  const std::span<std::byte> bytes(tensor.raw(), tensor.size_bytes());
  file_->read_at(data_begin_ + entry->begin, bytes);
  if (entry->spec.dtype == DType::kBool) {  // bytes other than 0 and 1 become 1
    for (std::byte& byte : bytes) byte = std::byte{byte != std::byte{0}};
  }
  return tensor;
}

namespace {

using Sources = std::span<const SafetensorsSource>;

/// The positions of `sources` in the file: larger elements first, else as given.
std::vector<size_t> file_order(Sources sources) {
  std::vector<size_t> order(sources.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return dtype_size(sources[a].spec.dtype) > dtype_size(sources[b].spec.dtype);
  });
  return order;
}

std::string format_header(Sources sources, std::span<const size_t> order,
                          const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  uint64_t begin = 0;
  for (const size_t i : order) {
    const auto& [name, spec, make] = sources[i];
    const uint64_t end = checked_add<uint64_t>(begin, spec.size_bytes());
    const auto extents = spec.shape.span();
    header[name] = {{"dtype", kDtypeNames[static_cast<int>(spec.dtype)]},
                    {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "write_safetensors", "names and metadata must be UTF-8");
  }
  text.append(align_up<size_t>(text.size(), 8) - text.size(), ' ');  // so that the tensors are aligned
  require(text.size() <= kMaxSafetensorsHeaderBytes, ErrorCode::kInvalidArgument, "write_safetensors",
          "the header takes {} bytes, more than the format's {}; write several files", text.size(),
          kMaxSafetensorsHeaderBytes);
  return text;
}

std::string_view text_of(const void* bytes, size_t size) { return {static_cast<const char*>(bytes), size}; }

void append_tensor(const SafetensorsSource& source, const AppendFunction& append) {
  const Tensor made = source.make();
  require(made.defined() && made.spec() == source.spec, ErrorCode::kInvalidArgument, "write_safetensors",
          "tensor '{}' is {}, announced as {}", source.name, made.defined() ? made.spec().str() : "undefined",
          source.spec.str());
  if (made.elems() == 0) return;
  const Tensor tensor = to_device(made, {});  // throws for a value of a graph or replaced content
  constexpr size_t kPiece = 1 << 20;  // counted one by one, so that a step sees that they are being written
  for (size_t begin = 0; begin < tensor.size_bytes(); begin += kPiece) {
    const size_t bytes = std::min(kPiece, tensor.size_bytes() - begin);
    append(text_of(static_cast<const std::byte*>(tensor.raw()) + begin, bytes));
    count_weight_bytes(static_cast<int64_t>(bytes));
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, Sources sources,
                       const SafetensorsMetadata& metadata, const std::filesystem::path& temporary_folder) {
  std::set<std::string_view> names;
  for (const SafetensorsSource& source : sources) {
    require(source.name != kMetadataKey && names.insert(source.name).second, ErrorCode::kInvalidArgument,
            "write_safetensors", "the name '{}' is reserved or appears twice", source.name);
  }
  const graph::EagerScope eager;
  const std::vector<size_t> order = file_order(sources);
  const std::string header = format_header(sources, order, metadata);
  const auto content = [&](const AppendFunction& append) {
    const uint64_t header_bytes = header.size();
    append(text_of(&header_bytes, sizeof header_bytes));
    append(header);
    for (const size_t i : order) append_tensor(sources[i], append);
  };
  write_file_atomically(path, content, temporary_folder);
  count_weight_bytes(static_cast<int64_t>(sizeof(uint64_t) + header.size()));
  note_written_file(FileKind::kWeights, path);
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsSource> sources;
  for (const auto& [name, tensor] : tensors) {
    require(tensor.defined(), ErrorCode::kInvalidArgument, "write_safetensors", "tensor '{}' is undefined",
            name);
    sources.push_back({name, tensor.spec(), [&held = tensor] { return held; }});
  }
  write_safetensors(path, sources, metadata);
}

}  // namespace isochron::nn
