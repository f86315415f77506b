#include "isochron/core/text/stack_trace.h"

#include <gmock/gmock.h>

#include <string>

#include "support/sanitizers.h"

namespace isochron {
namespace {

using testing::ContainsRegex;

[[gnu::noipa]] void innermost(StackTrace& trace) {
  trace.capture();
  asm volatile("");  // no tail call, which would leave no frame
}
[[gnu::noipa]] void outer(StackTrace& trace) {
  innermost(trace);
  asm volatile("");
}

TEST(StackTrace, NamesFunctionsInnermostFirst) {
  StackTrace::prepare();
  StackTrace trace;
  EXPECT_TRUE(trace.empty());
  EXPECT_EQ(trace.text(), "");
  outer(trace);
  EXPECT_FALSE(trace.empty());
  const std::string text = trace.text();
  const size_t inner =
      text.find(" isochron::(anonymous namespace)::innermost(isochron::StackTrace&) (core_test+0x");
  const size_t outer_one =
      text.find(" isochron::(anonymous namespace)::outer(isochron::StackTrace&) (core_test+0x");
  ASSERT_NE(inner, std::string::npos) << text;
  ASSERT_NE(outer_one, std::string::npos) << text;
  EXPECT_LT(inner, outer_one);
  if (!kSanitizer) {  // sanitizers take part in unwinding
    EXPECT_EQ(text.substr(0, inner), "#0");
  }
  EXPECT_THAT(text, ContainsRegex("\n#[0-9]+ main "));
}

}  // namespace
}  // namespace isochron
