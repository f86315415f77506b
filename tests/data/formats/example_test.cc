#include "isochron/data/formats/example.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>

#include "isochron/core/files/file.h"
#include "isochron/core/files/record_file.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/damage.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr int kExamples = 4;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// The features of example `i`, the same as in tests/golden/make_example_tf.py.
struct Values {
  explicit Values(int i) : label(i - 1), weights{0.5f * static_cast<float>(i), -1.25f, 1e-30f} {
    for (int j = 0; j < 6; ++j) image += static_cast<char>(7 * i + j);
    for (int j = 0; j < i; ++j) tokens.push_back((j - 1) * (int64_t{1} << 40));
    names.assign(kNames.begin(), kNames.begin() + i);
  }
  static constexpr std::array<std::string_view, 3> kNames = {"a", "", {"\xff\0", 2}};
  std::string image;
  int64_t label;
  std::array<float, 3> weights;
  std::vector<int64_t> tokens;
  std::vector<std::string_view> names;
};

const std::vector<FeatureSpec> kSpecs = {{"label", FeatureKind::kInt64, Shape{}},
                                         {"image", FeatureKind::kBytes, Shape{3, 2}},
                                         {"weights", FeatureKind::kFloat, Shape{3}},
                                         {"tokens", FeatureKind::kInt64},
                                         {"names", FeatureKind::kBytes}};

void expect_example(const ExampleParser& parser, int i) {
  const Values expected(i);
  const Tensor label = parser.tensor(0), image = parser.tensor(1), weights = parser.tensor(2);
  EXPECT_EQ(label.spec(), (TensorSpec{DType::kI64, {}}));
  EXPECT_EQ(label.data<int64_t>()[0], expected.label);
  EXPECT_EQ(image.spec(), (TensorSpec{DType::kU8, {3, 2}}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(image.raw()), 6), expected.image);
  EXPECT_EQ(weights.spec(), (TensorSpec{DType::kF32, {3}}));
  EXPECT_THAT(weights.span<float>(), ElementsAreArray(expected.weights));
  EXPECT_THAT(parser.ints(3), ElementsAreArray(expected.tokens));
  EXPECT_EQ(parser.tensor(3).spec(), (TensorSpec{DType::kI64, {i}}));
  ASSERT_EQ(parser.strings(4), expected.names.size());
  for (size_t j = 0; j < expected.names.size(); ++j) EXPECT_EQ(parser.string(4, j), expected.names[j]);
}

std::string serialized(int i) {
  const Values values(i);
  ExampleBuilder builder;
  const std::string_view image = values.image;
  builder.add("image", std::span(&image, 1));
  builder.add("label", std::span(&values.label, 1));
  builder.add("names", values.names);
  builder.add("tokens", values.tokens);
  builder.add("weights", values.weights);
  std::string result;
  builder.serialize(result);
  return result;
}

TEST(Example, OfTensorFlowIsRead) {
  RecordReader reader(ISOCHRON_SOURCE_DIR "/tests/golden/example_tf.tfrecord");
  ExampleParser parser(kSpecs);
  std::vector<std::byte> record;
  int i = 0;
  for (; reader.next(record); ++i) {
    parser.parse(record, "golden");
    expect_example(parser, i);
  }
  EXPECT_EQ(i, kExamples);
}

TEST(Example, IsWrittenAsTensorFlowWritesIt) {
  RecordReader reader(ISOCHRON_SOURCE_DIR "/tests/golden/example_tf.tfrecord");
  std::vector<std::byte> record;
  for (int i = 0; reader.next(record); ++i) {
    EXPECT_EQ(serialized(i), std::string(reinterpret_cast<const char*>(record.data()), record.size())) << i;
  }
}

TEST(Example, SurvivesTheRoundTripThroughAFile) {
  const TempFolder folder;
  const char* kept = std::getenv("ISOCHRON_KEEP_RECORDS");  // for the golden script's --check
  const std::filesystem::path path = kept ? kept : folder / "examples.tfrecord";
  RecordWriter writer(path);
  for (int i = 0; i < kExamples; ++i) writer.write(bytes_of(serialized(i)));
  writer.close();
  RecordReader reader(path);
  ExampleParser parser(kSpecs);
  std::vector<std::byte> record;
  for (int i = 0; i < kExamples; ++i) {
    ASSERT_TRUE(reader.next(record));
    parser.parse(record, "a");
    expect_example(parser, i);
  }
  EXPECT_FALSE(reader.next(record));
}

TEST(Example, AcceptsNumbersThatAreNotPacked) {
  // features { feature { key: "x" value { int64_list { value: 5 value: 6 } } } }, each value with its own tag
  const std::string text = "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x08\x05\x08\x06";
  ExampleParser parser({{"x", FeatureKind::kInt64, Shape{2}}});
  parser.parse(bytes_of(text), "a");
  EXPECT_THAT(parser.ints(0), ElementsAre(5, 6));
}

