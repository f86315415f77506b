// Datasets over files of every format: their elements, and that an iteration resumes where it was saved.
#include "isochron/data/sources/files.h"

#include <gmock/gmock.h>

#include <numeric>
#include <optional>

#include "isochron/data/formats/npy.h"
#include "isochron/data/images/image.h"
#include "isochron/data/pipeline/recipe.h"
#include "isochron/data/sources/snapshot.h"
#include "isochron/data/stages/windows.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

std::vector<std::vector<double>> rest_of(Dataset::Iterator at, int tensor = 0) {
  std::vector<std::vector<double>> result;
  for (; at != std::default_sentinel; ++at) result.push_back((*at)[tensor].to_vector());
  return result;
}
std::vector<std::vector<double>> epoch_of(Dataset& dataset, int tensor = 0) {
  return rest_of(dataset.begin(), tensor);
}

/// After a save at any element, a new dataset gives the remaining elements and then the next epoch.
void expect_resumes(const std::function<Dataset()>& make) {
  Dataset reference = make();
  const auto whole = epoch_of(reference), after = epoch_of(reference);
  ASSERT_GE(whole.size(), 3u);
  for (size_t taken = 1; taken <= whole.size() + 1; ++taken) {
    Dataset first = make();
    auto at = first.begin();
    for (size_t i = 1; i < taken; ++i) ++at;
    const std::string state = first.state();
    EXPECT_LT(state.size(), 4096u);
    Dataset second = make();
    const auto from = whole.begin() + static_cast<ptrdiff_t>(std::min(taken, whole.size()));
    ASSERT_EQ(rest_of(second.resume(state)), (std::vector<std::vector<double>>(from, whole.end()))) << taken;
    ASSERT_EQ(epoch_of(second), after);
  }
}

void write_records(const std::filesystem::path& path, const std::vector<std::string>& records) {
  RecordWriter writer(path);
  for (const std::string& record : records)
    writer.write(std::as_bytes(std::span(record.data(), record.size())));
  writer.close();
}

TEST(FromRecords, GivesTheBytesOfEveryRecordOfEveryFile) {
  const TempFolder folder;
  write_records(folder / "a", {"\1\2", "\3"});
  write_records(folder / "b", {});
  write_records(folder / "c", {"\4\5\6", "\7"});
  const auto make = [&] { return from_records({folder / "a", folder / "b", folder / "c"}); };
  Dataset records = make();
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(epoch_of(records),
                ElementsAre(ElementsAre(1, 2), ElementsAre(3), ElementsAre(4, 5, 6), ElementsAre(7)));
  }
  expect_resumes(make);
  auto padded = make().padded_batch(2, {.drop_remainder = true}).prefetch(2);
  EXPECT_THAT(epoch_of(padded), ElementsAre(ElementsAre(1, 2, 3, 0), ElementsAre(4, 5, 6, 7, 0, 0)));
  EXPECT_ERROR(from_records({}), ErrorCode::kInvalidArgument, "the list of files is empty");
  Dataset missing = from_records({folder / "a", folder / "none"});
  EXPECT_ERROR(epoch_of(missing), ErrorCode::kIo, "none");
  write_quickly(folder / "cut", "\5\0\0");
  Dataset cut = from_records({folder / "cut"});
  EXPECT_ERROR(epoch_of(cut), ErrorCode::kBadFormat, "cut");
}

