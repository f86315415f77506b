#include "isochron/core/text/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace isochron {
namespace {

TEST(JsonDepth, CountsWhatIsOpenOutsideStrings) {
  const std::string open(kDeepestJson, '['), close(kDeepestJson, ']');
  EXPECT_FALSE(json_too_deep(""));
  EXPECT_FALSE(json_too_deep(open + close + open + close));
  EXPECT_TRUE(json_too_deep("{\"a\": " + open + close + "}"));
  EXPECT_TRUE(json_too_deep(open + "["));
  EXPECT_FALSE(json_too_deep(open + "\"[{\"" + close)) << "a string";
  EXPECT_FALSE(json_too_deep(open + R"("\"[{\\")" + close)) << "a string with a quotation mark";
  EXPECT_TRUE(json_too_deep(open + R"("\\"[)")) << "behind a string that ends with a backslash";
  EXPECT_FALSE(json_too_deep("\"\\"));
}

}  // namespace
}  // namespace isochron
