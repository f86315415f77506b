#include "isochron/core/process/process_space.h"

#include <gtest/gtest.h>

namespace isochron {
namespace {

TEST(ProcessSpace, IsTheSameWithinAProcess) {
  const std::string space = process_space();
  EXPECT_EQ(space, process_space());
  EXPECT_NE(space.find('/'), std::string::npos) << "the start of the machine and the namespace";
  EXPECT_NE(host_name(), "");
}

}  // namespace
}  // namespace isochron