TEST(FromExamples, GivesOneTensorAFeature) {
  const TempFolder folder;
  std::vector<std::string> records;
  for (int64_t n = 1; n <= 4; ++n) {
    ExampleBuilder builder;
    std::vector<float> pixels(static_cast<size_t>(n), 0.5f);
    const int64_t label[] = {n};
    const std::string_view name[] = {"ab"};
    builder.add("pixels", pixels);
    builder.add("label", label);
    builder.add("name", name);
    builder.serialize(records.emplace_back());
  }
  write_records(folder / "examples", records);
  const std::vector<FeatureSpec> features = {{"label", FeatureKind::kInt64, Shape{}},
                                             {"pixels", FeatureKind::kFloat},
                                             {"name", FeatureKind::kBytes, Shape{2}}};
  const auto make = [&] { return from_examples({folder / "examples"}, features); };
  Dataset examples = make();
  EXPECT_THAT(examples.names(), ElementsAre("label", "pixels", "name"));
  EXPECT_EQ(examples.signatures()[0][1], spec_of(DType::kF32, {kAnyExtent}));
  EXPECT_THAT(epoch_of(examples, 0),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
  EXPECT_THAT(epoch_of(examples, 1)[2], ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(epoch_of(examples, 2)[0], ElementsAre('a', 'b'));
  expect_resumes(make);
  expect_resumes([&] { return make().shuffle(3, {.seed = 5}).prefetch(2); });
  Dataset wrong = from_examples({folder / "examples"}, {{"label", FeatureKind::kFloat, Shape{}}});
  EXPECT_ERROR(epoch_of(wrong), ErrorCode::kBadFormat, "record at byte 0");
}

TEST(FromTextLines, GivesTheBytesOfLines) {
  const TempFolder folder;
  write_quickly(folder / "a.txt", "ab\n\nc\r\n");
  write_quickly(folder / "b.txt", "d");
  const auto make = [&] { return from_text_lines({folder / "a.txt", folder / "b.txt"}); };
  Dataset lines = make();
  EXPECT_THAT(epoch_of(lines),
              ElementsAre(ElementsAre('a', 'b'), ElementsAre(), ElementsAre('c'), ElementsAre('d')));
  expect_resumes(make);
}

TEST(FromCsv, GivesTheNumbersOfRows) {
  const TempFolder folder;
  write_quickly(folder / "a.csv", "x,y,z\n1,2,3\n4,5,6\n");
  write_quickly(folder / "b.csv", "x,y,z\n7,8,9\n");
  write_quickly(folder / "c.csv", "x,z\n7,8\n");
  const auto make = [&] {
    return from_csv({folder / "a.csv", folder / "b.csv"}, {.header = true, .columns = {"z", "x"}});
  };
  Dataset rows = make();
  EXPECT_THAT(epoch_of(rows), ElementsAre(ElementsAre(3, 1), ElementsAre(6, 4), ElementsAre(9, 7)));
  expect_resumes(make);
  Dataset narrow = from_csv({folder / "a.csv", folder / "b.csv"}, {.header = true, .dtype = DType::kF32});
  EXPECT_EQ(narrow.signatures().front()[0], (TensorSpec{DType::kF32, {3}}));
  EXPECT_THAT(epoch_of(narrow),
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6), ElementsAre(7, 8, 9)));
  auto counted = make().cache().batch(2);
  EXPECT_THAT(epoch_of(counted), ElementsAre(ElementsAre(3, 1, 6, 4), ElementsAre(9, 7)));
  Dataset different = from_csv({folder / "a.csv", folder / "c.csv"}, {.header = true});
  EXPECT_ERROR(epoch_of(different), ErrorCode::kBadFormat, "has 2 columns, the first file has 3");
  write_quickly(folder / "d.csv", "z,y,x\n1,2,3\n");
  Dataset turned = from_csv({folder / "a.csv", folder / "d.csv"}, {.header = true});
  EXPECT_ERROR(epoch_of(turned), ErrorCode::kBadFormat,
               "has the columns z, y, x, the first file has x, y, z; name those to read");
  Dataset named = from_csv({folder / "a.csv", folder / "d.csv"}, {.header = true, .columns = {"x", "z"}});
  EXPECT_THAT(epoch_of(named), ElementsAre(ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(3, 1)));
}

