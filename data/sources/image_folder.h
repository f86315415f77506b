// Images from a folder with one subfolder per class, which holds JPEG or PNG files at any depth; or from a
// list of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/shape.h"
#include "isochron/data/images/image.h"
#include "isochron/data/images/image_ops.h"

namespace isochron::data {

struct ImageFolderOptions {
  int64_t height = 0, width = 0;  // every image is resized to this
  int channels = 3;               // 1, 3 or 4
  DType dtype = DType::kU8;       // or f32, in [0, 1]
  ResizeOptions resize = {};
  ImageLimits limits = {};
  uint64_t max_file_bytes = uint64_t{1} << 28;
};

/// Rows are images: those of the first class by path, then those of the next. Reading is safe from several
/// threads; each keeps memory for the largest file and image that it has seen, within the options' limits.
class ImageFolder {
 public:
  /// Lists the files that end in .jpg, .jpeg or .png, in upper or lower case. Hidden files and folders,
  /// links to folders, and files that aren't below a class folder are skipped. Throws kIo; kInvalidArgument
  /// for a size below 1, other channels or dtypes; kBadFormat for no class, or a class without images.
  ImageFolder(const std::filesystem::path& folder, const ImageFolderOptions& options);

  /// Uses these files as rows, with any names; `labels` has one label per file, or is empty: then all labels
  /// are 0. There are no class names. Throws kInvalidArgument as above, and for no file or a number of
  /// labels that differs from that of the files.
  ImageFolder(std::span<const std::filesystem::path> files, std::span<const int64_t> labels,
              const ImageFolderOptions& options);

  /// The names of the class folders, sorted; labels are indices into this list.
  const std::vector<std::string>& classes() const { return classes_; }
  int64_t rows() const { return static_cast<int64_t>(files_.size()); }
  /// Throw kOutOfRange.
  const std::filesystem::path& file(int64_t row) const;
  int64_t label(int64_t row) const;

  /// u8 or f32 (height, width, channels).
  TensorSpec row_spec() const;
  /// Decodes the file of `row` and resizes it to memory of row_spec()'s bytes, without keeping the aspect
  /// ratio. After a thread has read its largest image, only the decoders allocate. Throws kOutOfRange,
  /// kInvalidArgument, kIo, kOutOfMemory beyond the memory budget (data/element/pipeline_memory.h), and like
  /// decode_image.
  void read(int64_t row, std::span<std::byte> into) const;

 private:
  struct File {
    std::filesystem::path path;
    int64_t label;
  };
  explicit ImageFolder(const ImageFolderOptions& options);
  const File& at(int64_t row) const;

  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace isochron::data
