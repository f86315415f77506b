#include "isochron/core/cuda/kernel_cache.h"

#include <gmock/gmock.h>

#include <fstream>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::cuda {
namespace {

namespace fs = std::filesystem;

class CountingCompiler final : public Compiler {
 public:
  int version() override { return of_version; }
  std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                            bool device_runtime) override {
    ++compilations;
    if (text == "wrong") fail(ErrorCode::kBadFormat, name, "an error in the text");
    std::string made = fmt::format("made of {} for {}.{} {}\n", text, major, minor, device_runtime);
    made += '\0';  // bytes of any kind
    made += "\n\n\xff";
    return {made.begin(), made.end()};
  }
  int of_version = 13000;
  int compilations = 0;
};

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

TEST(KernelCache, CompilesOnceForAllProcesses) {
  const TempFolder folder;
  CountingCompiler compiler;
  const std::vector<char> made = KernelCache(compiler, folder / "new").compile("a", "kernels", 9, 0, false);
  EXPECT_EQ(KernelCache(compiler, folder / "new").compile("a", "other name", 9, 0, false), made);
  EXPECT_EQ(compiler.compilations, 1);
}

TEST(KernelCache, WhatDiffersIsCompiledByItself) {
  const TempFolder folder;
  CountingCompiler compiler;
  KernelCache cache(compiler, folder.path());
  const std::vector<char> made = cache.compile("a", "kernels", 9, 0, false);
  EXPECT_NE(cache.compile("b", "kernels", 9, 0, false), made);
  EXPECT_NE(cache.compile("a", "kernels", 8, 0, false), made);
  EXPECT_NE(cache.compile("a", "kernels", 9, 0, true), made);
  compiler.of_version = 13010;
  EXPECT_EQ(cache.compile("a", "kernels", 9, 0, false), made) << "compiled by the other compiler";
  EXPECT_EQ(compiler.compilations, 5);
  for (int i = 0; i < 2; ++i)
    EXPECT_ERROR(cache.compile("wrong", "kernels", 9, 0, false), ErrorCode::kBadFormat,
                 "an error in the text");
  EXPECT_EQ(compiler.compilations, 7);
}

TEST(KernelCache, DamagedFilesCountForNothingAndAreReplaced) {
  const TempFolder folder;
  CountingCompiler compiler;
  KernelCache cache(compiler, folder.path());
  const std::vector<char> made = cache.compile("a", "kernels", 9, 0, false);
  const fs::path path = files_of(folder.path()).at(0);
  const std::vector<std::byte> whole = read_file(path);
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  int expected = 1;
  const auto check = [&](const std::string& damaged, const std::string& how) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(cache.compile("a", "kernels", 9, 0, false), made) << how;
    EXPECT_EQ(compiler.compilations, ++expected) << how;
    EXPECT_EQ(read_file(path), whole) << how;
  };
  for (size_t size = 0; size < text.size(); ++size)
    check(text.substr(0, size), fmt::format("cut at {}", size));
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    check(flipped, fmt::format("flipped at {}", at));
  }
  check(text + "x", "longer");
}

TEST(KernelCache, IsBounded) {
  const TempFolder folder;
  CountingCompiler compiler;
  KernelCache cache(compiler, folder.path());
  for (size_t i = 0; i < KernelCache::kMaxFiles + 5; ++i)
    cache.compile(fmt::format("text {}", i), "kernels", 9, 0, false);
  EXPECT_EQ(files_of(folder.path()).size(), KernelCache::kMaxFiles);
}

TEST(KernelCache, AFolderThatCantBeWrittenCostsNothingElse) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "in the way";
  CountingCompiler compiler;
  KernelCache cache(compiler, folder / "file");
  EXPECT_FALSE(cache.compile("a", "kernels", 9, 0, false).empty());
  EXPECT_FALSE(cache.compile("a", "kernels", 9, 0, false).empty());
  EXPECT_EQ(compiler.compilations, 2);
  EXPECT_FALSE(KernelCache(compiler, "").compile("a", "kernels", 9, 0, false).empty());
}

}  // namespace
}  // namespace isochron::cuda
