#include "isochron/data/sources/image_folder.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/text/encoding.h"
#include "isochron/data/element/pipeline_memory.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool is_image(const fs::path& path) {
  const std::string ending = in_lower_case(path.extension().string());
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code ignored;
    if (hidden(at->path())) {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
    } else if (is_image(at->path()) && at->is_regular_file(ignored)) {
      found.push_back(at->path());
    }
  }
  require(!failed, ErrorCode::kIo, folder.string(), "cannot be listed: {}", failed.message());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> class_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    std::error_code ignored;
    if (!hidden(at->path()) && at->is_directory(ignored)) found.push_back(at->path());
  }
  require(!failed, ErrorCode::kIo, folder.string(), "cannot be listed: {}", failed.message());
  std::ranges::sort(found, {}, [](const fs::path& path) { return path.filename().string(); });
  return found;
}

/// What a thread keeps from file to file.
struct ThreadMemory {
  std::vector<std::byte> file, pixels;
  ImageScratch scratch;
};

}  // namespace

ImageFolder::ImageFolder(const ImageFolderOptions& options) : options_(options) {
  require(options.height >= 1 && options.width >= 1, ErrorCode::kInvalidArgument, "ImageFolder",
          "height and width must be at least 1, got {} and {}", options.height, options.width);
  require(options.channels == 1 || options.channels == 3 || options.channels == 4,
          ErrorCode::kInvalidArgument, "ImageFolder", "images must have 1, 3 or 4 channels, got {}",
          options.channels);
  require(options.dtype == DType::kU8 || options.dtype == DType::kF32, ErrorCode::kInvalidArgument,
          "ImageFolder", "images must be u8 or f32, got {}", dtype_name(options.dtype));
  static_cast<void>(row_spec().size_bytes());
}

ImageFolder::ImageFolder(const fs::path& folder, const ImageFolderOptions& options) : ImageFolder(options) {
  for (const fs::path& class_folder : class_folders(folder)) {
    const auto label = static_cast<int64_t>(classes_.size());
    std::vector<fs::path> images = images_below(class_folder);
    require(!images.empty(), ErrorCode::kBadFormat, class_folder.string(),
            "contains no image (.jpg, .jpeg, .png); every folder is a class and needs at least one");
    for (fs::path& path : images) files_.push_back({std::move(path), label});
    classes_.push_back(class_folder.filename().string());
  }
  require(!classes_.empty(), ErrorCode::kBadFormat, folder.string(),
          "contains no folder; expected one for each class");
}

ImageFolder::ImageFolder(std::span<const fs::path> files, std::span<const int64_t> labels,
                         const ImageFolderOptions& options)
    : ImageFolder(options) {
  require(!files.empty() && (labels.empty() || labels.size() == files.size()), ErrorCode::kInvalidArgument,
          "ImageFolder",
          "expected at least one file, and one label per file or none, got {} files and {} labels",
          files.size(), labels.size());
  for (size_t i = 0; i < files.size(); ++i) files_.push_back({files[i], labels.empty() ? 0 : labels[i]});
}

const ImageFolder::File& ImageFolder::at(int64_t row) const {
  require(row >= 0 && row < rows(), ErrorCode::kOutOfRange, "ImageFolder",
          "row {} lies outside the {} images", row, rows());
  return files_[static_cast<size_t>(row)];
}

const fs::path& ImageFolder::file(int64_t row) const { return at(row).path; }
int64_t ImageFolder::label(int64_t row) const { return at(row).label; }

TensorSpec ImageFolder::row_spec() const {
  return {options_.dtype, {options_.height, options_.width, options_.channels}};
}

void ImageFolder::read(int64_t row, std::span<std::byte> into) const {
  thread_local ThreadMemory memory;
  const fs::path& path = file(row);
  const std::string& where = path.native();
  require(into.size() == row_spec().size_bytes(), ErrorCode::kInvalidArgument, "ImageFolder",
          "a row has {} bytes, but the memory for it has {}", row_spec().size_bytes(), into.size());
  read_regular_file(path, memory.file, options_.max_file_bytes);
  const ImageInfo info = read_image_info(memory.file, where, options_.limits);
  const auto pixel_bytes = static_cast<size_t>(info.height * info.width * options_.channels);
  ReadMemory held(where);
  held.hold(memory.file.size() + pixel_bytes);
  memory.pixels.resize(pixel_bytes);
  decode_image(memory.file, options_.channels, memory.pixels, where, options_.limits);
  const ImageView<const uint8_t> image(reinterpret_cast<const uint8_t*>(memory.pixels.data()), info.height,
                                       info.width, options_.channels);
  const auto resize_to = [&]<typename Pixel>(Pixel* pixels) {
    resize(image, ImageView<Pixel>(pixels, options_.height, options_.width, options_.channels),
           memory.scratch, options_.resize);
  };
  if (options_.dtype == DType::kU8) {
    resize_to(reinterpret_cast<uint8_t*>(into.data()));
  } else {
    resize_to(reinterpret_cast<float*>(into.data()));
  }
}

}  // namespace isochron::data
