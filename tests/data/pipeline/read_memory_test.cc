// How readers handle files that would never end, take all memory, or change during reading: typed errors.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <zlib.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "isochron/core/files/file.h"
#include "isochron/core/files/record_file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/formats/csv.h"
#include "isochron/data/formats/example.h"
#include "isochron/data/formats/npy.h"
#include "isochron/data/formats/text.h"
#include "isochron/data/images/image.h"
#include "isochron/data/sources/cifar.h"
#include "isochron/data/sources/files.h"
#include "isochron/data/sources/idx.h"
#include "isochron/data/sources/snapshot.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/failing_calls.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr size_t kBudget = size_t{1} << 20;

/// Sets another budget while it exists.
class Budget {
 public:
  explicit Budget(size_t bytes) : before_(memory_budget_bytes()) {
    set_memory_budget(memory_in_use_bytes() + bytes);
  }
  ~Budget() { set_memory_budget(before_); }

 private:
  size_t before_;
};

class ReadMemoryTest : public testing::Test {
 protected:
  fs::path write_gzip(const std::string& name, std::string_view text) {
    gzFile file = gzopen((folder_ / name).c_str(), "wb9");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return folder_ / name;
  }
  /// Expects an error that names the required memory, the budget and how to raise it. Expects that no memory
  /// is held afterwards and that small files can be read.
  void expect_bounded(const std::function<void()>& read) {
    const size_t before = memory_in_use_bytes();
    {
      const Budget budget(kBudget);
      EXPECT_ERROR(read(), ErrorCode::kOutOfMemory, "budget");
      try {
        read();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("set_memory_budget"), HasSubstr("ISOCHRON_MEMORY_BUDGET"),
                                        HasSubstr(std::to_string(memory_budget_bytes())),
                                        HasSubstr(folder_.path().string())));
      }
      EXPECT_EQ(memory_in_use_bytes(), before);
    }
    EXPECT_NO_THROW(read()) << "within the budget of this process";
    EXPECT_EQ(memory_in_use_bytes(), before);
  }
  fs::path write_zeros(const std::string& name, std::string_view begin, uint64_t bytes) {
    write_quickly(folder_ / name, begin);
    fs::resize_file(folder_ / name, bytes);  // sparse
    return folder_ / name;
  }

  TempFolder folder_;
};

