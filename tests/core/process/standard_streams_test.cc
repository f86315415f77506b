#include "isochron/core/process/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>

namespace isochron {
namespace {

TEST(StandardStreams, WaitForTheReaderOfANonBlockingPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  std::string text(300'000, ' ');  // more than the pipe holds
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  std::string got;
  std::thread reader([&] {
    std::array<char, 50'000> part;
    for (;;) {
      ::usleep(5'000);
      const ssize_t bytes = ::read(ends[0], part.data(), part.size());
      if (bytes <= 0) break;
      got.append(part.data(), static_cast<size_t>(bytes));
    }
  });
  std::FILE* const file = ::fdopen(ends[1], "w");
  EXPECT_NE(file, nullptr);
  if (file != nullptr) {
    write_terminal_command(file, text);
    std::fclose(file);
  }
  reader.join();
  ::close(ends[0]);
  EXPECT_TRUE(got == text) << got.size() << " bytes";
}

}  // namespace
}  // namespace isochron
