#include "isochron/core/base/hash.h"

#include <gtest/gtest.h>

namespace isochron {
namespace {

TEST(Hash, IsFnv1a) {
  EXPECT_EQ(hash_more(kHashOfNothing, ""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_more(kHashOfNothing, "a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_more(kHashOfNothing, "foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(hash_more(hash_more(kHashOfNothing, "foo"), "bar"), 0x85944171f73967e8u);
  EXPECT_EQ(hash_more(kHashOfNothing, "\xff"), hash_more(kHashOfNothing, static_cast<unsigned char>(255)));
}

}  // namespace
}  // namespace isochron