std::string repeated(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST_F(ReadMemoryTest, CompressedTablesAreBounded) {
  const fs::path path = write_gzip("rows.csv.gz", repeated("1\n", kBudget));
  ASSERT_LT(fs::file_size(path), 20'000u);
  expect_bounded([&] { read_csv(path); });
  const fs::path wide = write_gzip("wide.csv.gz", repeated(repeated("1,", 50'000) + "1\n", 4));
  expect_bounded([&] { read_csv(wide); });
  const Budget budget(kBudget);
  CsvReader reader(path);  // reading row by row has no bound
  double value = 0;
  int64_t rows = 0;
  while (reader.next({&value, 1})) ++rows;
  EXPECT_EQ(rows, static_cast<int64_t>(kBudget));
}

TEST_F(ReadMemoryTest, ArraysAreBounded) {
  const Tensor large = empty({DType::kU8, {4 * kBudget}});
  std::fill_n(large.data<uint8_t>(), large.elems(), 0);
  const fs::path npy = folder_ / "a.npy", npz = folder_ / "a.npz";
  write_npy(npy, large);
  expect_bounded([&] { read_npy(npy); });
  const std::pair<std::string, Tensor> arrays[] = {{"a", large}};
  write_npz(npz, arrays);
  expect_bounded([&] { read_npz(npz); });
  {
    const Budget budget(kBudget);
    Dataset rows = from_npy({{"x", npy}});
    EXPECT_EQ((*rows.begin())[0].elems(), 1) << "rows are read one by one";
  }
  const fs::path idx = write_gzip("a.idx.gz", format_idx(large));
  expect_bounded([&] { read_idx(idx); });
}

/// A zip with one deflated array of zeros, and `names` entries of the directory that all stand for it.
std::string zip_bomb(size_t content_bytes, int names) {
  const std::string array =
      npy_header({DType::kU8, {static_cast<int64_t>(content_bytes)}}) + std::string(content_bytes, '\0');
  std::string packed(array.size() / 500 + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(array.data()));
  stream.avail_in = static_cast<uInt>(array.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(array.data()), array.size());
  const auto put = [](std::string& to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8) to.push_back(static_cast<char>(value));
  };
  const auto common = [&](std::string& to, size_t name_bytes) {
    for (const uint64_t field : {20, 0, 8, 0, 0x21})
      put(to, field, 2);  // version, flags, deflated, time, date
    put(to, crc, 4);
    put(to, packed.size(), 4);
    put(to, array.size(), 4);
    put(to, name_bytes, 2);
    put(to, 0, 2);
  };
  std::string out, directory;
  for (int i = 0; i < names; ++i) {
    const std::string name = "a" + std::to_string(i) + ".npy";
    const size_t offset = out.size();
    put(out, 0x04034b50, 4);
    common(out, name.size());
    out += name + packed;
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    common(directory, name.size());
    put(directory, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    put(directory, offset, 4);
    directory += name;
  }
  const size_t at = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, static_cast<uint64_t>(names), 2);
  put(out, static_cast<uint64_t>(names), 2);
  put(out, directory.size(), 4);
  put(out, at, 4);
  put(out, 0, 2);
  return out;
}

TEST_F(ReadMemoryTest, DeflatedArraysAreBoundedOneByOneAndAllTogether) {
  write_quickly(folder_ / "one.npz", zip_bomb(2 * kBudget, 1));
  ASSERT_LT(fs::file_size(folder_ / "one.npz"), 10'000u);
  expect_bounded([&] { read_npz(folder_ / "one.npz"); });
  write_quickly(folder_ / "many.npz", zip_bomb(kBudget / 4, 8));
  expect_bounded([&] { read_npz(folder_ / "many.npz"); });
}

TEST_F(ReadMemoryTest, OtherDataIsBounded) {
  fs::create_directory(folder_ / "cifar");
  for (const char* name : {"cifar/data_batch_1.bin", "cifar/test_batch.bin"})
    write_zeros(name, "", 3073 * 200);
  expect_bounded([&] { load_cifar10(folder_ / "cifar"); });
  write_quickly(folder_ / "a.txt", repeated("text\n", kBudget / 5));
  const fs::path places[] = {folder_ / "a.txt"};
  expect_bounded([&] { read_text(places); });
  const Tensor pixels = empty({DType::kU8, {1200, 1200, 1}});
  std::fill_n(pixels.data<uint8_t>(), pixels.elems(), 7);
  const std::string png = encode_png(pixels);
  ASSERT_LT(png.size(), 20'000u);
  const std::string where = folder_ / "a.png";
  expect_bounded([&] { decode_image(std::as_bytes(std::span(png)), 0, where); });
  fs::create_directories(folder_ / "images" / "class");
  write_quickly(folder_ / "images" / "class" / "a.png", png);
  const ImageFolder images(folder_ / "images", {.height = 4, .width = 4});
  std::vector<std::byte> row(images.row_spec().size_bytes());
  expect_bounded([&] { images.read(0, row); });
}

TEST_F(ReadMemoryTest, RecordsAreBounded) {
  const std::vector<std::byte> record(3 * kBudget);
  {
    RecordWriter writer(folder_ / "plain");
    writer.write(record);
    writer.close();
  }
  const auto plain = read_file(folder_ / "plain");
  const fs::path packed = write_gzip("packed", {reinterpret_cast<const char*>(plain.data()), plain.size()});
  ASSERT_LT(fs::file_size(packed), 20'000u);
  expect_bounded([&] {
    Dataset records = from_records({packed}, {.compression = Compression::kGzip});
    static_cast<void>(*records.begin());
  });
}

/// A record of many empty strings takes 25 times as much memory when it is parsed, one of integers 8 times.
TEST_F(ReadMemoryTest, ParsedRecordsAreBounded) {
  const std::vector<std::string_view> strings(kBudget / 8);
  const std::vector<int64_t> numbers(kBudget / 4, 1);
  const int64_t id[] = {7};
  const auto examples = [&](const char* name, const auto& many) {
    ExampleBuilder builder;
    builder.add("id", id);
    builder.add("many", many);
    std::string record;
    builder.serialize(record);
    EXPECT_LT(record.size(), kBudget / 2);
    RecordWriter writer(folder_ / name);
    writer.write(std::as_bytes(std::span(record)));
    writer.close();
    return from_examples({folder_ / name}, {{"id", FeatureKind::kInt64, Shape{}}});
  };
  const auto read = [](Dataset dataset) { EXPECT_EQ((*dataset.begin())["id"].item<int64_t>(), 7); };
  const Dataset of_strings = examples("strings", std::span<const std::string_view>(strings));
  const Dataset of_numbers = examples("numbers", std::span<const int64_t>(numbers));
  expect_bounded([&] { read(of_strings); });
  expect_bounded([&] { read(of_numbers); });
  const std::string lines(kBudget / 4, '\n');  // the byte that entries begin with
  const std::string_view text[] = {lines};
  {
    const Budget budget(4 * kBudget);
    read(examples("text", std::span<const std::string_view>(text)));
  }
  const Budget enough(64 * kBudget);
  read(of_strings);
  read(of_numbers);
}

TEST_F(ReadMemoryTest, TheBudgetComesFromTheEnvironment) {
  const auto expect_said = [](const char* text, const char* said) {
    EXPECT_EXIT(
        {
          setenv("ISOCHRON_MEMORY_BUDGET", text, 1);
          try {
            std::fprintf(stderr, "budget %zu", memory_budget_bytes());
          } catch (const Error& error) {
            std::fprintf(stderr, "%s", error.what());
          }
          std::_Exit(0);
        },
        testing::ExitedWithCode(0), said)
        << text;
  };
  const std::string style = GTEST_FLAG_GET(death_test_style);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, which asks for the first time
  expect_said("4096", "budget 4096$");
  expect_said("512MB", "budget 512000000$");
  expect_said("8GiB", "budget 8589934592$");
  for (const char* text : {"", "0", "-1", "8 GiB", "8EiB", "99999999999GiB"})
    expect_said(text, "expected a number of bytes");
  GTEST_FLAG_SET(death_test_style, style);
}

TEST_F(ReadMemoryTest, WhatIsNoRegularFileIsRefusedWhereOneIsNeeded) {
  for (const char* folder : {"cifar", "snapshot"}) fs::create_directory(folder_ / folder);
  const fs::path pipe = folder_ / "pipe.npy";
  for (const fs::path& path : {pipe, folder_ / "cifar/data_batch_1.bin", folder_ / "snapshot/snapshot.txt"}) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  }
  const auto refused = [](const std::function<void()>& read) {
    EXPECT_ERROR(read(), ErrorCode::kIo, "is not a regular file");
  };
  for (const fs::path& path : {pipe, fs::path("/dev/zero"), fs::path("/dev/urandom")}) {
    SCOPED_TRACE(path);
    const fs::path places[] = {path};
    const int64_t labels[] = {0};
    refused([&] { read_npy(path); });
    refused([&] { read_npz(path); });
    refused([&] { from_npy({{"x", path}}); });
    refused([&] { from_tokens(path, {}); });
    refused([&] { read_text(places); });
    refused([&] {
      const ImageFolder images(places, labels, {.height = 1, .width = 1, .channels = 1, .dtype = DType::kU8});
      std::byte pixel;
      images.read(0, {&pixel, 1});
    });
  }
  refused([&] { load_cifar10(folder_ / "cifar"); });
  refused([&] { snapshot(Dataset(Element{{"x", empty({DType::kU8, {2}})}}), folder_ / "snapshot"); });
}

TEST_F(ReadMemoryTest, DevicesWithoutAnEndAreNoFilesOfAnyFormat) {
  EXPECT_ERROR(read_csv("/dev/zero"), ErrorCode::kBadFormat, "/dev/zero");
  EXPECT_ERROR(read_idx("/dev/zero"), ErrorCode::kBadFormat, "/dev/zero");
  std::string line;
  EXPECT_ERROR(TextLineReader("/dev/zero").next(line), ErrorCode::kBadFormat, "max_line_bytes");
  std::vector<std::byte> record;
  EXPECT_ERROR(RecordReader("/dev/zero").next(record), ErrorCode::kBadFormat, "checksum");
}

TEST_F(ReadMemoryTest, AFileCutShortUnderAPrefetchingReaderIsAnError) {
  constexpr int64_t kRows = 4096, kColumns = 1024;
  const Tensor array = empty({DType::kF32, {kRows, kColumns}});
  std::fill_n(array.data<float>(), array.elems(), 1.0f);
  const fs::path npy = folder_ / "a.npy", tokens = folder_ / "tokens";
  write_npy(npy, array);
  fs::copy_file(npy, tokens);
  const auto rows_until_cut = [](const fs::path& path, Dataset dataset) {
    int64_t rows = 0;
    for (auto at = dataset.begin(); at != std::default_sentinel; ++at) {
      if (++rows == 10) fs::resize_file(path, 100'000);
    }
  };
  EXPECT_ERROR(rows_until_cut(npy, from_npy({{"x", npy}}).prefetch(4)), ErrorCode::kIo, "a.npy");
  EXPECT_ERROR(rows_until_cut(tokens, from_tokens(tokens, {.window = 512, .stride = 512}).prefetch(4)),
               ErrorCode::kIo, "tokens");
}

TEST_F(ReadMemoryTest, AFileThatIsCutAndRestoredAllTheTimeKillsNobody) {
  constexpr int64_t kRows = 64, kColumns = 16384;
  const fs::path path = folder_ / "a.npy";
  const TensorSpec spec{DType::kU8, {kRows, kColumns}};
  const uint64_t whole = npy_header(spec).size() + spec.size_bytes();
  write_zeros("a.npy", npy_header(spec), whole);
  const NpyFile file(path);
  std::vector<std::byte> row(kColumns);
  std::atomic<bool> done{false};
  std::thread cutter([&] {
    while (!done) {
      for (const uint64_t size : {uint64_t{0}, whole}) fs::resize_file(path, size);
    }
  });
  int64_t refused = 0;
  for (int64_t i = 0; refused < 100 || i < 20 * kRows; ++i) {
    try {
      file.read_at(static_cast<uint64_t>(i % kRows) * kColumns, row);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kIo) << error.what();
      ++refused;
    }
  }
  done = true;
  cutter.join();
}

TEST_F(ReadMemoryTest, ASnapshotLastsWhenThePowerFails) {
  const fs::path folder = folder_ / "kept";
  const FailingCalls calls(0, 0);
  snapshot(Dataset(Element{{"x", empty({DType::kU8, {2}})}}), folder);
  const std::vector<std::string> synced = FailingCalls::synced();
  ASSERT_FALSE(synced.empty());
  EXPECT_THAT(synced, Contains(testing::EndsWith("/0.npy")));
  EXPECT_EQ(synced.back(), "sync " + folder_.path().string());
  ASSERT_GE(synced.size(), 3u);
  EXPECT_THAT(synced[synced.size() - 2],
              AllOf(testing::StartsWith("rename "), testing::EndsWith(" " + folder.string())));
  EXPECT_THAT(synced[synced.size() - 3],
              AllOf(testing::StartsWith("sync " + folder.string()), testing::EndsWith(".tmp")));
}

}  // namespace
}  // namespace isochron::data
