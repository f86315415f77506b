#include "isochron/comm/group/broadcast_text.h"

#include <gmock/gmock.h>

#include <array>

#include "support/rank_threads.h"

namespace isochron::comm {
namespace {

std::string all_bytes(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>(static_cast<unsigned char>(i * 7 + i / 256));
  return text;
}

TEST(BroadcastText, GivesAllRanksWhatTheFirstHas) {
  const std::array<std::string, 5> texts = {"", "one line", std::string("\0a\0", 3), all_bytes(1 << 20), ""};
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
      for (const std::string& text : texts) {
        // Of another length on every other rank.
        const std::string own =
            group->rank() == 0 ? text : std::string(static_cast<size_t>(group->rank()) * 1000, 'x');
        EXPECT_TRUE(broadcast_text(*group, own, "a text") == text)
            << "rank " << group->rank() << " of " << ranks << ", " << text.size() << " bytes";
      }
    });
  }
}

}  // namespace
}  // namespace isochron::comm
