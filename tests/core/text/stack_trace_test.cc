#include "isochron/core/text/stack_trace.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "isochron/core/files/mapped_file.h"
#include "isochron/core/text/symbols.h"
#include "support/sanitizers.h"

namespace isochron {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

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
  if (!kSanitizer) {  // which takes part in unwinding
    EXPECT_EQ(text.substr(0, inner), "#0");
  }
  EXPECT_THAT(text, ContainsRegex("\n#[0-9]+ main "));
}

TEST(FunctionNames, AreFoundByAnyAddressWithin) {
  const MappedFile program("/proc/self/exe");
  const FunctionNames names(program.bytes());
  Dl_info here;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&outer), &here), 0);
  const auto address = reinterpret_cast<uintptr_t>(&outer);
  const uintptr_t base = names.relocatable() ? reinterpret_cast<uintptr_t>(here.dli_fbase) : 0;
  EXPECT_THAT(std::string(names.find(address - base)), HasSubstr("outer"));
  EXPECT_EQ(names.find(address - base), names.find(address - base + 4));
  EXPECT_EQ(names.find(~uint64_t{0}), "");
  EXPECT_EQ(FunctionNames().find(5), "");
}

TEST(FunctionNames, SurviveFilesThatAreCutOrWrong) {
  const MappedFile program("/proc/self/exe");
  const std::vector<std::byte> whole(program.bytes().begin(), program.bytes().end());
  for (size_t size = 0; size < whole.size(); size += std::max<size_t>(1, size / 3)) {
    static_cast<void>(FunctionNames({whole.data(), size}).find(4096));
  }
  std::vector<std::byte> wrong(whole.begin(), whole.begin() + 64);
  for (size_t i = 16; i < wrong.size(); ++i) {
    wrong[i] = std::byte{0xFF};
    EXPECT_EQ(FunctionNames(wrong).find(4096), "");
  }
}

}  // namespace
}  // namespace isochron
