#include "isochron/data/sources/files.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/element/source.h"
#include "isochron/data/formats/npy.h"

namespace isochron::data {
namespace {

/// Files of records, one after the other. A Format says what a record is:
///   Format::Reader            the open file; made of (path, options)
///   next(reader, path, buffer)  writes the next record; false at the file's end
///   save(state, reader)       saves the reader's position
///   restore(state, reader)    restores it
///   add_to(print)             adds the options that change the records
template <typename Format>
class FileSource final : public StreamSource {
 public:
  FileSource(Paths files, Layout layout, Format format)
      : files_(std::move(files)), layouts_{std::move(layout)}, format_(std::move(format)) {
    require(!files_.empty(), ErrorCode::kInvalidArgument, "dataset", "the list of files is empty");
  }
  const std::vector<Layout>& layouts() const override { return layouts_; }
  int64_t size() const override { return kUnknown; }
  uint64_t fingerprint() const override {
    Fingerprint print;
    for (const auto& file : files_) print.add(file.filename().string());
    format_.add_to(print);
    return print.value();
  }
  std::unique_ptr<ElementStream> open() const override { return std::make_unique<Stream>(files_, format_); }

 private:
  class Stream final : public ElementStream {
   public:
    Stream(const Paths& files, const Format& format) : files_(files), format_(format) {}
    void restart(uint64_t) override {
      reader_.reset();
      at_ = 0;
    }
    bool next(ElementBuffer& buffer) override {
      for (; at_ < files_.size(); ++at_) {
        if (!reader_) reader_ = format_.open(files_[at_]);
        if (format_.next(*reader_, files_[at_], buffer)) return true;
        reader_.reset();
      }
      return false;
    }
    void save(StateWriter& state) const override {
      state.put(static_cast<uint64_t>(at_));
      state.put(static_cast<uint64_t>(reader_ != nullptr));
      if (reader_) Format::save(state, *reader_);
    }
    void restore(StateReader& state) override {
      at_ = static_cast<size_t>(state.get_between(0, static_cast<int64_t>(files_.size()), "a file's number"));
      reader_.reset();
      if (state.get_between(0, 1, "0 or 1") == 0) return;
      if (at_ == files_.size()) state.refuse("a file's number");
      reader_ = format_.open(files_[at_]);
      Format::restore(state, *reader_);
    }

   private:
    const Paths& files_;
    Format format_;
    std::unique_ptr<typename Format::Reader> reader_;
    size_t at_ = 0;
  };

