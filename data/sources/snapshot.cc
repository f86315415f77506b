#include "isochron/data/sources/snapshot.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "isochron/core/files/file.h"
#include "isochron/data/element/stacking.h"
#include "isochron/data/formats/npy.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/data/sources/files.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

constexpr std::string_view kWhere = "snapshot";
constexpr const char* kManifest = "snapshot.txt";

/// An NPY file to which rows are appended. Its header holds the number of rows, so it is rewritten at the
/// end.
class GrowingNpy {
 public:
  GrowingNpy(const std::filesystem::path& path, const TensorSpec& row) : path_(path), row_(row) {
    file_.open(path, std::ios::binary | std::ios::trunc);
    write(npy_header(stacked_spec(kMaxRows)));
  }
  void append(const Tensor& row) {
    write({reinterpret_cast<const char*>(row.raw()), row.size_bytes()});
    ++rows_;
  }
  void finish() {
    const std::string header = npy_header(stacked_spec(rows_), npy_header(stacked_spec(kMaxRows)).size());
    file_.seekp(0);
    write(header);
    file_.close();
    const int descriptor = ::open(path_.c_str(), O_RDONLY);
    const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
    if (descriptor >= 0) ::close(descriptor);
    require(!file_.fail() && synced, ErrorCode::kIo, path_.string(), "cannot be written; is the disk full?");
  }

 private:
  static constexpr int64_t kMaxRows = INT64_MAX;  // its digits keep room for any number of rows

  TensorSpec stacked_spec(int64_t rows) const {
    TensorSpec result{row_.dtype, Shape{rows}};
    for (int64_t extent : row_.shape) result.shape.push_back(extent);
    return result;
  }
  void write(std::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    require(!file_.fail(), ErrorCode::kIo, path_.string(), "cannot be written; is the disk full?");
  }

  std::filesystem::path path_;
  TensorSpec row_;
  std::ofstream file_;
  int64_t rows_ = 0;
};

std::string manifest_of(const Recipe& recipe, std::string_view version) {
  std::string text =
      fmt::format("isochron snapshot 1\nversion {}\nchain {:016x}\n", version, fingerprint(recipe));
  for (const std::string& name : recipe.results()[kFull].names) text += fmt::format("tensor {}\n", name);
  return text;
}

std::string file_name(size_t tensor) { return fmt::format("{}.npy", tensor); }

void write_elements(const std::shared_ptr<const Recipe>& recipe, const std::filesystem::path& folder) {
  const Layout& layout = recipe->results()[kFull];
  std::vector<std::unique_ptr<GrowingNpy>> arrays;
  for (size_t i = 0; i < layout.specs.size(); ++i) {
    arrays.push_back(std::make_unique<GrowingNpy>(folder / file_name(i), layout.specs[i]));
  }
  Loader loader(recipe);
  loader.begin_epoch(0);
  bool any = false;
  while (const Element* element = loader.next()) {
    any = true;
    for (int i = 0; i < element->size(); ++i) {
      require_contiguous(*element, i, kWhere);
      arrays[static_cast<size_t>(i)]->append((*element)[i]);
    }
  }
  require(any, ErrorCode::kInvalidArgument, kWhere, "the dataset yields no element");
  for (const auto& array : arrays) array->finish();
}

/// Writes a sibling folder and renames it at the end, so that an existing `folder` is always complete.
void make_folder(const std::shared_ptr<const Recipe>& recipe, const std::filesystem::path& folder,
                 const std::string& manifest) {
  static std::atomic<int> number{0};  // of those that this process makes
  const std::filesystem::path temporary = folder.string() + fmt::format(".{}-{}.tmp", getpid(), number++);
  std::error_code error;
  std::filesystem::remove_all(temporary, error);
  try {
    std::filesystem::create_directories(temporary);
    write_elements(recipe, temporary);
    write_file_atomically(temporary / kManifest, manifest);
    sync_folder(temporary);
    std::filesystem::rename(temporary, folder);
    sync_folder(folder.has_parent_path() ? folder.parent_path() : ".");
  } catch (const std::filesystem::filesystem_error& failure) {
    std::filesystem::remove_all(temporary, error);
    if (std::filesystem::exists(folder / kManifest, error))
      return;  // another process or thread made it first
    fail(ErrorCode::kIo, folder.string(), "the snapshot cannot be written: {}", failure.code().message());
  } catch (...) {
    std::filesystem::remove_all(temporary, error);
    throw;
  }
}

}  // namespace

Dataset snapshot(const Dataset& dataset, const std::filesystem::path& place, std::string_view version) {
  const std::filesystem::path folder = place.has_filename() ? place : place.parent_path();
  const std::shared_ptr<const Recipe>& recipe = dataset.recipe();
  require(version.find('\n') == std::string_view::npos, ErrorCode::kInvalidArgument, kWhere,
          "the version must be one line");
  require(recipe->size != kInfinite, ErrorCode::kInvalidArgument, kWhere,
          "the dataset has no end; limit it with take()");
  require(recipe->results().size() == 1 && recipe->results()[kFull].fixed(), ErrorCode::kInvalidArgument,
          kWhere, "elements need one signature with fixed extents, got {}", merged(recipe->results()).str());
  const std::string manifest = manifest_of(*recipe, version);
  if (!std::filesystem::exists(folder)) make_folder(recipe, folder, manifest);
  const auto found = read_regular_file(folder / kManifest, size_t{1} << 20);
  require(std::string_view(reinterpret_cast<const char*>(found.data()), found.size()) == manifest,
          ErrorCode::kBadFormat, (folder / kManifest).string(),
          "the folder contains a snapshot of another dataset or version; name another folder, or remove it");
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  for (size_t i = 0; i < recipe->results()[kFull].names.size(); ++i) {
    files.emplace_back(recipe->results()[kFull].names[i], folder / file_name(i));
  }
  return from_npy(files);
}

}  // namespace isochron::data