TEST(Example, AbsentFeaturesHaveTheirStatedValueOrAreErrors) {
  ExampleParser parser({{"weights", FeatureKind::kFloat, Shape{3}},
                        {"count", FeatureKind::kInt64, Shape{2}, -7},
                        {"mask", FeatureKind::kBytes, Shape{2}, 1},
                        {"scores", FeatureKind::kFloat}});
  parser.parse(bytes_of(serialized(1)), "a");
  EXPECT_THAT(parser.tensor(1).to_vector(), ElementsAre(-7, -7));
  EXPECT_THAT(parser.tensor(2).to_vector(), ElementsAre(1, 1));
  EXPECT_EQ(parser.floats(3).size(), 0u);
  EXPECT_ERROR(parser.parse({}, "a.tfrecord: record 3"), ErrorCode::kBadFormat,
               "[a.tfrecord: record 3] feature 'weights' is absent");
}

TEST(Example, OtherContentThanTheSpecsSayIsAnError) {
  const std::string text = serialized(3);
  const auto refuse = [&](FeatureSpec spec, const std::string& message) {
    ExampleParser parser({std::move(spec)});
    EXPECT_ERROR(parser.parse(bytes_of(text), "a"), ErrorCode::kBadFormat, message);
  };
  refuse({"label", FeatureKind::kFloat, Shape{}}, "feature 'label' contains no floats");
  refuse({"label", FeatureKind::kInt64, Shape{2}}, "feature 'label' has 1 values; expected 2");
  refuse({"weights", FeatureKind::kFloat, Shape{2}}, "feature 'weights' has 3 values; expected 2");
  refuse({"image", FeatureKind::kBytes, Shape{7}}, "feature 'image' has 6 bytes; expected 7");
  refuse({"names", FeatureKind::kBytes, Shape{1}}, "feature 'names' has 3 strings; expected one");
  ExampleParser parser({{"x", FeatureKind::kInt64}});
  const std::string once = "\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x08\x05\x08\x06";
  EXPECT_ERROR(parser.parse(bytes_of("\x0a\x1a" + once + once), "a"), ErrorCode::kBadFormat, "appears twice");
}

TEST(Example, WrongCallsAreErrors) {
  using Specs = std::vector<FeatureSpec>;
  EXPECT_ERROR(ExampleParser(Specs{}), ErrorCode::kInvalidArgument, "at least one");
  EXPECT_ERROR(ExampleParser(Specs{{"a"}, {"a"}}), ErrorCode::kInvalidArgument, "named twice");
  EXPECT_ERROR(ExampleParser(Specs{{"a", FeatureKind::kFloat, std::nullopt, 0.0}}),
               ErrorCode::kInvalidArgument, "variable length");
  EXPECT_ERROR(ExampleParser(Specs{{"a", FeatureKind::kInt64, Shape{}, 0.5}}), ErrorCode::kInvalidArgument,
               "can't represent its default value 0.5");
  ExampleParser parser(kSpecs);
  parser.parse(bytes_of(serialized(2)), "a");
  EXPECT_ERROR(parser.floats(0), ErrorCode::kInvalidArgument, "contains 64-bit integers, not floats");
  EXPECT_ERROR(parser.tensor_spec(3), ErrorCode::kInvalidArgument, "variable length");
  EXPECT_ERROR(parser.tensor(4), ErrorCode::kInvalidArgument, "has 2 strings");
  std::array<std::byte, 4> small;
  EXPECT_ERROR(parser.copy(0, small), ErrorCode::kInvalidArgument,
               "has 8 bytes, but the memory for it has 4");
  ExampleBuilder builder;
  builder.add("a", std::span<const int64_t>());
  EXPECT_ERROR(builder.add("a", std::span<const float>()), ErrorCode::kInvalidArgument, "already added");
}

TEST(Example, TruncatedAnywhereIsAnErrorOrLacksAFeature) {
  ExampleParser parser(kSpecs);
  const std::string whole = serialized(3);
  expect_truncation_errors(
      whole, [&](const std::string& cut) { parser.parse(bytes_of(cut), "a"); }, ErrorCode::kBadFormat);
}

TEST(Example, FlippedBitsGiveAnExampleOrATypedError) {
  ExampleParser parser(kSpecs);
  const std::string whole = serialized(3);
  const size_t refused =
      count_refused_flips(whole, [&](const std::string& text) { parser.parse(bytes_of(text), "a"); });
  EXPECT_GT(refused, whole.size());
}

TEST(Example, HostileNestingIsAnError) {
  std::string text;
  for (int depth = 0; depth < 100'000; ++depth) text += "\x0b";  // a group that opens in a group
  ExampleParser parser({{"x"}});
  EXPECT_ERROR(parser.parse(bytes_of(text), "a"), ErrorCode::kBadFormat, "not a complete Example");
}

}  // namespace
}  // namespace isochron::data
