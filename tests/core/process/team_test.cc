#include "isochron/core/process/team.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <unistd.h>

#include <cstdio>

#include "isochron/core/base/error.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace isochron {
namespace {

/// The exit status of a death test's process: the code of the error that `body` throws, 0 without one.
template <typename Body>
[[noreturn]] void exit_with_code(Body body) {
  try {
    body();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ::_exit(exit_code(error.code()));
  }
  ::_exit(0);
}

void limit_address_space(size_t bytes) {
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(99);
}

TEST(TeamDeathTest, TooManyThreadsAreAnErrorOfOurs) {
  if (kSanitizer) GTEST_SKIP() << "address space can't be limited here";
  EXPECT_EXIT(exit_with_code([] {
                limit_address_space(size_t{600} << 20);  // no room for 200 stacks of 8 MB
                make_team(200);
              }),
              testing::ExitedWithCode(4),
              "no room for 200 compute threads: Resource temporarily unavailable");
}

TEST(TeamDeathTest, AddressSpaceIsAskedForBeforehand) {
  if (kSanitizer) GTEST_SKIP() << "address space can't be limited here";
  EXPECT_NO_THROW(require_address_space(size_t{16} << 20, "here"));
  EXPECT_EXIT(exit_with_code([] {
                limit_address_space(size_t{1} << 20);
                require_address_space(size_t{16} << 20, "here");
              }),
              testing::ExitedWithCode(4), "\\[here\\] less than 16 MB of address space are left");
}

}  // namespace
}  // namespace isochron