TEST(Fingerprints, TellOptionsApart) {
  const TempFolder folder;
  write_quickly(folder / "a.csv", "x,y\n1,2\n4,5\n");
  const auto print = [](const Dataset& dataset) { return fingerprint(*dataset.recipe()); };
  const auto csv = [&](const CsvOptions& options) { return print(from_csv({folder / "a.csv"}, options)); };
  const CsvOptions x{.header = true, .columns = {"x"}}, y{.header = true, .columns = {"y"}};
  EXPECT_EQ(csv(x), csv(x));
  EXPECT_NE(csv(x), csv(y));
  CsvOptions marked = x, named = x, renamed = x;
  marked.missing_texts = {"NA"};
  named.categories = {{"x", {"1", "4"}}};
  renamed.categories = {{"x", {"4", "1"}}};
  CsvOptions narrow = x;
  narrow.dtype = DType::kF32;
  EXPECT_NE(csv(x), csv(narrow));
  EXPECT_NE(csv(x), csv(marked));
  EXPECT_NE(csv(x), csv(named));
  EXPECT_NE(csv(named), csv(renamed));
  const auto tokens = [&](const TokenFileOptions& options) {
    return print(from_tokens(folder / "a.csv", options));
  };
  EXPECT_EQ(tokens({.stride = 8}), tokens({.stride = 8}));
  // As many rows of the same shape.
  EXPECT_NE(tokens({.type = TokenType::kU16, .stride = 8}), tokens({.type = TokenType::kI32, .stride = 8}));
}

TEST(Snapshot, IsMadeByWhoeverIsFirst) {
  const TempFolder folder;
  const Dataset dataset(Element{{"x", empty({DType::kU8, {4, 2}})}});
  // The second begins while the first writes its elements.
  bool writing = false;
  std::optional<Dataset> inner;
  Dataset outer = dataset.map([&](Element element) {
    if (writing && !inner) inner = snapshot(dataset.map([](Element e) { return e; }), folder / "kept");
    return element;
  });
  writing = true;
  Dataset kept = snapshot(outer, folder / "kept");
  EXPECT_TRUE(inner);
  EXPECT_EQ(epoch_of(kept).size(), 4u);
}

TEST(Snapshot, RefusesWindowsOfOtherOptions) {
  const TempFolder folder;
  const auto windows = [](int64_t dilation) {
    return from_windows(zeros({12}), {.length = 2, .stride = 6, .dilation = dilation});
  };
  snapshot(windows(1), folder / "kept");
  EXPECT_ERROR(snapshot(windows(2), folder / "kept"), ErrorCode::kBadFormat, "");
}

TEST(FromTokens, GivesWindowsAsRows) {
  const TempFolder folder;
  write_quickly(folder / "tokens", std::string("\0\0\1\0\2\0\3\0\4\0\5\0", 12));
  const auto make = [&] {
    return from_tokens(folder / "tokens", {.window = 3, .stride = 1}).shuffle(4).batch(1);
  };
  Dataset windows = from_tokens(folder / "tokens", {.window = 3, .stride = 2});
  EXPECT_EQ(windows.size(), 2);
  EXPECT_THAT(epoch_of(windows), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(2, 3, 4)));
  expect_resumes(make);
}

TEST(FromImages, GivesResizedPicturesAndTheirClasses) {
  const TempFolder folder;
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directory(folder / name);
    for (int i = 0; i < 3; ++i) {
      const Tensor image = empty({DType::kU8, {4 + i, 5, 3}});
      for (uint8_t& pixel : image.span<uint8_t>())
        pixel = static_cast<uint8_t>(name[0] == 'c' ? 10 + i : 200 + i);
      write_quickly(folder / name / (std::to_string(i) + ".png"), encode_png(image));
    }
  }
  const ImageFolderOptions options = {.height = 2, .width = 2};
  Dataset images = from_images(folder.path(), options).batch(4);
  EXPECT_EQ(images.signatures()[0][0], (TensorSpec{DType::kU8, {4, 2, 2, 3}}));
  EXPECT_THAT(epoch_of(images, 1), ElementsAre(ElementsAre(0, 0, 0, 1), ElementsAre(1, 1)));
  EXPECT_EQ(epoch_of(images)[0].back(), 200);
  expect_resumes([&] { return from_images(folder.path(), options).shuffle(6).batch(2).prefetch(2); });
}

