// Parsers of data files.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/record_file.h"
#include "isochron/data/formats/csv.h"
#include "isochron/data/formats/example.h"
#include "isochron/data/formats/npy.h"
#include "isochron/data/formats/text.h"
#include "isochron/data/formats/text_lines.h"
#include "isochron/data/formats/token_file.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/sources/cifar.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/data/sources/idx.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/temp_folder.h"

namespace isochron::fuzz {
namespace {

constexpr size_t kLimit = size_t{1} << 26;

/// Takes a byte from the front of the input to choose a mode.
uint8_t take_choice(Input& input) {
  if (input.empty()) return 0;
  const auto choice = std::to_integer<uint8_t>(input[0]);
  input = input.subspan(1);
  return choice;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && (a.elems() == 0 || std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0);
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void parse_npy(Input input) {
  const Tensor tensor = data::parse_npy(input, "input");
  const std::string text = data::format_npy(tensor);
  demand(same_bytes(tensor, data::parse_npy(std::as_bytes(std::span(text)), "output")),
         "npy: written otherwise");
}

void parse_npz(Input input) { data::parse_npz(input, "input"); }

data::CsvOptions csv_options(Input& input) {
  const uint8_t choice = take_choice(input);
  return {.header = (choice & 1) != 0,
          .separator = (choice & 2) != 0 ? ';' : ',',
          .missing = (choice & 4) != 0 ? data::MissingValue::kNan : data::MissingValue::kError,
          .allow_non_finite = (choice & 8) != 0,
          .columns = (choice & 16) != 0 ? std::vector<std::string>{"0"} : std::vector<std::string>{},
          .max_row_bytes = 4096,
          .limit_bytes = kLimit};
}

/// Reads the whole table and the same file row by row; then each row again from its position.
void parse_csv(Input input) {
  const data::CsvOptions options = csv_options(input);
  const std::filesystem::path path = file_of(input);
  const data::CsvTable table = data::read_csv(path, options);
  data::CsvReader reader(path, options), again(path, options);
  std::vector<double> row(reader.columns()), other(reader.columns());
  demand(static_cast<int64_t>(row.size()) == table.columns(), "csv: another number of columns");
  const double* expected = table.values.data<double>();
  int64_t rows = 0;
  for (data::CsvPosition at = reader.position(); reader.next(row); at = reader.position(), ++rows) {
    demand(rows < table.rows(), "csv: more rows than the table");
    demand(std::equal(row.begin(), row.end(), expected, same_bits), "csv: other values than the table");
    expected += row.size();
    if (rows >= 16) continue;
    again.seek(at);
    demand(again.next(other) && std::equal(row.begin(), row.end(), other.begin(), same_bits),
           "csv: another row at its position");
  }
  demand(rows == table.rows(), "csv: fewer rows than the table");
}

void parse_digits(Input input) { data::load_digits(file_of(input)); }
void parse_co2(Input input) { data::load_co2(file_of(input), {.window_weeks = 2}); }

void parse_text(Input input) {
  const std::filesystem::path places[] = {file_of(input)};
  const data::Text text = data::read_text(places, {.limit_bytes = kLimit});
  demand(text.train.elems() + text.validation.elems() == static_cast<int64_t>(input.size()),
         "text: lost bytes");
}

void parse_text_lines(Input input) {
  const std::filesystem::path path = file_of(input);
  const data::TextLineOptions options = {.max_line_bytes = 4096};
  data::TextLineReader reader(path, options), again(path, options);
  std::string line, other;
  for (int lines = 0; lines < 10'000; ++lines) {
    const auto at = reader.position();
    if (!reader.next(line)) return;
    if (lines >= 16) continue;
    again.seek(at);
    demand(again.next(other) && line == other, "text_lines: another line at its position");
  }
}

void parse_idx(Input input) {
  const Tensor tensor = data::read_idx(file_of(input), {.limit_bytes = kLimit});
  const std::string text = data::format_idx(tensor);
  demand(same_bytes(tensor, data::read_idx(file_of(std::as_bytes(std::span(text))))),
         "idx: written otherwise");
}

/// A folder whose files of these names are all the one in memory.
const std::filesystem::path& folder_of(std::span<const std::byte> content) {
  static TempFolder folder;
  static const bool linked = [&] {
    for (const char* name : {"data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin"}) {
      std::filesystem::create_symlink(file_of({}), folder / name);
    }
    return true;
  }();
  demand(linked, "no links");
  file_of(content);
  return folder.path();
}

void parse_cifar10(Input input) { data::load_cifar10(folder_of(input)); }
void parse_cifar100(Input input) { data::load_cifar100(folder_of(input)); }

void parse_tokens(Input input) {
  const uint8_t choice = take_choice(input);
  const data::TokenFile file(file_of(input), {.type = static_cast<data::TokenType>(choice & 3),
                                              .window = 1 + (choice >> 2 & 7),
                                              .stride = 1 + (choice >> 5 & 1),
                                              .vocabulary = (choice & 64) != 0 ? 200 : 0,
                                              .header_bytes = (choice & 128) != 0 ? uint64_t{3} : 0});
  std::vector<std::byte> row(file.row_spec().size_bytes());
  for (int64_t i = 0; i < std::min<int64_t>(file.rows(), 1000); ++i) file.read(i, row);
}

void read_records(const std::filesystem::path& path, Compression compression) {
  RecordReader reader(path, {.compression = compression, .max_record_bytes = kLimit});
  std::vector<std::byte> record, other;
  std::vector<uint64_t> positions;
  do {
    positions.push_back(reader.position());
  } while (reader.next(record) && positions.size() < 10'000);
  for (size_t i = 0; i + 1 < std::min<size_t>(positions.size(), 8); ++i) {
    reader.seek(positions[i]);
    demand(reader.next(other) && reader.position() == positions[i + 1],
           "records: another record at its position");
  }
}

void parse_records(Input input) {
  constexpr Compression kKinds[] = {Compression::kNone, Compression::kGzip, Compression::kZlib};
  const uint8_t choice = take_choice(input);
  read_records(file_of(input), kKinds[choice % 3]);
}

/// Records whose lengths have correct checksums: flipped bits alone would never get past the checksum. The
/// input is a list of lengths (a u8, or 0xff and a u64) and bytes.
void parse_framed_records(Input input) {
  std::string text;
  const auto put = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  };
  while (!input.empty()) {
    uint64_t length = take_choice(input);
    if (length == 0xff) {
      length = 0;
      for (int i = 0; i < 8; ++i) length = length << 8 | take_choice(input);
    }
    const size_t begin = text.size();
    put(length, 8);
    put(masked_crc32c(std::as_bytes(std::span(text).subspan(begin))), 4);
    const Input record = input.first(std::min<uint64_t>(length, input.size()));
    text.append(reinterpret_cast<const char*>(record.data()), record.size());
    put(masked_crc32c(record), 4);
    input = input.subspan(record.size());
  }
  read_records(file_of(std::as_bytes(std::span(text))), Compression::kNone);
}

void parse_example(Input input) {
  data::ExampleParser parser({{"label", data::FeatureKind::kInt64, Shape{}, 0},
                              {"image", data::FeatureKind::kBytes, Shape{6}, 0},
                              {"weights", data::FeatureKind::kFloat, Shape{3}, 0},
                              {"tokens", data::FeatureKind::kInt64},
                              {"names", data::FeatureKind::kBytes}});
  for (int times = 0; times < 2; ++times) {  // the second time in used memory
    parser.parse(input, "input");
    for (size_t i = 0; i < 4; ++i) parser.tensor(i);
    for (size_t i = 0; i < parser.strings(4); ++i) parser.string(4, i);
  }
  data::ExampleBuilder builder;
  builder.add("tokens", parser.ints(3));
  std::string text;
  builder.serialize(text);
  const std::vector<int64_t> tokens(parser.ints(3).begin(), parser.ints(3).end());
  parser.parse(std::as_bytes(std::span(text)), "output");
  demand(std::ranges::equal(parser.ints(3), tokens), "example: written otherwise");
}

/// Resumes nested streams from the input as a state and reads some elements. A buffered element may be any
/// number, so the function must accept any number.
void parse_dataset_state(Input input) {
  static const Tensor numbers = [] {
    Tensor tensor = empty({DType::kI64, {40}});
    std::iota(tensor.data<int64_t>(), tensor.data<int64_t>() + 40, 0);
    return tensor;
  }();
  const auto rows = [](int64_t count) { return data::Dataset(data::Element{{"x", numbers}}).take(count); };
  data::Dataset dataset =
      rows(40)
          .filter([](const data::Element& e) { return e["x"].item<int64_t>() % 3 != 0; })
          .shuffle(6, {.seed = 1})
          .interleave(
              [&](const data::Element& e) { return rows(1 + (e["x"].item<int64_t>() & 3)).shuffle(2); },
              {.cycle = 2})
          .batch(3, {.drop_remainder = true});
  auto at = dataset.resume({reinterpret_cast<const char*>(input.data()), input.size()});
  for (int i = 0; i < 3 && at != std::default_sentinel; ++i, ++at) {
    demand((*at)["x"].elems() == 3, "dataset state: a batch of another size");
  }
  dataset.state();
}

}  // namespace

std::vector<Target> internal::data_targets() {
  return {{"cifar10", parse_cifar10},
          {"cifar100", parse_cifar100},
          {"co2", parse_co2},
          {"csv", parse_csv},
          {"dataset_state", parse_dataset_state},
          {"digits", parse_digits},
          {"example", parse_example},
          {"framed_records", parse_framed_records},
          {"idx", parse_idx},
          {"npy", parse_npy},
          {"npz", parse_npz},
          {"records", parse_records},
          {"text", parse_text},
          {"text_lines", parse_text_lines},
          {"tokens", parse_tokens}};
}

}  // namespace isochron::fuzz
