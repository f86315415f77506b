#include "isochron/data/sources/image_folder.h"

#include <gmock/gmock.h>

#include <thread>

#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::Each;
using testing::ElementsAre;

Tensor filled(int64_t height, int64_t width, int64_t channels, int value) {
  const Tensor image = empty({DType::kU8, {height, width, channels}});
  std::ranges::fill(image.span<uint8_t>(), static_cast<uint8_t>(value));
  return image;
}

class ImageFolders : public testing::Test {
 protected:
  ImageFolders() {
    write("dogs/b.PNG", encode_png(filled(4, 6, 3, 40)));
    write("dogs/a.jpg", encode_jpeg(filled(9, 5, 1, 20), 100));
    write("cats/deep/z.jpeg", encode_jpeg(filled(16, 16, 3, 200), 100));
    write("cats/.hidden.png", "x");
    write("cats/notes.txt", "x");
    write("beside.png", "x");
  }
  void write(const std::string& name, const std::string& content) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_quickly(path, content);
  }
  template <typename T>
  static std::vector<T> row(const ImageFolder& images, int64_t row) {
    EXPECT_EQ(images.row_spec().dtype, dtype_of<T>);
    std::vector<T> pixels(static_cast<size_t>(images.row_spec().shape.elems()));
    images.read(row, std::as_writable_bytes(std::span(pixels)));
    return pixels;
  }
  TempFolder folder_;
};

TEST_F(ImageFolders, HaveAClassForEachFolderInOrder) {
  const ImageFolder images(folder_.path(), {.height = 3, .width = 2});
  EXPECT_THAT(images.classes(), ElementsAre("cats", "dogs"));
  ASSERT_EQ(images.rows(), 3);
  EXPECT_EQ(images.file(0).filename(), "z.jpeg");
  EXPECT_EQ(images.file(1).filename(), "a.jpg");
  EXPECT_EQ(images.file(2).filename(), "b.PNG");
  EXPECT_THAT((std::array{images.label(0), images.label(1), images.label(2)}), ElementsAre(0, 1, 1));
  EXPECT_ERROR(images.label(3), ErrorCode::kOutOfRange, "row 3 lies outside the 3 images");
}

TEST_F(ImageFolders, GiveRowsOfOneSize) {
  const ImageFolder images(folder_.path(), {.height = 3, .width = 2});
  EXPECT_EQ(images.row_spec(), (TensorSpec{DType::kU8, {3, 2, 3}}));
  EXPECT_THAT(row<uint8_t>(images, 0), Each(200));
  EXPECT_THAT(row<uint8_t>(images, 1), Each(20));
  EXPECT_THAT(row<uint8_t>(images, 2), Each(40));
  const ImageFolder floats(folder_.path(), {.height = 5, .width = 7, .channels = 1, .dtype = DType::kF32});
  EXPECT_THAT(row<float>(floats, 2), Each(testing::FloatNear(40 / 255.0f, 1e-6f)));
  std::vector<std::byte> small(5);
  EXPECT_ERROR(images.read(0, small), ErrorCode::kInvalidArgument,
               "a row has 18 bytes, but the memory for it has 5");
}

TEST_F(ImageFolders, AreReadBySeveralThreads) {
  const ImageFolder images(folder_.path(), {.height = 8, .width = 8});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        EXPECT_THAT(row<uint8_t>(images, (t + i) % 3), Each(std::array{200, 20, 40}[(t + i) % 3]));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ImageFolders, ErrorsNameTheFile) {
  write("dogs/c.png", encode_png(filled(4, 6, 3, 40)).substr(0, 60));
  write("dogs/d.png", encode_png(filled(40, 60, 3, 40)));
  const ImageFolder images(folder_.path(), {.height = 3, .width = 2, .limits = {.max_side = 50}});
  EXPECT_ERROR(row<uint8_t>(images, 3), ErrorCode::kBadFormat, "dogs/c.png] ");
  EXPECT_ERROR(row<uint8_t>(images, 4), ErrorCode::kBadFormat, "dogs/d.png] the image has 40 x 60 pixels");
  std::filesystem::remove(folder_ / "dogs/a.jpg");
  EXPECT_ERROR(row<uint8_t>(images, 1), ErrorCode::kIo, "dogs/a.jpg");
}

TEST_F(ImageFolders, MayBeAListOfFiles) {
  const std::filesystem::path files[] = {folder_ / "dogs/b.PNG", folder_ / "cats/deep/z.jpeg"};
  const int64_t labels[] = {7, 3};
  const ImageFolderOptions options = {.height = 3, .width = 2};
  const ImageFolder images(files, labels, options);
  ASSERT_EQ(images.rows(), 2);
  EXPECT_TRUE(images.classes().empty());
  EXPECT_EQ(images.label(1), 3);
  EXPECT_THAT(row<uint8_t>(images, 0), Each(40));
  EXPECT_EQ(ImageFolder(files, {}, options).label(1), 0);
  EXPECT_ERROR(ImageFolder(files, std::span(labels).first(1), options), ErrorCode::kInvalidArgument,
               "2 files and 1 labels");
  EXPECT_ERROR(ImageFolder({}, {}, options), ErrorCode::kInvalidArgument, "0 files");
}

TEST_F(ImageFolders, ThatArentAreErrors) {
  EXPECT_ERROR(ImageFolder(folder_ / "none", {.height = 3, .width = 2}), ErrorCode::kIo,
               "none] cannot be listed");
  EXPECT_ERROR(ImageFolder(folder_ / "dogs", {.height = 3, .width = 2}), ErrorCode::kBadFormat,
               "contains no folder");
  std::filesystem::create_directory(folder_ / "birds");
  EXPECT_ERROR(ImageFolder(folder_.path(), {.height = 3, .width = 2}), ErrorCode::kBadFormat,
               "birds] contains no image");
  EXPECT_ERROR(ImageFolder(folder_.path(), {.height = 0, .width = 2}), ErrorCode::kInvalidArgument,
               "at least 1");
  EXPECT_ERROR(ImageFolder(folder_.path(), {.height = 1, .width = 2, .channels = 2}),
               ErrorCode::kInvalidArgument, "channels, got 2");
}

}  // namespace
}  // namespace isochron::data