TEST(FromNpy, GivesRowsOfMappedArrays) {
  const TempFolder folder;
  const Tensor x = empty({DType::kF32, {5, 2}}), y = empty({DType::kI64, {5}});
  std::iota(x.data<float>(), x.data<float>() + 10, 0.0f);
  std::iota(y.data<int64_t>(), y.data<int64_t>() + 5, 100);
  write_npy(folder / "x.npy", x);
  write_npy(folder / "y.npy", y);
  const auto make = [&] {
    return from_npy({{"x", folder / "x.npy"}, {"y", folder / "y.npy"}}).shuffle(5).batch(1);
  };
  Dataset rows = from_npy({{"x", folder / "x.npy"}, {"y", folder / "y.npy"}}).batch(3);
  EXPECT_THAT(epoch_of(rows), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7, 8, 9)));
  EXPECT_THAT(epoch_of(rows, 1), ElementsAre(ElementsAre(100, 101, 102), ElementsAre(103, 104)));
  expect_resumes(make);
  write_npy(folder / "short.npy", empty({DType::kF32, {4}}));
  EXPECT_ERROR(from_npy({{"x", folder / "x.npy"}, {"y", folder / "short.npy"}}), ErrorCode::kShapeMismatch,
               "has 4 rows, the first file has 5");
  write_quickly(folder / "broken.npy", "no array");
  EXPECT_ERROR(from_npy({{"x", folder / "broken.npy"}}), ErrorCode::kBadFormat, "broken.npy");
}

TEST(Snapshot, OfOtherArraysIsRefused) {
  const TempFolder folder;
  write_npy(folder / "one.npy", ones({4}));
  write_npy(folder / "two.npy", zeros({4}));
  snapshot(from_npy({{"x", folder / "one.npy"}}), folder / "kept");
  EXPECT_ERROR(snapshot(from_npy({{"x", folder / "two.npy"}}), folder / "kept"), ErrorCode::kBadFormat,
               "kept");
}

TEST(Snapshot, IsMadeOnceAndReadAsRows) {
  const TempFolder folder;
  int calls = 0;
  const Tensor x = empty({DType::kF32, {7, 2}});
  std::iota(x.data<float>(), x.data<float>() + 14, 0.0f);
  const auto make = [&] {
    return Dataset(Element{{"x", x}})
        .map([&](Element element) {
          ++calls;
          return element;
        })
        .filter([](const Element& e) { return e["x"].data<float>()[0] != 4; });
  };
  Dataset first = snapshot(make(), folder / "kept");
  const int once = calls;
  EXPECT_EQ(first.size(), 6);
  Dataset second = snapshot(make(), folder / "kept");
  EXPECT_LE(calls, once + 2) << "nothing but what the map shows to its function";
  EXPECT_EQ(epoch_of(second), epoch_of(first));
  EXPECT_THAT(epoch_of(second)[2], ElementsAre(6, 7));
  EXPECT_ERROR(snapshot(make(), folder / "kept", "2"), ErrorCode::kBadFormat, "another dataset or version");
  EXPECT_ERROR(snapshot(Dataset(Element{{"x", x}}).skip(1).filter([](const Element&) { return true; }),
                        folder / "kept"),
               ErrorCode::kBadFormat, "another dataset or version");
  EXPECT_ERROR(snapshot(make().take(3), folder / "kept"), ErrorCode::kBadFormat,
               "another dataset or version");
  EXPECT_ERROR(snapshot(make(), folder / "kept" / "0.npy" / "no"), ErrorCode::kIo, "cannot be written");
  Dataset failing = make().map([](Element element) {
    require(element["x"].data<float>()[0] < 8, ErrorCode::kBadFormat, "test", "no");
    return element;
  });
  EXPECT_ERROR(snapshot(failing, folder / "failed"), ErrorCode::kBadFormat, "no");
  EXPECT_THAT(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "nothing half made is left";
  write_quickly(folder / "kept" / "0.npy", "cut");
  EXPECT_ERROR(snapshot(make(), folder / "kept"), ErrorCode::kBadFormat, "0.npy");
}

}  // namespace
}  // namespace isochron::data
