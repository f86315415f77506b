// File readers don't allocate once they have seen the largest input, and neither do image operations.
#include <gmock/gmock.h>

#include <numeric>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/files/record_file.h"
#include "isochron/data/formats/csv.h"
#include "isochron/data/formats/example.h"
#include "isochron/data/formats/text_lines.h"
#include "isochron/data/formats/token_file.h"
#include "isochron/data/sources/image_folder.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// How many allocations of ours the second call of `pass` makes.
template <typename Pass>
int64_t allocations_of(Pass&& pass) {
  pass();
  const int64_t before = heap_allocations();
  pass();
  return heap_allocations() - before;
}

std::string lines_of_text() {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += fmt::format("{},\"{}\",{:.3f}\n", i, i * 7, i * 0.1);
  return text;
}

class SteadyReaders : public testing::Test {
 protected:
  void SetUp() override {
    if (!allocations_counted()) GTEST_SKIP() << "allocations are not counted under sanitizers";
  }
  std::filesystem::path file(const std::string& name, std::string_view content) {
    write_quickly(folder_ / name, content);
    return folder_ / name;
  }
  TempFolder folder_;
};

TEST_F(SteadyReaders, TheCounterCounts) {
  EXPECT_GT(allocations_of([] { delete new std::string(100, 'x'); }), 0);
}

TEST_F(SteadyReaders, OfTextLinesAllocateNothing) {
  for (const std::string& stored : {lines_of_text(), packed(lines_of_text())}) {
    TextLineReader reader(file("a.txt", stored));
    std::string line;
    int lines = 0;
    EXPECT_EQ(allocations_of([&] {
                reader.seek({});
                while (reader.next(line)) ++lines;
              }),
              0);
    EXPECT_EQ(lines, 40000);
  }
}

TEST_F(SteadyReaders, OfCsvRowsAllocateNothing) {
  for (const std::string& stored : {lines_of_text(), packed(lines_of_text())}) {
    CsvReader reader(file("a.csv", stored));
    std::vector<double> row(reader.columns());
    double sum = 0;
    EXPECT_EQ(allocations_of([&] {
                reader.seek({});
                while (reader.next(row)) sum += row[0];
              }),
              0);
    EXPECT_EQ(sum, 2 * 19999.0 * 10000);
  }
}

TEST_F(SteadyReaders, OfRecordsAndExamplesAllocateNothing) {
  const auto path = folder_ / "a.tfrecord";
  ExampleBuilder builder;
  std::string example;
  RecordWriter writer(path);
  std::vector<int64_t> tokens(50);
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::string image(784, 'x');
  const std::string_view strings[] = {image};
  const auto write = [&] {
    for (int i = 0; i < 100; ++i) {
      builder.clear();
      builder.add("tokens", tokens);
      builder.add("image", strings);
      builder.serialize(example);
      writer.write(bytes_of(example));
    }
  };
  EXPECT_EQ(allocations_of(write), 0);
  writer.close();

  RecordReader reader(path);
  ExampleParser parser({{"tokens", FeatureKind::kInt64}, {"image", FeatureKind::kBytes, Shape{28, 28}}});
  std::vector<std::byte> record, pixels(784);
  int64_t sum = 0;
  EXPECT_EQ(allocations_of([&] {
              reader.seek(0);
              while (reader.next(record)) {
                parser.parse(record, "a.tfrecord");
                sum += parser.ints(0)[49];
                parser.copy(1, pixels);
              }
            }),
            0);
  EXPECT_EQ(sum, 2 * 200 * 49);
}

TEST_F(SteadyReaders, OfTokensAllocateNothing) {
  const TokenFile tokens(file("a.bin", std::string(100'000, 'x')), {.type = TokenType::kU16, .window = 64});
  std::vector<std::byte> row(tokens.row_spec().size_bytes());
  EXPECT_EQ(allocations_of([&] {
              for (int64_t i = 0; i < 1000; ++i) tokens.read(i, row);
            }),
            0);
}

TEST_F(SteadyReaders, OfImagesLeaveAllocationsToTheDecoders) {
  const Tensor image = empty({DType::kU8, {64, 48, 3}});
  std::fill_n(image.data<uint8_t>(), image.elems(), uint8_t{77});
  std::filesystem::create_directory(folder_ / "class of images with a long name");
  file("class of images with a long name/one of the images.jpg", encode_jpeg(image));
  file("class of images with a long name/one of the images.png", encode_png(image));
  const ImageFolder images(folder_.path(), {.height = 32, .width = 32});
  std::vector<std::byte> row(images.row_spec().size_bytes());
  const int64_t libraries_before = library_allocations();
  EXPECT_EQ(allocations_of([&] {
              for (int64_t i = 0; i < images.rows(); ++i) images.read(i, row);
            }),
            0);
  EXPECT_GT(library_allocations(), libraries_before);
}

TEST_F(SteadyReaders, ChangesOfImagesAllocateNothing) {
  std::vector<uint8_t> image(40 * 40 * 3, 100), crop(32 * 32 * 3);
  std::vector<float> floats(crop.size());
  const std::array<float, 3> mean = {0.5f, 0.5f, 0.5f}, stddev = {0.2f, 0.2f, 0.2f};
  ImageScratch scratch;
  const ImageView<uint8_t> from(image.data(), 40, 40, 3), to(crop.data(), 32, 32, 3);
  EXPECT_EQ(allocations_of([&] {
              for (uint64_t element = 0; element < 100; ++element) {
                const ImageKey key = {.element = element};
                random_crop(from, to, key, 4);
                random_resized_crop(from, to, key, scratch);
                random_flip(to, key);
                color_jitter(to, key, {0.4, 0.4, 0.4, 0.1});
                normalize(to, ImageView<float>(floats.data(), 32, 32, 3), mean, stddev);
              }
            }),
            0);
}

}  // namespace
}  // namespace isochron::data