  Paths files_;
  std::vector<Layout> layouts_;
  Format format_;
};

template <typename Format>
Dataset over_files(Paths files, Layout layout, Format format) {
  return Dataset(
      std::make_shared<FileSource<Format>>(std::move(files), std::move(layout), std::move(format)));
}

void put_bytes(ElementBuffer& buffer, int index, std::span<const std::byte> bytes) {
  std::byte* to = buffer.room(index, {static_cast<int64_t>(bytes.size())});
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

struct RecordFormat {
  using Reader = RecordReader;
  RecordReaderOptions options;
  std::vector<std::byte> record = {};
  size_t parsed_bytes = 0;                       // memory that a parser keeps
  std::unique_ptr<ReadMemory> memory = nullptr;  // of `record`; not shared by copies

  RecordFormat(RecordReaderOptions read) : options(std::move(read)) {}
  RecordFormat(const RecordFormat& other) : options(other.options) {}
  RecordFormat& operator=(const RecordFormat&) = delete;

  std::unique_ptr<Reader> open(const std::filesystem::path& path) {
    memory.reset();
    memory = std::make_unique<ReadMemory>(path.native());
    memory->hold(record.capacity() + parsed_bytes);
    RecordReaderOptions with_memory = options;
    with_memory.before_growth = [this, asked = options.before_growth](size_t bytes) {
      if (asked) asked(bytes);
      memory->hold(bytes + parsed_bytes);
    };
    return std::make_unique<Reader>(path, with_memory);
  }
  bool next(Reader& reader, const std::filesystem::path&, ElementBuffer& buffer) {
    if (!reader.next(record)) return false;
    put_bytes(buffer, 0, record);
    return true;
  }
  static void save(StateWriter& state, const Reader& reader) { state.put(reader.position()); }
  static void restore(StateReader& state, Reader& reader) { reader.seek(state.get()); }
  void add_to(Fingerprint&) const {}
};

/// Records that are parsed as examples.
struct ExampleFormat : RecordFormat {
  std::shared_ptr<const std::vector<FeatureSpec>> features;
  std::shared_ptr<ExampleParser> parser = nullptr;  // of one stream
  size_t most_entry_bytes = 0;                      // of a record so far

  bool next(Reader& reader, const std::filesystem::path& path, ElementBuffer& buffer) {
    const uint64_t offset = reader.position();
    if (!reader.next(record)) return false;
    if (!parser || parser.use_count() > 1) {
      parser = std::make_shared<ExampleParser>(*features);
      parsed_bytes = most_entry_bytes = 0;
    }
    most_entry_bytes = std::max(most_entry_bytes, ExampleParser::most_bytes(record));
    hold_parsed();
    parser->parse(record, {path.native(), offset});
    hold_parsed();
    for (size_t i = 0; i < features->size(); ++i) write(i, buffer);
    return true;
  }
  void hold_parsed() {
    parsed_bytes = most_entry_bytes + parser->int_bytes();
    memory->hold(record.capacity() + parsed_bytes);
  }
  void add_to(Fingerprint& print) const {
    for (const FeatureSpec& feature : *features) {
      print.add(feature.name).add(static_cast<int64_t>(feature.kind));
      print.add(static_cast<int64_t>(feature.missing.has_value()));
      print.add(std::bit_cast<uint64_t>(feature.missing.value_or(0)));
    }
  }
  void write(size_t i, ElementBuffer& buffer) {
    const FeatureSpec& feature = (*features)[i];
    const int at = static_cast<int>(i);
    if (feature.shape) {
      const TensorSpec spec = parser->tensor_spec(i);
      parser->copy(i, {buffer.room(at, spec.shape), spec.size_bytes()});
    } else if (feature.kind == FeatureKind::kInt64) {
      put_bytes_of(buffer, at, parser->ints(i));
    } else if (feature.kind == FeatureKind::kFloat) {
      put_bytes_of(buffer, at, parser->floats(i));
    } else {
      require(parser->strings(i) == 1, ErrorCode::kBadFormat, "from_examples",
              "feature '{}' has {} strings, expected one; parse the records in a map of your own",
              feature.name, parser->strings(i));
      const std::string_view text = parser->string(i, 0);
      put_bytes(buffer, at, std::as_bytes(std::span(text.data(), text.size())));
    }
  }
  template <typename T>
  static void put_bytes_of(ElementBuffer& buffer, int at, std::span<const T> values) {
    std::byte* to = buffer.room(at, {static_cast<int64_t>(values.size())});
    if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
  }
};

struct LineFormat {
  using Reader = TextLineReader;
  TextLineOptions options;
  std::string line = {};

  std::unique_ptr<Reader> open(const std::filesystem::path& path) const {
    return std::make_unique<Reader>(path, options);
  }
  bool next(Reader& reader, const std::filesystem::path&, ElementBuffer& buffer) {
    if (!reader.next(line)) return false;
    put_bytes(buffer, 0, std::as_bytes(std::span(line.data(), line.size())));
    return true;
  }
  static void save(StateWriter& state, const Reader& reader) {
    state.put(reader.position().offset);
    state.put(reader.position().lines);
  }
  static void restore(StateReader& state, Reader& reader) {
    const uint64_t offset = state.get();
    reader.seek({offset, state.get_between(0, INT64_MAX, "a number of lines")});
  }
  void add_to(Fingerprint&) const {}
};

struct CsvFormat {
  using Reader = CsvReader;
  CsvOptions options;
  size_t columns;
  std::vector<std::string> names;  // of the first file; empty without a header
  std::vector<double> row = {};

  std::unique_ptr<Reader> open(const std::filesystem::path& path) const {
    auto reader = std::make_unique<Reader>(path, options);
    require(reader->columns() == columns, ErrorCode::kBadFormat, path.string(),
            "has {} columns, the first file has {}", reader->columns(), columns);
    require(reader->names() == names, ErrorCode::kBadFormat, path.string(),
            "has the columns {}, the first file has {}; name those to read in CsvOptions::columns",
            fmt::join(reader->names(), ", "), fmt::join(names, ", "));
    return reader;
  }
  bool next(Reader& reader, const std::filesystem::path&, ElementBuffer& buffer) {
    std::byte* const to = buffer.room(0);
    if (options.dtype == DType::kF64) return reader.next({reinterpret_cast<double*>(to), columns});
    row.resize(columns);
    if (!reader.next(row)) return false;
    std::ranges::transform(row, reinterpret_cast<float*>(to), [](double x) { return static_cast<float>(x); });
    return true;
  }
  static void save(StateWriter& state, const Reader& reader) {
    const CsvPosition position = reader.position();
    state.put(position.offset);
    state.put(position.line);
    state.put(position.blank_rows);
  }
  static void restore(StateReader& state, Reader& reader) {
    CsvPosition position;
    position.offset = state.get();
    position.line = state.get_between(1, INT64_MAX, "a line");
    position.blank_rows = state.get_between(0, INT64_MAX, "a number of lines");
    reader.seek(position);
  }
  void add_to(Fingerprint& print) const {
    print.add(static_cast<int64_t>(options.header)).add(static_cast<int64_t>(options.separator));
    print.add(static_cast<int64_t>(options.missing));
    if (options.unknown_categories) print.add("unknown");
    for (const std::string& column : options.columns) print.add(column);
    for (const std::string& text : options.missing_texts) print.add("missing").add(text);
    for (const auto& [column, texts] : options.categories) {
      print.add(column).add(static_cast<int64_t>(texts.size()));
      for (const std::string& text : texts) print.add(text);
    }
  }
};

class TokenRows final : public RowSource {
 public:
  TokenRows(const std::filesystem::path& file, const TokenFileOptions& options)
      : file_(file, options),
        layout_{{"tokens"}, {file_.row_spec()}},
        row_bytes_(file_.row_spec().size_bytes()),
        fingerprint_(Fingerprint()
                         .add(file.filename().string())
                         .add(static_cast<int64_t>(options.type))
                         .add(options.stride)
                         .add(options.header_bytes)
                         .value()) {}
  const Layout& layout() const override { return layout_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t rows() const override { return file_.rows(); }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    file_.read(position.row, {into[0], row_bytes_});
  }

 private:
  TokenFile file_;
  Layout layout_;
  size_t row_bytes_;
  uint64_t fingerprint_;
};

class ImageRows final : public RowSource {
 public:
  ImageRows(const std::filesystem::path& folder, const ImageFolderOptions& options)
      : folder_(folder, options),
        layout_{{"image", "label"}, {folder_.row_spec(), {DType::kI64, {}}}},
        image_bytes_(folder_.row_spec().size_bytes()) {
    Fingerprint print;
    print.add("images").add(static_cast<uint64_t>(options.resize.antialias));
    for (const std::string& name : folder_.classes()) print.add(name);
    for (int64_t row = 0; row < folder_.rows(); ++row)
      print.add(folder_.file(row).filename().string()).add(folder_.label(row));
    fingerprint_ = print.value();
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return folder_.rows(); }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    folder_.read(position.row, {into[0], image_bytes_});
    const int64_t label = folder_.label(position.row);
    std::memcpy(into[1], &label, sizeof(label));
  }

 private:
  ImageFolder folder_;
  Layout layout_;
  size_t image_bytes_;
  uint64_t fingerprint_ = 0;
};

class NpyRows final : public RowSource {
 public:
  explicit NpyRows(const std::vector<std::pair<std::string, std::filesystem::path>>& files) {
    require(!files.empty(), ErrorCode::kInvalidArgument, "from_npy", "the list of files is empty");
    Fingerprint print;
    print.add("npy");
    for (const auto& [name, path] : files) {
      print.add(name).add(path.filename().string());
      const NpyFile& array = *arrays_.emplace_back(std::make_unique<NpyFile>(path));
      const Shape& shape = array.spec().shape;
      require(shape.rank() >= 1, ErrorCode::kBadFormat, path.string(),
              "contains a scalar, which has no rows");
      if (arrays_.size() == 1) rows_ = shape[0];
      require(shape[0] == rows_, ErrorCode::kShapeMismatch, path.string(),
              "has {} rows, the first file has {}", shape[0], rows_);
      layout_.names.push_back(name);
      layout_.specs.push_back({array.spec().dtype, Shape(shape.span().subspan(1))});
    }
    fingerprint_ = print.value();
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return rows_; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    for (size_t i = 0; i < into.size(); ++i) {
      const TensorSpec& spec = layout_.specs[i];
      const size_t bytes = spec.size_bytes();
      if (bytes == 0) continue;
      arrays_[i]->read_at(static_cast<uint64_t>(position.row) * bytes, {into[i], bytes});
      if (spec.dtype != DType::kBool) continue;
      for (std::byte& byte : std::span(into[i], bytes)) byte = std::byte{byte != std::byte{0}};
    }
  }

