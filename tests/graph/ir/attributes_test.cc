#include "isochron/graph/ir/attributes.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "support/expect_error.h"

namespace isochron::graph {
namespace {

struct Tag final : AttributeObject {
  std::string str() const override { return "tag"; }
};

TEST(Attributes, KeepOrderAndPrintEveryType) {
  Attributes attributes{{"keep", true}, {"axis", int64_t{-1}}, {"rate", 0.5}};
  attributes.set("dtype", DType::kBF16);
  attributes.set("axes", Dims{0, 2});
  attributes.set("mode", std::string("same"));
  attributes.set("factors", std::vector<double>{1, 0.25});
  attributes.set("body", std::shared_ptr<const AttributeObject>(std::make_shared<Tag>()));
  EXPECT_EQ(attributes.str(),
            "keep=true, axis=-1, rate=0.5, dtype=bf16, axes=(0, 2), mode='same', "
            "factors=[1 0.25], body=tag");
  EXPECT_TRUE(attributes.has_objects());
  EXPECT_EQ(attributes.object<Tag>("body")->str(), "tag");
  attributes.erase("body");
  EXPECT_FALSE(attributes.has_objects());
  attributes.set("axis", int64_t{3});
  EXPECT_EQ(attributes.entries()[1].first, "axis");
  EXPECT_EQ(attributes.get<int64_t>("axis"), 3);
}

TEST(Attributes, CompareNumbersByTheirBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto one = [](double value) { return Attributes{{"value", value}}; };
  const auto list = [](double value) { return Attributes{{"values", std::vector<double>{1, value}}}; };
  for (const auto& make : {std::function<Attributes(double)>(one), std::function<Attributes(double)>(list)}) {
    EXPECT_NE(make(0.0), make(-0.0));
    EXPECT_NE(make(0.0).hash(), make(-0.0).hash());
    EXPECT_EQ(make(nan), make(nan));
    EXPECT_EQ(make(2).hash(), make(2).hash());
    EXPECT_NE(make(2), make(3));
  }
  EXPECT_NE(one(1), (Attributes{{"value", int64_t{1}}}));
  EXPECT_NE(one(1), (Attributes{{"rate", 1.0}}));
}

TEST(Attributes, MissingOrOfAnotherTypeIsAnErrorThatListsWhatIsThere) {
  const Attributes attributes{{"axis", int64_t{1}}};
  EXPECT_ERROR(attributes.get<int64_t>("axes"), ErrorCode::kInvalidArgument,
               "'axes' of that type among: axis=1");
  EXPECT_ERROR(attributes.get<double>("axis"), ErrorCode::kInvalidArgument, "'axis'");
  EXPECT_EQ(attributes.get_or<bool>("keep", true), true);
  EXPECT_EQ(attributes.get_or<int64_t>("axis", 7), 1);
}

TEST(Attributes, EqualOnesHashEqualAndObjectsCompareByIdentity) {
  const auto tag = std::shared_ptr<const AttributeObject>(std::make_shared<Tag>());
  const auto other = std::shared_ptr<const AttributeObject>(std::make_shared<Tag>());
  const Attributes a{{"axes", Dims{1, 2}}, {"body", tag}};
  const Attributes b{{"axes", Dims{1, 2}}, {"body", tag}};
  const Attributes c{{"axes", Dims{1, 2}}, {"body", other}};
  const Attributes d{{"axes", Dims{2, 1}}, {"body", tag}};
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
  EXPECT_NE(a.hash(), d.hash());
  EXPECT_NE(hash_spec(0, {DType::kF32, {2, 3}}), hash_spec(0, {DType::kF32, {3, 2}}));
  EXPECT_NE(hash_spec(0, {DType::kF32, {2, 3}}), hash_spec(0, {DType::kF64, {2, 3}}));
}

}  // namespace
}  // namespace isochron::graph