 private:
  std::vector<std::unique_ptr<NpyFile>> arrays_;
  Layout layout_;
  int64_t rows_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace

Dataset from_records(Paths files, const RecordReaderOptions& options) {
  return over_files(std::move(files), {{"record"}, {spec_of(DType::kU8, {kAnyExtent})}},
                    RecordFormat{options});
}

Dataset from_examples(Paths files, const std::vector<FeatureSpec>& features,
                      const RecordReaderOptions& options) {
  const ExampleParser parser(features);  // refuses what doesn't fit
  Layout layout;
  for (size_t i = 0; i < features.size(); ++i) {
    layout.names.push_back(features[i].name);
    constexpr DType kDTypes[] = {DType::kU8, DType::kI64, DType::kF32};  // by FeatureKind
    layout.specs.push_back(features[i].shape
                               ? parser.tensor_spec(i)
                               : spec_of(kDTypes[static_cast<int>(features[i].kind)], {kAnyExtent}));
  }
  ExampleFormat format{{options}, std::make_shared<const std::vector<FeatureSpec>>(features)};
  return over_files(std::move(files), std::move(layout), std::move(format));
}

Dataset from_text_lines(Paths files, const TextLineOptions& options) {
  return over_files(std::move(files), {{"line"}, {spec_of(DType::kU8, {kAnyExtent})}}, LineFormat{options});
}

Dataset from_csv(Paths files, const CsvOptions& options) {
  require(!files.empty(), ErrorCode::kInvalidArgument, "from_csv", "the list of files is empty");
  const CsvReader first(files[0], options);
  const size_t columns = first.columns();
  CsvFormat format{options, columns, first.names()};
  return over_files(std::move(files), {{"row"}, {{options.dtype, {static_cast<int64_t>(columns)}}}},
                    std::move(format));
}

Dataset from_tokens(const std::filesystem::path& file, const TokenFileOptions& options) {
  return Dataset(std::make_shared<TokenRows>(file, options));
}

Dataset from_images(const std::filesystem::path& folder, const ImageFolderOptions& options) {
  return Dataset(std::make_shared<ImageRows>(folder, options));
}

Dataset from_npy(const std::vector<std::pair<std::string, std::filesystem::path>>& files) {
  return Dataset(std::make_shared<NpyRows>(files));
}

}  // namespace isochron::data
